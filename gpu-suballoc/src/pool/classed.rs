//! Pages and slabs of a pool: ranges of its blocks, in which small and short-lived regions lie.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::ask::{Ask, LINE, PAGE, SLAB, Where};
use super::blocks::{Miss, Spot};
use super::facts::Facts;
use super::line::{Line, Short, Taken};
use super::state::State;
use crate::classes::{
    Donation, Found, GiveError, Lack, Need, Pages, Placed as Class, RangeNeed, SlabClass, Slabs, Spare, Taken as Seated,
    TransientClass,
};
use crate::error::Misuse;
use crate::id::PlaceKind;
use crate::range::{Fit, Lack as NodesLack, Memory};
use crate::request::Lifetime;

/// Empty slabs of a pool that wait for what comes next, in bytes. Of pages it is one.
const KEPT_SLABS: u64 = 1 << 16;

/// Which range a page or slab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) block: u32,
    pub(super) node: u32,
    pub(super) generation: u32,
}

/// The two classes of a pool.
pub(super) struct Classes {
    pub(super) pages: TransientClass<Home>,
    pub(super) slabs: SlabClass<Home>,
    pub(super) line: Line,
    page: u64,
}

/// What a region could not be placed for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lacking {
    /// Blocks lack memory for their records.
    Records(NodesLack),
    /// Pages, or slabs, lack memory for their records.
    Class { slab: bool, need: Need },
    /// A linear pool lacks memory for its records.
    Line(Layout),
    /// No block has `need` bytes in one piece; with `class` they are for a page or slab, and the region itself may fit somewhere.
    Block { need: u64, class: bool },
}

impl Classes {
    pub(super) const fn new(facts: &Facts) -> Self {
        let granule = 1 << facts.granule_log2;
        Self {
            pages: Class::new(Pages::new(granule, facts.page)),
            slabs: Class::new(Slabs::new(granule)),
            line: Line::new(),
            page: facts.page,
        }
    }

    fn take(&mut self, slab: bool, ask: &Ask, alignment: u64) -> Result<Seated, Lack> {
        if slab { self.slabs.take(ask.size, alignment, ask.word) } else { self.pages.take(ask.size, alignment, ask.word) }
    }

    fn add(&mut self, slab: bool, home: Home, base: u64, need: RangeNeed) -> Result<u32, Lack> {
        if slab { self.slabs.add(home, base, need) } else { self.pages.add(home, base, need) }
    }

    /// Hands in what a class lacked.
    pub(super) fn supply(&mut self, slab: bool, need: Need, donation: Donation) -> Option<Memory> {
        if slab { self.slabs.supply(need, donation) } else { self.pages.supply(need, donation) }
    }

    /// The block that a live region is in, and what is known of it.
    pub(super) fn find(&self, at: Where) -> Result<(u32, Found), Misuse> {
        let (group, slot, generation) = (at.place.block, at.slot, at.generation);
        if at.place.kind == PlaceKind::Linear {
            return self.line.find(slot, generation);
        }
        let (found, home) = if at.place.kind == PlaceKind::Slab {
            (self.slabs.find(group, slot, generation), self.slabs.home(group))
        } else {
            (self.pages.find(group, slot, generation), self.pages.home(group))
        };
        Ok((home.ok_or(Misuse::Stale)?.block, found.map_err(misuse)?))
    }

    pub(super) fn set_word(&mut self, at: Where, from: u32, to: u32) -> Result<u32, Misuse> {
        let (group, slot, generation) = (at.place.block, at.slot, at.generation);
        let was = if at.place.kind == PlaceKind::Slab {
            self.slabs.set_word(group, slot, generation, from, to)
        } else {
            self.pages.set_word(group, slot, generation, from, to)
        };
        was.map_err(misuse)
    }

    /// An empty page or slab that is not kept; with `all` none is.
    fn spare(&mut self, all: bool) -> Option<Spare<Home>> {
        let (pages, slabs) = if all { (0, 0) } else { (self.page, KEPT_SLABS) };
        self.pages.spare(pages).or_else(|| self.slabs.spare(slabs))
    }

    /// At the end: their memory, until there is none.
    pub(super) fn withdraw(&mut self) -> Option<Memory> {
        self.pages.withdraw().or_else(|| self.slabs.withdraw())
    }
}

impl State {
    /// Behind the last region of a linear pool.
    pub(super) fn place_linear(&mut self, size: u64, alignment: u64, word: u32, spot: &mut Spot) -> Result<(), Lacking> {
        let size = size.checked_next_multiple_of(self.facts.granule()).unwrap_or(u64::MAX);
        loop {
            let whole = self.growth.max() & !(self.facts.granule() - 1);
            match self.classes.line.take(size, alignment.max(self.facts.granule()), word) {
                Ok(taken) => {
                    let Taken { node, generation, home, offset } = taken;
                    *spot = Spot { kind: PlaceKind::Linear, block: 0, slot: node, generation, home: home.block, offset, size };
                    return Ok(());
                }
                Err(Short::Nodes(layout)) => return Err(Lacking::Line(layout)),
                Err(Short::Full) => return Err(Lacking::Block { need: whole, class: false }),
                Err(Short::Range) => {
                    let home = self.own_range(whole, 1, LINE, Fit::Low, false, spot)?;
                    self.classes.line.open(home, spot.offset, spot.size);
                }
            }
        }
    }

