//! A pool as it is under its lock. Nothing here calls anybody: what is needed is asked for, and supplied from outside.

#![forbid(unsafe_code)]

use super::alone::Alone;
use super::ask::{Ask, BARE, FoundRegion, Placed, Where, is_own};
use super::blocks::{Blocks, Miss, Spot};
use super::classed::{Classes, Lacking};
use super::facts::Facts;
use super::growth::Growth;
use super::object::Object;
use crate::error::Misuse;
use crate::id::{Place, PlaceKind};
use crate::range::{Fit, Memory};
use crate::request::Lifetime;

/// How many regions are given back at once.
const RUN: usize = 64;

/// What a pool's lock guards.
pub(super) struct State {
    pub(super) facts: Facts,
    pub(super) growth: Growth,
    pub(super) blocks: Blocks,
    pub(super) alone: Alone,
    pub(super) classes: Classes,
    /// Memory objects and their bytes: live, being made, and not yet given back to the driver.
    pub(super) objects: u32,
    pub(super) bytes: u64,
    /// Shared blocks that are being made, and what the largest of them will hold: who needs no more than that waits for it.
    pub(super) making: u32,
    pub(super) making_room: u64,
    /// Shared blocks that were made since the beginning.
    pub(super) made: u64,
    /// Live regions and their bytes.
    pub(super) regions: u64,
    pub(super) used: u64,
    /// See [`later`](State::later).
    pub(super) emptied: Option<u32>,
    pub(super) left_alone: Option<Object>,
    /// A custom pool that was destroyed takes nothing any more.
    pub(super) open: bool,
}

/// What is to be done about a region that was given back, when the lock is not held any more.
#[derive(Debug, Default)]
pub(super) struct Later {
    /// A block has nothing left in it.
    pub(super) emptied: Option<u32>,
    /// A memory object that nothing lies in any more.
    pub(super) object: Option<Object>,
    /// Memory for records that is not needed any more.
    pub(super) spare: Option<Memory>,
}

impl State {
    pub(super) const fn new(facts: Facts, growth: Growth) -> Self {
        Self {
            facts,
            growth,
            blocks: Blocks::new(facts.granule_log2),
            alone: Alone::new(),
            classes: Classes::new(&facts),
            objects: 0,
            bytes: 0,
            making: 0,
            making_room: 0,
            made: 0,
            regions: 0,
            used: 0,
            emptied: None,
            left_alone: None,
            open: true,
        }
    }

    /// Finds room in the blocks there are; with `classes` in a page or slab, where the request is for one.
    #[inline(always)]
    pub(super) fn place(&mut self, ask: &Ask, classes: bool, spot: &mut Spot) -> Result<(), Lacking> {
        let (size, alignment) = self.facts.padded(ask);
        let done = if self.facts.linear {
            self.place_linear(size, alignment, ask.word, spot)?;
            true
        } else {
            classes && ask.lifetime != Lifetime::Unknown && size == ask.size && self.place_classed(ask, alignment, spot)?
        };
        if !done {
            // What dies soon lies at the other end, so that it pins no hole between what stays.
            let fit = if matches!(ask.lifetime, Lifetime::Transient) { Fit::High } else { Fit::Low };
            self.blocks.take(size, alignment, ask.word, fit, spot).map_err(|miss| match miss {
                Miss::Records(lack) => Lacking::Records(lack),
                Miss::Full => Lacking::Block { need: size, class: false },
            })?;
            spot.kind = PlaceKind::General;
            spot.block = spot.home;
        }
        self.regions = self.regions.saturating_add(1);
        self.used = self.used.saturating_add(spot.size);
        Ok(())
    }

    /// The region at a place that was just found.
    #[inline]
    pub(super) fn region(&self, spot: &Spot) -> Option<Placed> {
        let memory = self.blocks.block(spot.home).ok()?.object.memory;
        Some(Placed {
            at: self.at(spot.kind, spot.block, spot.slot, spot.generation),
            memory,
            offset: spot.offset,
            size: spot.size,
            memory_type: self.facts.memory_type,
            properties: self.facts.properties,
        })
    }

    #[inline]
    pub(super) fn at(&self, kind: PlaceKind, block: u32, slot: u32, generation: u32) -> Where {
        Where { place: Place { kind, pool: self.facts.index, block }, slot, generation }
    }

    /// Gives a region back that has `word`: its size, and whether there is something to do [later](State::later).
    #[inline]
    pub(super) fn give(&mut self, at: Where, word: u32) -> Result<(u64, bool), Misuse> {
        let (block, generation) = (at.place.block, at.generation);
        let (size, more) = match at.place.kind {
            PlaceKind::General => {
                let (size, empty) = self.blocks.give(block, at.slot, generation, word)?;
                if empty {
                    self.emptied = Some(block);
                }
                (size, empty || self.blocks.spare_memory.is_some())
            }
            PlaceKind::Transient | PlaceKind::Slab => self.give_classed(at, word)?,
            PlaceKind::Linear => self.give_linear(at, word)?,
            PlaceKind::Dedicated if at.slot == 0 => {
                let object = self.alone.remove(block, generation, word)?;
                let size = object.size;
                self.left_alone = Some(object);
                (size, true)
            }
            _ => return Err(Misuse::Stale),
        };
        self.regions = self.regions.saturating_sub(1);
        self.used = self.used.saturating_sub(size);
        Ok((size, more))
    }

