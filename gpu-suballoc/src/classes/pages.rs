//! Transient pages: regions that die together lie side by side, are placed by moving a cursor and freed by counting.
//!
//! ```text
//!   base            cursor              base + size
//!   | A | pad | B | C |       free        |           seats: A, B, C, in that order, in groups of 64
//! ```
//!
//! Nothing in a page is reused before all of it is free; then the cursor goes back to the base. Each region has a seat, which tells a
//! second free from the first even in a full page, and which costs 16 bytes. Two pages are open: a region that does not fit into what is
//! left of one may fit into the other.

#![forbid(unsafe_code)]

use super::groups::{Group, Groups, NONE, SEATS};
use super::placing::{Placing, Totals};
use super::seat::{Seat, Sitting};
use super::segments::{Donation, Segments};
use super::types::{Found, GiveError, Given, Lack, Need, Part, Piece, RangeNeed, Spare, Taken};
use crate::range::Memory;

/// Regions may have this part of a page: what is left at its end is small against it.
const LARGEST_PART: u64 = 8;

/// One page, as its owner knows it.
pub(super) struct Page<H> {
    home: Option<H>,
    /// Bytes.
    base: u64,
    /// Granules placed so far, with what alignment cost.
    cursor: u32,
    /// Regions placed since the page was empty, and of these how many are gone.
    taken: u32,
    gone: u32,
    /// Where the next seat is.
    group: u32,
    slot: u32,
    first_group: u32,
    /// The next empty page, or the next header without a page.
    link: u32,
}

/// The pages of one kind of memory. What it tells its user of a page is `H`.
pub(crate) struct Pages<H> {
    headers: Segments<Page<H>>,
    open: u32,
    /// The other open page.
    aside: u32,
    granule_log2: u32,
    /// Granules of a page.
    capacity: u32,
    /// The largest region, in granules.
    largest: u32,
    live: u32,
    used: u64,
    /// Headers made, headers without a page, empty pages, groups without a page.
    made: u32,
    vacant: u32,
    empty: u32,
    empties: u32,
    spare_groups: u32,
    pages: u32,
}

/// What a page cannot do at the moment.
enum Short {
    Bytes,
    Seats,
}

impl<H> Page<H> {
    const fn vacant() -> Self {
        Self { home: None, base: 0, cursor: 0, taken: 0, gone: 0, group: NONE, slot: 0, first_group: NONE, link: NONE }
    }

    fn is_empty(&self) -> bool {
        self.taken == self.gone
    }

    fn reset(&mut self) {
        self.cursor = 0;
        self.taken = 0;
        self.gone = 0;
        self.group = self.first_group;
        self.slot = 0;
    }

    #[inline]
    fn place(&mut self, groups: &Groups, room: Room, ask: Ask) -> Result<Taken, Short> {
        let base = self.base >> room.granule_log2;
        let first = ((base + u64::from(self.cursor) + ask.mask) & !ask.mask) - base;
        let end = first + u64::from(ask.granules);
        if end > u64::from(room.capacity) {
            return Err(Short::Bytes);
        }
        let group = groups.get(self.group).ok_or(Short::Seats)?;
        loop {
            let seat = group.seat(self.slot).ok_or(Short::Seats)?;
            let sitting = Sitting { first: low(first), granules: ask.granules, word: ask.word };
            let slot = self.slot;
            self.slot += 1;
            // A seat that is used up is left out from now on.
            let Some(generation) = seat.issue(sitting) else { continue };
            self.cursor = low(end);
            self.taken += 1;
            return Ok(Taken {
                group: self.group,
                slot,
                generation,
                offset: self.base + (first << room.granule_log2),
                size: u64::from(ask.granules) << room.granule_log2,
            });
        }
    }
}

/// What every page of a class has.
#[derive(Clone, Copy)]
struct Room {
    granule_log2: u32,
    capacity: u32,
}

/// A request, in granules.
#[derive(Clone, Copy)]
struct Ask {
    granules: u32,
    /// Granules of alignment less one.
    mask: u64,
    word: u32,
}

/// What is below 2^32 by construction: granules within a page.
#[inline]
const fn low(granules: u64) -> u32 {
    (granules & u32::MAX as u64) as u32
}

impl<H: Copy> Pages<H> {
    /// Without a page. `granule` and `page` are bytes, powers of two; a page is at least 8 granules and below 2^31 of them.
    pub(crate) const fn new(granule: u64, page: u64) -> Self {
        let granule_log2 = granule.trailing_zeros();
        let capacity = page >> granule_log2;
        let capacity = if capacity > 1 << 30 { 1 << 30 } else { low(capacity) };
        Self {
            headers: Segments::new(),
            open: NONE,
            aside: NONE,
            granule_log2,
            capacity,
            largest: low(capacity as u64 / LARGEST_PART),
            live: 0,
            used: 0,
            made: 0,
            vacant: NONE,
            empty: NONE,
            empties: 0,
            spare_groups: NONE,
            pages: 0,
        }
    }

