//! Memory objects with one region alone.

#![forbid(unsafe_code)]

use super::blocks::NONE;
use super::object::Object;
use super::table::Table;
use crate::error::Misuse;
use crate::range::MAX_GENERATION;

/// The dedicated memory objects of a pool.
pub(super) struct Alone {
    pub(super) slots: Table<AloneSlot>,
    spare: u32,
    pub(super) live: u32,
    pub(super) bytes: u64,
}

/// Where such an object is, or was, or will be.
pub(super) struct AloneSlot {
    /// Of the region that is or was last here.
    pub(super) generation: u32,
    /// The next spare slot.
    link: u32,
    pub(super) live: Option<AloneRegion>,
}

/// An object and its region.
#[derive(Debug)]
pub(super) struct AloneRegion {
    pub(super) object: Object,
    pub(super) word: u32,
}

impl Alone {
    pub(super) const fn new() -> Self {
        Self { slots: Table::new(), spare: NONE, live: 0, bytes: 0 }
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare != NONE
    }

    /// A slot for an object that is to be made.
    pub(super) fn reserve(&mut self, limit: u32) -> Option<u32> {
        if self.spare == NONE {
            let place = self.slots.len();
            let slot = AloneSlot { generation: 0, link: NONE, live: None };
            return (place < limit && self.slots.push(slot).is_ok()).then_some(place);
        }
        let place = self.spare;
        self.spare = self.slots.get(place)?.link;
        Some(place)
    }

    /// The object was not made after all, or is gone. A slot whose generations are used up is not used again.
    pub(super) fn unreserve(&mut self, place: u32) {
        if let Some(slot) = self.slots.get_mut(place)
            && slot.generation < MAX_GENERATION
        {
            slot.link = self.spare;
            self.spare = place;
        }
    }

    /// Puts an object in: the generation of its region.
    pub(super) fn install(&mut self, place: u32, region: AloneRegion) -> u32 {
        let size = region.object.size;
        let Some(slot) = self.slots.get_mut(place) else { return 0 };
        slot.generation = slot.generation.saturating_add(1);
        slot.live = Some(region);
        self.live = self.live.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
        slot.generation
    }

    #[inline]
    pub(super) fn get(&self, place: u32, generation: u32) -> Result<&AloneRegion, Misuse> {
        let slot = self.slots.get(place).filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.live.as_ref()).ok_or(Misuse::Stale)
    }

    pub(super) fn get_mut(&mut self, place: u32, generation: u32) -> Result<&mut AloneRegion, Misuse> {
        let slot = self.slots.get_mut(place).filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.live.as_mut()).ok_or(Misuse::Stale)
    }

    /// The object in a slot, whichever region has it.
    pub(super) fn object_mut(&mut self, place: u32) -> Result<&mut Object, Misuse> {
        let region = self.slots.get_mut(place).and_then(|slot| slot.live.as_mut());
        region.map(|region| &mut region.object).ok_or(Misuse::Stale)
    }

    /// The region is the same, its id is another. Refused where the slot has no other left.
    pub(super) fn renew(&mut self, place: u32, generation: u32) -> Result<u32, Misuse> {
        self.get(place, generation)?;
        let slot = self.slots.get_mut(place).filter(|slot| slot.generation < MAX_GENERATION).ok_or(Misuse::Stale)?;
        slot.generation = slot.generation.saturating_add(1);
        Ok(slot.generation)
    }

    /// Takes out the object of a region that has `word`.
    pub(super) fn remove(&mut self, place: u32, generation: u32, word: u32) -> Result<Object, Misuse> {
        let found = self.get(place, generation)?;
        if found.word != word {
            return Err(Misuse::Held);
        }
        if !found.object.map.is_idle() {
            return Err(Misuse::Mapped);
        }
        let slot = self.slots.get_mut(place).ok_or(Misuse::Stale)?;
        let object = slot.live.take().ok_or(Misuse::Stale)?.object;
        self.live = self.live.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(object.size);
        self.unreserve(place);
        Ok(object)
    }
}
