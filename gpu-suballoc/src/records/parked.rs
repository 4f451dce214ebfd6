//! Buffers that were given back and kept, with their memory, for the next request of the same size and kind.

#![forbid(unsafe_code)]

use super::array::{Array, Spare};
use crate::allocator::Region;

/// One that is kept.
pub(super) struct Parked {
    pub(super) region: Region,
    /// Of the root.
    pub(super) record: u32,
    pub(super) kind: u16,
    pub(super) asked: u64,
    since: u64,
}

/// All that are kept. Few, so that a look through them is short; their budget is the options'.
pub(super) struct Park {
    entries: Array<Parked>,
    bytes: u64,
    clock: u64,
}

impl Park {
    pub(super) const fn new() -> Self {
        Self { entries: Array::new(), bytes: 0, clock: 0 }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Supplied once, for all that may be kept.
    pub(super) fn array(&mut self) -> &mut Array<Parked> {
        &mut self.entries
    }

    /// Gives the region back when there is no room.
    pub(super) fn put(&mut self, region: Region, record: u32, kind: u16, asked: u64) -> Result<(), Region> {
        self.clock += 1;
        let size = region.size();
        let parked = Parked { region, record, kind, asked, since: self.clock };
        self.entries.push(parked).map_err(|parked| parked.region)?;
        self.bytes = self.bytes.saturating_add(size);
        Ok(())
    }

    /// The one that was put in last of those that fit exactly: the warmest.
    pub(super) fn take(&mut self, kind: u16, asked: u64) -> Option<Parked> {
        let fits = self.entries.as_slice().iter().enumerate().filter(|(_, parked)| parked.kind == kind && parked.asked == asked);
        let (index, _) = fits.max_by_key(|(_, parked)| parked.since)?;
        self.remove(index)
    }

    /// The one that nobody has wanted for longest.
    pub(super) fn take_oldest(&mut self) -> Option<Parked> {
        let (index, _) = self.entries.as_slice().iter().enumerate().min_by_key(|(_, parked)| parked.since)?;
        self.remove(index)
    }

    fn remove(&mut self, index: usize) -> Option<Parked> {
        let parked = self.entries.swap_remove(index)?;
        self.bytes = self.bytes.saturating_sub(parked.region.size());
        Some(parked)
    }

    pub(super) fn dismantle(&mut self) -> Option<Spare> {
        self.entries.dismantle()
    }
}
