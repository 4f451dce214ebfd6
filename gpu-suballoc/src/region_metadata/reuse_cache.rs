//! The reuse cache: released buffers that are kept, with their memory, for the next request of the same size and description.

#![forbid(unsafe_code)]

use crate::id::RegionSlot;
use crate::region::Region;
use alloc_core::HostAllocator;

use super::detail::RegionDetail;
use super::record::RegionRecord;
use super::resource_description::ResourceDescription;
use super::root_state::RootState;
use super::state::MetadataState;
use super::{RegionMetadata, RemovedRoot};
use crate::error::GpuError;
use crate::growable_vec::GrowableVec;
use crate::request::RegionOptions;

/// A kept buffer.
pub(super) struct ReusableBuffer {
    pub(super) region: Region,
    /// The root's record.
    pub(super) record: u32,
    pub(super) kind: u16,
    pub(super) asked: u64,
    since: u64,
}

/// All kept buffers. The options limit them to few, so that a search is short.
pub(super) struct ReuseCache {
    /// Grown once, to the limit of the options.
    pub(super) entries: GrowableVec<ReusableBuffer>,
    pub(super) bytes: u64,
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

    /// Whether there was room.
    fn insert(&mut self, region: Region, root: &RemovedRoot) -> bool {
        self.clock += 1;
        let size = region.size();
        let buffer = ReusableBuffer {
            region,
            record: root.number,
            kind: root.kind,
            asked: root.view.asked,
            since: self.clock,
        };
        let is_inserted = self.entries.push(buffer).is_ok();
        if is_inserted {
            self.bytes = self.bytes.saturating_add(size);
        }
        is_inserted
    }

    /// Removes the newest buffer that fits exactly: the warmest in caches.
    pub(super) fn remove_match(&mut self, kind: u16, asked: u64) -> Option<ReusableBuffer> {
        let fits = self
            .entries
            .as_slice()
            .iter()
            .enumerate()
            .filter(|(_, buffer)| buffer.kind == kind && buffer.asked == asked);
        let (index, _) = fits.max_by_key(|(_, buffer)| buffer.since)?;
        self.remove(index)
    }

    /// Removes the oldest buffer.
    pub(super) fn remove_oldest(&mut self) -> Option<ReusableBuffer> {
        let (index, _) = self
            .entries
            .as_slice()
            .iter()
            .enumerate()
            .min_by_key(|(_, buffer)| buffer.since)?;
        self.remove(index)
    }

    fn remove(&mut self, index: usize) -> Option<ReusableBuffer> {
        let buffer = self.entries.swap_remove(index)?;
        self.bytes = self.bytes.saturating_sub(buffer.region.size());
        Some(buffer)
    }
}

impl RegionMetadata {
    /// Whether the root's buffer may be kept.
    pub(crate) fn is_reusable(&self, root: &RemovedRoot) -> bool {
        self.state.lock().kinds.is_reusable(root.kind)
    }

    /// Keeps the buffer of a removed root, whose name is `key` from now on. Returns the root if there is no room.
    pub(crate) fn insert_reusable(
        &self,
        memory: &dyn HostAllocator,
        root: RemovedRoot,
        key: RegionSlot,
        region: Region,
    ) -> Result<(), RemovedRoot> {
        let detail = {
            let mut state = self.state.lock();
            let MetadataState {
                table, reuse_cache, ..
            } = &mut *state;
            if !reuse_cache.insert(region, &root) {
                return Err(RemovedRoot { key, ..root });
            }
            match table.get_mut(root.number) {
                Some(RegionRecord::Root(root)) => {
                    root.key = key;
                    root.header.state = RootState::Reusable;
                    root.header.detail.take()
                }
                _ => None,
            }
        };
        RegionDetail::free(detail, memory);
        Ok(())
    }

    /// Removes a kept buffer of that description and size from the cache and gives it a new name.
    pub(crate) fn reuse(
        &self,
        memory: &dyn HostAllocator,
        kind: &ResourceDescription,
        asked: u64,
        options: &RegionOptions<'_>,
    ) -> Result<Option<Region>, GpuError> {
        if self.state.lock().reuse_cache.entries.len() == 0 {
            return Ok(None);
        }
        let detail = RegionDetail::new(memory, options)?;
        let mut state = self.state.lock();
        let MetadataState {
            table,
            kinds,
            reuse_cache,
            ..
        } = &mut *state;
        let buffer = kinds
            .find(kind)
            .and_then(|kind| reuse_cache.remove_match(kind, asked));
        if let Some(buffer) = buffer
            && let Some(RegionRecord::Root(root)) = table.get_mut(buffer.record)
        {
            root.header.state = RootState::Live;
            root.header.detail = detail;
            return Ok(Some(buffer.region));
        }
        drop(state);
        RegionDetail::free(detail, memory);
        Ok(None)
    }

    /// Removes the oldest buffer, if more than `count` buffers or more than `bytes` bytes are kept.
    pub(crate) fn remove_oldest_reusable(&self, count: u32, bytes: u64) -> Option<RemovedRoot> {
        let mut state = self.state.lock();
        let MetadataState {
            table, reuse_cache, ..
        } = &mut *state;
        if reuse_cache.entries.len() <= count && reuse_cache.bytes <= bytes {
            return None;
        }
        let buffer = reuse_cache.remove_oldest()?;
        let Some(RegionRecord::Root(root)) = table.get_mut(buffer.record) else {
            return None;
        };
        root.header.state = RootState::BeingRemoved;
        Some(root.removed(buffer.record))
    }
}
