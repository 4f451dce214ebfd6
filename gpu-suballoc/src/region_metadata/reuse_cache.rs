//! Buffers that were given back and kept, with their memory, for the next request of the same size and kind.

#![forbid(unsafe_code)]

use crate::id::RegionSlot;
use crate::region::Region;
use alloc_core::HostAllocator;

use super::detail::RegionDetail;
use super::record::RegionRecord;
use super::resource_description::ResourceDescription;
use super::root_state::RootState as Life;
use super::state::MetadataState;
use super::{RegionMetadata, RemovedRoot};
use crate::error::GpuError;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;
use crate::request::RegionOptions;

/// One that is kept.
pub(super) struct ReusableBuffer {
    pub(super) region: Region,
    /// Of the root.
    pub(super) record: u32,
    pub(super) kind: u16,
    pub(super) asked: u64,
    since: u64,
}

/// All that are kept. Few, so that a look through them is short; their budget is the options'.
pub(super) struct ReuseCache {
    entries: GrowableVec<ReusableBuffer>,
    bytes: u64,
    clock: u64,
}

impl ReuseCache {
    pub(super) const fn new() -> Self {
        Self {
            entries: GrowableVec::new(),
            bytes: 0,
            clock: 0,
        }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) const fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Supplied once, for all that may be kept.
    pub(super) fn array(&mut self) -> &mut GrowableVec<ReusableBuffer> {
        &mut self.entries
    }

    /// Gives the region back when there is no room.
    pub(super) fn insert(
        &mut self,
        region: Region,
        record: u32,
        kind: u16,
        asked: u64,
    ) -> Result<(), Region> {
        self.clock += 1;
        let size = region.size();
        let parked = ReusableBuffer {
            region,
            record,
            kind,
            asked,
            since: self.clock,
        };
        self.entries.push(parked).map_err(|parked| parked.region)?;
        self.bytes = self.bytes.saturating_add(size);
        Ok(())
    }

    /// The one that was put in last of those that fit exactly: the warmest.
    pub(super) fn remove_match(&mut self, kind: u16, asked: u64) -> Option<ReusableBuffer> {
        let fits = self
            .entries
            .as_slice()
            .iter()
            .enumerate()
            .filter(|(_, parked)| parked.kind == kind && parked.asked == asked);
        let (index, _) = fits.max_by_key(|(_, parked)| parked.since)?;
        self.remove(index)
    }

    /// The one that nobody has wanted for longest.
    pub(super) fn remove_oldest(&mut self) -> Option<ReusableBuffer> {
        let (index, _) = self
            .entries
            .as_slice()
            .iter()
            .enumerate()
            .min_by_key(|(_, parked)| parked.since)?;
        self.remove(index)
    }

    fn remove(&mut self, index: usize) -> Option<ReusableBuffer> {
        let parked = self.entries.swap_remove(index)?;
        self.bytes = self.bytes.saturating_sub(parked.region.size());
        Some(parked)
    }

    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.entries.detach_memory()
    }
}

impl RegionMetadata {
    /// Whether a buffer of this root is of a kind that may be kept.
    pub(crate) fn is_reusable(&self, gone: &RemovedRoot) -> bool {
        self.state.lock().kinds.is_reusable(gone.kind)
    }

    /// Keeps a root that `RegionMetadata::begin_removal` gave, under the key it has from now on. Gives region and root back when there is no room.
    pub(crate) fn insert_reusable(
        &self,
        memory: &dyn HostAllocator,
        gone: RemovedRoot,
        key: RegionSlot,
        region: Region,
    ) -> Result<(), (RemovedRoot, Region)> {
        let detail = {
            let mut state = self.state.lock();
            let MetadataState {
                table,
                reuse_cache: park,
                ..
            } = &mut *state;
            if let Err(region) = park.insert(region, gone.number, gone.kind, gone.asked) {
                return Err((RemovedRoot { key, ..gone }, region));
            }
            match table.get_mut(gone.number) {
                Some(RegionRecord::Root(root)) => {
                    root.key = key;
                    root.state = Life::Reusable;
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
    pub(crate) fn reuse(
        &self,
        memory: &dyn HostAllocator,
        kind: &ResourceDescription,
        asked: u64,
        options: &RegionOptions<'_>,
    ) -> Result<Option<Region>, GpuError> {
        if self.state.lock().reuse_cache.len() == 0 {
            return Ok(None);
        }
        let detail = RegionDetail::new(memory, options)?;
        let mut state = self.state.lock();
        let MetadataState {
            table,
            kinds,
            reuse_cache: park,
            ..
        } = &mut *state;
        let parked = kinds
            .find(kind)
            .and_then(|kind| park.remove_match(kind, asked));
        if let Some(parked) = parked
            && let Some(RegionRecord::Root(root)) = table.get_mut(parked.record)
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
    pub(crate) fn remove_oldest_reusable(
        &self,
        count: u32,
        bytes: u64,
    ) -> Option<(RemovedRoot, Region)> {
        let mut state = self.state.lock();
        let MetadataState {
            table,
            reuse_cache: park,
            ..
        } = &mut *state;
        if park.len() <= count && park.bytes() <= bytes {
            return None;
        }
        let parked = park.remove_oldest()?;
        let Some(RegionRecord::Root(root)) = table.get_mut(parked.record) else {
            return None;
        };
        root.state = Life::BeingRemoved;
        Some((root.removed(parked.record), parked.region))
    }
}