    /// Gives the first few of `regions` back at once, if they are ranges of one block and none of them has a record: how many they were,
    /// and whether there is something to do [later](State::later). 0 where one by one is as good, or says better what is wrong.
    pub(super) fn give_run(&mut self, regions: &[Where]) -> (usize, bool) {
        let Some(first) = regions.first().filter(|first| first.place.kind == PlaceKind::General) else { return (0, false) };
        let mut run = [(0u32, 0u32); RUN];
        let mut count = 0usize;
        for (place, at) in run.iter_mut().zip(regions.iter().take_while(|at| at.place == first.place)) {
            *place = (at.slot, at.generation);
            count += 1;
        }
        let given =
            run.get(..count).filter(|run| run.len() > 1).and_then(|run| self.blocks.give_run(first.place.block, run, BARE));
        let Some((bytes, empty)) = given else { return (0, false) };
        if empty {
            self.emptied = Some(first.place.block);
        }
        self.regions = self.regions.saturating_sub(count as u64);
        self.used = self.used.saturating_sub(bytes);
        (count, empty || self.blocks.spare_memory.is_some())
    }

    /// What [`give`](State::give) has left to do. To be asked for before the lock is let go.
    pub(super) fn later(&mut self) -> Later {
        Later { emptied: self.emptied.take(), object: self.left_alone.take(), spare: self.blocks.spare_memory.take() }
    }

    /// The memory object of a live region; where it lies in it, how large it is, and its word.
    pub(super) fn find(&self, at: Where) -> Result<(&Object, u64, u64, u32), Misuse> {
        let block = at.place.block;
        match at.place.kind {
            PlaceKind::General => {
                let (live, found) = self.blocks.range(block, at.slot, at.generation)?;
                if is_own(found.word) {
                    return Err(Misuse::Stale);
                }
                Ok((&live.object, found.offset, found.size, found.word))
            }
            PlaceKind::Transient | PlaceKind::Slab | PlaceKind::Linear => {
                let (home, found) = self.classes.find(at)?;
                Ok((&self.blocks.block(home)?.object, found.offset, found.size, found.word))
            }
            PlaceKind::Dedicated if at.slot == 0 => {
                let found = self.alone.get(block, at.generation)?;
                Ok((&found.object, 0, found.object.size, found.word))
            }
            _ => Err(Misuse::Stale),
        }
    }

    /// As [`find`](State::find), in full.
    pub(super) fn found(&self, at: Where) -> Result<FoundRegion, Misuse> {
        let (object, offset, size, word) = self.find(at)?;
        Ok(FoundRegion {
            memory: object.memory,
            offset,
            size,
            word,
            memory_type: self.facts.memory_type,
            properties: self.facts.properties,
            memory_size: object.size,
        })
    }

    /// The place of a live region's memory object, and where the region lies in it.
    pub(super) fn home_of(&self, at: Where) -> Result<(Place, u64), Misuse> {
        let (_, offset, _, _) = self.find(at)?;
        let home = match at.place.kind {
            PlaceKind::Transient | PlaceKind::Slab | PlaceKind::Linear => self.classes.find(at)?.0,
            _ => at.place.block,
        };
        let kind = if at.place.kind == PlaceKind::Dedicated { PlaceKind::Dedicated } else { PlaceKind::General };
        Ok((Place { kind, block: home, ..at.place }, offset))
    }

    /// The memory object of a [home](State::home_of).
    pub(super) fn object_mut(&mut self, home: Place) -> Result<&mut Object, Misuse> {
        if home.kind == PlaceKind::Dedicated {
            return self.alone.object_mut(home.block);
        }
        Ok(&mut self.blocks.block_mut(home.block)?.object)
    }

    /// Puts another word in the place of `from`; what it was before.
    pub(super) fn set_word(&mut self, at: Where, from: u32, to: u32) -> Result<u32, Misuse> {
        let (_, _, _, word) = self.find(at)?;
        if word == from {
            match at.place.kind {
                PlaceKind::Dedicated => self.alone.get_mut(at.place.block, at.generation)?.word = to,
                PlaceKind::Transient | PlaceKind::Slab => return self.classes.set_word(at, from, to),
                PlaceKind::Linear => self.classes.line.set_word(at.slot, at.generation, to)?,
                _ => self.blocks.set_word(at.place.block, at.slot, at.generation, to)?,
            }
        }
        Ok(word)
    }

    /// Takes an empty block out, if there are more of them than are kept; with `all` whether or not. And its core's memory.
    pub(super) fn drop_block(&mut self, block: Option<u32>, all: bool) -> Option<(Object, Option<Memory>)> {
        let kept = if all { 0 } else { self.facts.keep_empty };
        if self.blocks.empty_bytes <= kept || self.blocks.len() <= self.facts.min_blocks {
            return None;
        }
        let block = block.or_else(|| self.blocks.removable())?;
        let removed = self.blocks.remove(block)?;
        if self.blocks.len() == 0 {
            self.growth.emptied();
        }
        Some(removed)
    }

    /// The pool begins anew, with the facts it has now, for which its granule is as it was: that is the device's.
    pub(super) fn reopen(&mut self, growth: Growth) {
        self.growth = growth;
        self.open = true;
    }

    /// The driver has an object of ours back.
    pub(super) fn forget(&mut self, size: u64) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}