    /// Bytes in regions, and bytes in pages.
    const fn bytes(&self) -> (u64, u64) {
        (self.used << self.granule_log2, self.page_bytes() * self.pages as u64)
    }

    const fn page_bytes(&self) -> u64 {
        (self.capacity as u64) << self.granule_log2
    }

    const fn room(&self) -> Room {
        Room { granule_log2: self.granule_log2, capacity: self.capacity }
    }

    #[cold]
    fn take_elsewhere(&mut self, groups: &Groups, ask: Ask, short: Short) -> Result<Taken, Lack> {
        let open = self.open;
        if let Some(taken) = self.make_do(groups, open, ask, short)? {
            return Ok(taken);
        }
        let aside = self.aside;
        if let Some(taken) = self.make_do(groups, aside, ask, Short::Bytes)? {
            return Ok(taken);
        }
        self.open_another()?;
        let opened = self.open;
        self.make_do(groups, opened, ask, Short::Bytes)?.ok_or(Lack::Unfit)
    }

    /// Places the region into one page after all, if that can be: into an empty one from its beginning, with other seats.
    fn make_do(&mut self, groups: &Groups, number: u32, ask: Ask, mut short: Short) -> Result<Option<Taken>, Lack> {
        let room = self.room();
        loop {
            let Some(page) = self.headers.get_mut(number) else {
                return Ok(None);
            };
            let reset = page.is_empty() && page.taken > 0;
            if reset {
                page.reset();
            } else if matches!(short, Short::Seats) {
                self.seat_more(groups, number)?;
            }
            let Some(page) = self.headers.get_mut(number) else {
                return Ok(None);
            };
            match page.place(groups, room, ask) {
                Ok(taken) => return Ok(Some(taken)),
                Err(Short::Bytes) => return Ok(None),
                Err(Short::Seats) => short = Short::Seats,
            }
        }
    }

    /// Gives a page the next group: its own, or another.
    fn seat_more(&mut self, groups: &Groups, number: u32) -> Result<(), Lack> {
        let Some(page) = self.headers.get_mut(number) else {
            return Err(Lack::Unfit);
        };
        let last = groups.get(page.group);
        let mut next = last.map_or(page.first_group, Group::chain);
        if next == NONE {
            next = self.spare_groups;
            let Some(group) = groups.get(next) else {
                return Err(groups.another(SEATS).map_or(Lack::Unfit, Lack::Memory));
            };
            self.spare_groups = group.chain();
            group.set_chain(NONE);
            group.set_home(number);
            match last {
                Some(last) => last.set_chain(next),
                None => page.first_group = next,
            }
        }
        page.group = next;
        page.slot = 0;
        Ok(())
    }

    /// Opens an empty page. Of the two that were open, the one with more room stays.
    fn open_another(&mut self) -> Result<(), Lack> {
        let number = self.empty;
        let Some(page) = self.headers.get(number) else {
            return Err(self.lacks_page());
        };
        self.empty = page.link;
        self.empties -= 1;
        let fill = |number| self.headers.get(number).map_or(u32::MAX, |page| page.cursor);
        if fill(self.open) < fill(self.aside) {
            self.aside = self.open;
        }
        self.open = number;
        Ok(())
    }

    fn lacks_page(&self) -> Lack {
        if self.vacant == NONE {
            if self.made >= Segments::<Page<H>>::MOST {
                return Lack::Unfit;
            }
            if let Some(layout) = self.headers.lacks(self.made) {
                return Lack::Memory(Need { layout, part: Part::Headers });
            }
        }
        let alignment = 1 << self.granule_log2;
        Lack::Range(RangeNeed { size: self.page_bytes(), alignment, granules: 0 })
    }

    #[inline]
    fn left(&mut self, number: u32, sitting: Sitting) -> Given {
        self.live -= 1;
        self.used -= u64::from(sitting.granules);
        let mut emptied = false;
        if let Some(page) = self.headers.get_mut(number) {
            page.gone += 1;
            if page.is_empty() && number != self.open && number != self.aside {
                page.reset();
                page.link = self.empty;
                self.empty = number;
                self.empties += 1;
                emptied = true;
            }
        }
        Given { size: u64::from(sitting.granules) << self.granule_log2, word: sitting.word, emptied }
    }

    /// Its seats wait for another page, and so does its header.
    fn dissolve(&mut self, groups: &Groups, number: u32) -> Option<Spare<H>> {
        let vacant = self.vacant;
        let page = self.headers.get_mut(number)?;
        let (home, base, mut group) = (page.home?, page.base, page.first_group);
        *page = Page { link: vacant, ..Page::vacant() };
        self.vacant = number;
        self.pages -= 1;
        while let Some(found) = groups.get(group) {
            let next = found.chain();
            self.keep_group(groups, group);
            group = next;
        }
        Some(Spare { home, base, size: self.page_bytes() })
    }
}

impl<H: Copy> Placing for Pages<H> {
    type Home = H;

