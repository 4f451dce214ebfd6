//! Buffers that were given back and kept, with their memory, for the next request of the same size and kind.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::array::{Array, Spare};
use super::detail::Detail;
use super::kinds::Kind;
use super::record::{Key, Record, State as Life};
use super::state::State;
use super::{GoneRoot, Records};
use crate::allocator::Region;
use crate::error::GpuError;
use crate::request::RegionOptions;

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

impl Records {
    /// Whether a buffer of this root is of a kind that may be kept.
    pub(crate) fn can_be_kept(&self, gone: &GoneRoot) -> bool {
        self.state.lock().kinds.can_be_kept(gone.kind)
    }

    /// Keeps a root that [`part`](Records::part) gave, under the key it has from now on. Gives region and root back when there is no room.
    pub(crate) fn park(
        &self,
        memory: &dyn HostAllocator,
        gone: GoneRoot,
        key: Key,
        region: Region,
    ) -> Result<(), (GoneRoot, Region)> {
        let detail = {
            let mut state = self.state.lock();
            let State { table, park, .. } = &mut *state;
            if let Err(region) = park.put(region, gone.number, gone.kind, gone.asked) {
                return Err((GoneRoot { key, ..gone }, region));
            }
            match table.get_mut(gone.number) {
                Some(Record::Root(root)) => {
                    root.key = key;
                    root.state = Life::Parked;
                    root.detail.take()
                }
                _ => None,
            }
        };
        if let Some(detail) = detail {
            detail.free(memory);
        }
        Ok(())
    }

    /// A kept buffer of that kind and size, somebody's from now on, with a new name.
    pub(crate) fn unpark(
        &self,
        memory: &dyn HostAllocator,
        kind: &Kind,
        asked: u64,
        options: &RegionOptions<'_>,
    ) -> Result<Option<Region>, GpuError> {
        if self.state.lock().park.len() == 0 {
            return Ok(None);
        }
        let detail = Detail::new(memory, options)?;
        let mut state = self.state.lock();
        let State { table, kinds, park, .. } = &mut *state;
        let parked = kinds.find(kind).and_then(|kind| park.take(kind, asked));
        if let Some(parked) = parked
            && let Some(Record::Root(root)) = table.get_mut(parked.record)
        {
            root.state = Life::Live;
            root.detail = detail;
            return Ok(Some(parked.region));
        }
        drop(state);
        if let Some(detail) = detail {
            detail.free(memory);
        }
        Ok(None)
    }

    /// The kept buffer that nobody has wanted for longest, if more are kept than so many, or than so many bytes.
    pub(crate) fn unpark_oldest(&self, count: u32, bytes: u64) -> Option<(GoneRoot, Region)> {
        let mut state = self.state.lock();
        let State { table, park, .. } = &mut *state;
        if park.len() <= count && park.bytes() <= bytes {
            return None;
        }
        let parked = park.take_oldest()?;
        let Some(Record::Root(root)) = table.get_mut(parked.record) else { return None };
        root.state = Life::Going;
        Some((root.gone(parked.record), parked.region))
    }
}