    /// A range of the pool's own, for a page, a slab or a line.
    fn own_range(
        &mut self,
        size: u64,
        alignment: u64,
        own: u32,
        fit: Fit,
        class: bool,
        spot: &mut Spot,
    ) -> Result<Home, Lacking> {
        self.blocks.take(size, alignment, own, fit, spot).map_err(|miss| match miss {
            Miss::Records(lack) => Lacking::Records(lack),
            Miss::Full => Lacking::Block { need: size, class },
        })?;
        Ok(Home { block: spot.home, node: spot.slot, generation: spot.generation })
    }

    /// A region of a linear pool goes; with the last one the range does.
    pub(super) fn give_linear(&mut self, at: Where, word: u32) -> Result<(u64, bool), Misuse> {
        let size = self.classes.line.give(at.slot, at.generation, word)?;
        let Some(Home { block, node, generation }) = self.classes.line.close() else { return Ok((size, false)) };
        if self.blocks.give(block, node, generation, LINE).is_ok_and(|(_, empty)| empty) {
            self.emptied = Some(block);
        }
        Ok((size, true))
    }

    /// Into a page or slab, if one takes it: whether one did.
    #[inline]
    pub(super) fn place_classed(&mut self, ask: &Ask, alignment: u64, spot: &mut Spot) -> Result<bool, Lacking> {
        let slab = ask.lifetime == Lifetime::Persistent;
        loop {
            let need = match self.classes.take(slab, ask, alignment) {
                Ok(taken) => {
                    let home = if slab { self.classes.slabs.home(taken.group) } else { self.classes.pages.home(taken.group) };
                    let Some(home) = home else { return Ok(false) };
                    spot.home = home.block;
                    spot.kind = if slab { PlaceKind::Slab } else { PlaceKind::Transient };
                    spot.block = taken.group;
                    spot.slot = taken.slot;
                    spot.generation = taken.generation;
                    spot.offset = taken.offset;
                    spot.size = taken.size;
                    return Ok(true);
                }
                Err(Lack::Unfit) => return Ok(false),
                Err(Lack::Memory(need)) => return Err(Lacking::Class { slab, need }),
                Err(Lack::Range(need)) => need,
            };
            if let Some(need) = self.add_range(slab, need, spot)? {
                return Err(Lacking::Class { slab, need });
            }
        }
    }

    /// Hands a range to a class; host memory that it lacks after all.
    #[cold]
    fn add_range(&mut self, slab: bool, need: RangeNeed, spot: &mut Spot) -> Result<Option<Need>, Lacking> {
        let (own, fit) = if slab { (SLAB, Fit::Low) } else { (PAGE, Fit::High) };
        let home = self.own_range(need.size, need.alignment, own, fit, true, spot)?;
        match self.classes.add(slab, home, spot.offset, need) {
            Ok(number) => {
                let _ = self.blocks.set_word(home.block, home.node, home.generation, own | number);
                Ok(None)
            }
            Err(lack) => {
                // The range goes back as it came; a block that was empty is so again.
                let _ = self.blocks.give(home.block, home.node, home.generation, own);
                match lack {
                    Lack::Memory(need) => Ok(Some(need)),
                    Lack::Range(_) | Lack::Unfit => Err(Lacking::Block { need: need.size, class: true }),
                }
            }
        }
    }

    pub(super) fn give_classed(&mut self, at: Where, word: u32) -> Result<(u64, bool), Misuse> {
        let (group, slot, generation) = (at.place.block, at.slot, at.generation);
        let given = if at.place.kind == PlaceKind::Slab {
            self.classes.slabs.give(group, slot, generation, word)
        } else {
            self.classes.pages.give(group, slot, generation, word)
        };
        let given = given.map_err(misuse)?;
        Ok((given.size, given.emptied && self.free_spare(false)))
    }

    /// Gives the range of an empty page or slab back to its block; what came of that is left for [later](State::later). False where
    /// there is none, or none that is not kept.
    pub(super) fn free_spare(&mut self, all: bool) -> bool {
        // A line that was opened for a region that was not placed after all: the last region's end would have closed it.
        if all && let Some(Home { block, node, generation }) = self.classes.line.close() {
            if self.blocks.give(block, node, generation, LINE).is_ok_and(|(_, empty)| empty) {
                self.emptied = Some(block);
            }
            return true;
        }
        let Some(Spare { home: Home { block, node, generation }, .. }) = self.classes.spare(all) else { return false };
        let word = self.blocks.range(block, node, generation).map(|(_, found)| found.word);
        let Ok((_, empty)) = word.and_then(|word| self.blocks.give(block, node, generation, word)) else { return false };
        if empty {
            self.emptied = Some(block);
        }
        true
    }
}

/// What a class's refusal says about the caller.
const fn misuse(error: GiveError) -> Misuse {
    match error {
        GiveError::Held => Misuse::Held,
        GiveError::Foreign | GiveError::Stale | GiveError::Double => Misuse::Stale,
    }
}