    #[inline]
    fn take(&mut self, groups: &Groups, size: u64, alignment: u64, word: u32) -> Result<Taken, Lack> {
        let largest = self.largest();
        if size.wrapping_sub(1) >= largest || alignment > largest || !alignment.is_power_of_two() {
            return Err(Lack::Unfit);
        }
        let granules = (size - 1 >> self.granule_log2) + 1;
        let mask = (alignment - 1) >> self.granule_log2;
        let ask = Ask { granules: low(granules), mask, word };
        let room = self.room();
        let placed = match self.headers.get_mut(self.open) {
            Some(page) => page.place(groups, room, ask),
            None => Err(Short::Bytes),
        };
        let taken = match placed {
            Ok(taken) => taken,
            Err(short) => self.take_elsewhere(groups, ask, short)?,
        };
        self.live += 1;
        self.used += granules;
        Ok(taken)
    }

    #[inline]
    fn give(&mut self, groups: &Groups, group: u32, slot: u32, generation: u32, word: u32) -> Result<Given, GiveError> {
        let found = groups.get(group).ok_or(GiveError::Foreign)?;
        let sitting = found.seat(slot).ok_or(GiveError::Foreign)?.give(generation, word)?;
        Ok(self.left(found.home(), sitting))
    }

    fn settle(&mut self, groups: &Groups, group: u32, slot: u32) -> Option<Given> {
        let found = groups.get(group)?;
        let sitting = found.seat(slot).and_then(Seat::settle)?;
        Some(self.left(found.home(), sitting))
    }

    fn find(&self, groups: &Groups, group: u32, slot: u32, generation: u32) -> Result<Found, GiveError> {
        let found = groups.get(group).ok_or(GiveError::Foreign)?;
        let sitting = found.seat(slot).ok_or(GiveError::Foreign)?.sitting(generation)?;
        let base = self.headers.get(found.home()).ok_or(GiveError::Foreign)?.base;
        Ok(Found {
            offset: base + (u64::from(sitting.first) << self.granule_log2),
            size: u64::from(sitting.granules) << self.granule_log2,
            word: sitting.word,
        })
    }

    #[inline]
    fn home(&self, groups: &Groups, group: u32) -> Option<&H> {
        self.headers.get(groups.get(group)?.home())?.home.as_ref()
    }

    fn add(&mut self, _: &Groups, home: H, base: u64, _: RangeNeed) -> Result<u32, Lack> {
        let (number, recycled) = if self.vacant == NONE { (self.made, false) } else { (self.vacant, true) };
        let lack = self.lacks_page();
        let Some(page) = self.headers.get_mut(number) else {
            return Err(lack);
        };
        if recycled {
            self.vacant = page.link;
        } else {
            self.made += 1;
        }
        *page = Page { home: Some(home), base, link: self.empty, ..Page::vacant() };
        self.empty = number;
        self.empties += 1;
        self.pages += 1;
        Ok(number)
    }

    fn spare(&mut self, groups: &Groups, keep: u64) -> Option<Spare<H>> {
        if u64::from(self.empties) * self.page_bytes() <= keep {
            let empty = |number: u32| self.headers.get(number).is_some_and(Page::is_empty);
            if keep > 0 {
                return None;
            } else if empty(self.aside) {
                let aside = core::mem::replace(&mut self.aside, NONE);
                return self.dissolve(groups, aside);
            } else if empty(self.open) {
                let open = core::mem::replace(&mut self.open, NONE);
                return self.dissolve(groups, open);
            }
            return None;
        }
        let number = self.empty;
        self.empty = self.headers.get(number)?.link;
        self.empties -= 1;
        self.dissolve(groups, number)
    }

    fn walk(&self, groups: &Groups, number: u32, see: &mut dyn FnMut(Piece)) {
        let Some(page) = self.headers.get(number) else {
            return;
        };
        let mut at = page.first_group;
        while let Some(group) = groups.get(at) {
            for slot in 0..if at == page.group { page.slot } else { group.len() } {
                let Some(seat) = group.seat(slot) else { continue };
                let Some((generation, sitting)) = seat.seated() else { continue };
                see(Piece {
                    group: at,
                    slot,
                    generation,
                    offset: page.base + (u64::from(sitting.first) << self.granule_log2),
                    size: u64::from(sitting.granules) << self.granule_log2,
                    word: sitting.word,
                });
            }
            if at == page.group {
                break;
            }
            at = group.chain();
        }
    }

    fn largest(&self) -> u64 {
        (self.largest as u64) << self.granule_log2
    }

    fn numbers(&self, _: &Groups) -> u32 {
        self.made
    }

    fn totals(&self) -> Totals {
        let (used, reserved) = self.bytes();
        Totals { live: self.live, used, reserved }
    }

    fn supply_headers(&mut self, donation: Donation) -> Option<Memory> {
        self.headers.supply(donation, Page::vacant)
    }

    fn keep_group(&mut self, groups: &Groups, number: u32) {
        if let Some(group) = groups.get(number) {
            group.set_home(NONE);
            group.set_chain(self.spare_groups);
            self.spare_groups = number;
        }
    }

    fn withdraw(&mut self) -> Option<Memory> {
        self.headers.withdraw()
    }
}
