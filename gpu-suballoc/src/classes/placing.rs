//! What pages and slabs have in common, and the two of them as a pool has them: with their groups, under its lock.

#![forbid(unsafe_code)]

use super::groups::Groups;
use super::pages::Pages;
use super::segments::Donation;
use super::slabs::Slabs;
use super::types::{Found, GiveError, Given, Lack, Need, Part, Piece, RangeNeed, Spare, Taken};
use crate::range::Memory;

/// What is in the pages or slabs of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Regions that live.
    pub(crate) live: u32,
    /// Their bytes.
    pub(crate) used: u64,
    /// Pages or slabs.
    pub(crate) ranges: u32,
    /// Their bytes.
    pub(crate) reserved: u64,
}

/// Regions placed into ranges that are handed in, with host memory that is handed in. One thread at a time, the owner.
///
/// A take that lacks something says what, and is repeated when it is there: host memory first, then the range. Nothing here calls
/// anybody, so all of it may be done under a lock, and what is lacking be fetched outside of it. `groups` are always the same.
pub(crate) trait Placing {
    /// What the user wants to know of a page or slab.
    type Home: Copy;

    /// Places a region; `size` and `alignment` in bytes.
    ///
    /// # Errors
    /// What is lacking; nothing was changed.
    fn take(&mut self, groups: &Groups, size: u64, alignment: u64, word: u32) -> Result<Taken, Lack>;

    /// Gives a region back, if its word is `word`. Never needs memory.
    ///
    /// # Errors
    /// Why there is no such live region; nothing was changed.
    fn give(&mut self, groups: &Groups, group: u32, slot: u32, generation: u32, word: u32) -> Result<Given, GiveError>;

    /// Takes back a region that another thread claimed. `None` where it was taken back already.
    fn settle(&mut self, groups: &Groups, group: u32, slot: u32) -> Option<Given>;

    /// Where a live region is.
    ///
    /// # Errors
    /// As [`give`](Placing::give).
    fn find(&self, groups: &Groups, group: u32, slot: u32, generation: u32) -> Result<Found, GiveError>;

    /// What the user said of the page or slab that a live region is in.
    fn home(&self, groups: &Groups, group: u32) -> Option<&Self::Home>;

    /// Hands a range in: `need` is what was lacking, `base` its offset. Answers with the number of the page or slab.
    ///
    /// # Errors
    /// Host memory that is lacking after all; nothing was changed.
    fn add(&mut self, groups: &Groups, home: Self::Home, base: u64, need: RangeNeed) -> Result<u32, Lack>;

    /// Takes out an empty page or slab, where all empty ones have more than `keep` bytes; with `keep` 0 also what waits for the next take.
    fn spare(&mut self, groups: &Groups, keep: u64) -> Option<Spare<Self::Home>>;

    /// The live regions of a page or slab, in order of their offsets.
    fn walk(&self, groups: &Groups, number: u32, see: &mut dyn FnMut(Piece));

    /// Numbers of pages or slabs are below this.
    fn numbers(&self, groups: &Groups) -> u32;

    /// The largest region there can be, in bytes.
    fn largest(&self) -> u64;

    fn totals(&self) -> Totals;

    /// Adds headers of pages or slabs.
    fn supply_headers(&mut self, donation: Donation) -> Option<Memory>;

    /// A group that was made waits for a page or a range.
    fn keep_group(&mut self, groups: &Groups, number: u32);

    /// At the end of it all: host memory to be given back, until there is none.
    fn withdraw(&mut self) -> Option<Memory>;

    /// Hands in host memory, of the layout that was lacking. What is not needed any more comes back.
    fn supply(&mut self, groups: &Groups, need: Need, donation: Donation) -> Option<Memory> {
        match need.part {
            Part::Headers => self.supply_headers(donation),
            Part::Groups => groups.supply_headers(donation),
            Part::Seats(seats) => match groups.supply_seats(donation, seats) {
                Ok(number) => {
                    self.keep_group(groups, number);
                    None
                }
                Err(memory) => Some(memory),
            },
        }
    }
}

/// Pages or slabs with their groups: all under one lock, or in one hand. Each call is the [`Placing`] one of its name.
pub(crate) struct Placed<P> {
    groups: Groups,
    class: P,
}

/// Transient pages as a pool has them.
pub(crate) type TransientClass<H> = Placed<Pages<H>>;
/// Slabs as a pool has them.
pub(crate) type SlabClass<H> = Placed<Slabs<H>>;

impl<P: Placing> Placed<P> {
    /// Over a class without a page or slab.
    pub(crate) const fn new(class: P) -> Self {
        Self { groups: Groups::new(), class }
    }

    #[inline(always)]
    pub(crate) fn take(&mut self, size: u64, alignment: u64, word: u32) -> Result<Taken, Lack> {
        self.class.take(&self.groups, size, alignment, word)
    }

    #[inline]
    pub(crate) fn give(&mut self, group: u32, slot: u32, generation: u32, word: u32) -> Result<Given, GiveError> {
        self.class.give(&self.groups, group, slot, generation, word)
    }

    pub(crate) fn find(&self, group: u32, slot: u32, generation: u32) -> Result<Found, GiveError> {
        self.class.find(&self.groups, group, slot, generation)
    }

    /// Keeps the word `to` with a region, if it was `from`. Answers with what it was.
    ///
    /// # Errors
    /// As [`give`](Placed::give).
    pub(crate) fn set_word(&mut self, group: u32, slot: u32, generation: u32, from: u32, to: u32) -> Result<u32, GiveError> {
        self.groups.set_word(group, slot, generation, from, to)
    }

    #[inline]
    pub(crate) fn home(&self, group: u32) -> Option<&P::Home> {
        self.class.home(&self.groups, group)
    }

    pub(crate) fn add(&mut self, home: P::Home, base: u64, need: RangeNeed) -> Result<u32, Lack> {
        self.class.add(&self.groups, home, base, need)
    }

    pub(crate) fn supply(&mut self, need: Need, donation: Donation) -> Option<Memory> {
        self.class.supply(&self.groups, need, donation)
    }

    pub(crate) fn spare(&mut self, keep: u64) -> Option<Spare<P::Home>> {
        self.class.spare(&self.groups, keep)
    }

    pub(crate) fn walk(&self, number: u32, see: &mut dyn FnMut(Piece)) {
        self.class.walk(&self.groups, number, see);
    }

    pub(crate) fn numbers(&self) -> u32 {
        self.class.numbers(&self.groups)
    }

    pub(crate) fn largest(&self) -> u64 {
        self.class.largest()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.class.totals()
    }

    /// The class's own memory, then the groups'.
    pub(crate) fn withdraw(&mut self) -> Option<Memory> {
        self.class.withdraw().or_else(|| self.groups.withdraw())
    }
}

#[cfg(test)]
impl<P: Placing> Placed<P> {
    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(super) fn settle(&mut self, group: u32, slot: u32) -> Option<Given> {
        self.class.settle(&self.groups, group, slot)
    }

    /// As if these seats had been used up.
    pub(super) fn age(&self, group: u32, mut slots: core::ops::Range<u32>) {
        assert!(slots.all(|slot| self.groups.seat(group, slot).map(super::seat::Seat::wear_out).is_ok()));
    }
}
