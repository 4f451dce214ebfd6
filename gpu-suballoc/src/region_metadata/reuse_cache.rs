//! The reuse cache: released buffers that are kept, with their memory, for the next request of the same size and description.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use alloc_core::HostAllocator;

use super::MetadataState;
use super::detail::RegionDetail;
use super::record::RootRecord;
use super::resource_description::ResourceDescription;
use super::root_state::RootState;
use super::{RegionMetadata, RemovedRoot};
use crate::error::GpuError;
use crate::growable_vec::GrowableVec;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::id::LAST_GENERATION;
use crate::id::RegionKey;
use crate::request::RegionOptions;

/// A kept buffer, the newest one last.
#[derive(Clone, Copy)]
pub(super) struct ReusableBuffer {
    key: RegionKey,
    kind: u16,
    asked: u64,
    since: u64,
}

/// All kept buffers. The options limit them to few, so that a search is short.
pub(super) struct ReuseCache {
    pub(super) entries: GrowableVec<ReusableBuffer>,
    /// The limit of the options.
    max_len: u32,
    pub(super) bytes: u64,
    clock: u64,
}

impl ReuseCache {
    pub(super) const fn new(max_len: u32) -> Self {
        Self {
            entries: GrowableVec::new(),
            max_len,
            bytes: 0,
            clock: 0,
        }
    }

    /// Removes the buffer that `rank` ranks highest; `None` excludes one.
    fn remove_best(
        &mut self,
        rank: impl Fn(&ReusableBuffer) -> Option<u64>,
    ) -> Option<ReusableBuffer> {
        let ranked = self.entries.as_slice().iter().enumerate();
        let ranked = ranked.filter_map(|(index, buffer)| Some((rank(buffer)?, index)));
        let (_, index) = ranked.max()?;
        let buffer = self.entries.swap_remove(index)?;
        self.bytes = self.bytes.saturating_sub(buffer.asked);
        Some(buffer)
    }
}

impl GrowableTable for ReuseCache {
    fn missing(&self) -> Option<Layout> {
        if self.entries.capacity() >= self.max_len {
            return None;
        }
        GrowableVec::<ReusableBuffer>::layout(self.max_len)
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.entries.grow_with(block)
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.entries.detach_memory()
    }
}

impl RegionMetadata {
    /// Whether the root's buffer may be kept.
    pub(crate) fn is_reusable(&self, root: &RemovedRoot) -> bool {
        self.state.lock().kinds.is_reusable(root.kind)
    }

    /// Keeps the buffer of a removed root under its slot's next generation: existing ids are stale. Returns the root if there is no room, or
    /// no generation.
    pub(crate) fn insert_reusable(
        &self,
        memory: &dyn HostAllocator,
        gone: RemovedRoot,
    ) -> Result<(), RemovedRoot> {
        let mut state = self.state.lock();
        let detail = state.keep(&gone);
        drop(state);
        RegionDetail::free(detail.ok_or(gone)?, memory);
        Ok(())
    }

    /// Removes a kept buffer of that description and size from the cache, the newest one, which is the warmest in caches, and gives it a
    /// new name.
    pub(crate) fn reuse(
        &self,
        memory: &dyn HostAllocator,
        kind: &ResourceDescription,
        asked: u64,
        options: &RegionOptions<'_>,
    ) -> Result<Option<RegionKey>, GpuError> {
        if self.state.lock().reuse_cache.entries.len() == 0 {
            return Ok(None);
        }
        let detail = RegionDetail::new(memory, options)?;
        let mut state = self.state.lock();
        let kind = state.kinds.find(kind);
        let fits = |buffer: &ReusableBuffer| {
            (Some(buffer.kind) == kind && buffer.asked == asked).then_some(buffer.since)
        };
        let found = state.reuse_cache.remove_best(fits);
        if let Some(key) = found.map(|buffer| buffer.key)
            && let Some(RootRecord { header, .. }) = state.table.root_mut(key)
        {
            header.state = RootState::Live;
            header.detail = detail;
            return Ok(Some(key));
        }
        drop(state);
        RegionDetail::free(detail, memory);
        Ok(None)
    }

    /// Removes the oldest buffer, if more than `count` buffers or more than `bytes` bytes are kept.
    pub(crate) fn remove_oldest_reusable(&self, count: u32, bytes: u64) -> Option<RemovedRoot> {
        let mut state = self.state.lock();
        let cache = &mut state.reuse_cache;
        if cache.entries.len() <= count && cache.bytes <= bytes {
            return None;
        }
        let oldest = cache.remove_best(|buffer| Some(u64::MAX - buffer.since))?;
        let root = state.table.root_mut(oldest.key)?;
        root.header.state = RootState::BeingRemoved;
        Some(root.removed(oldest.key.slot))
    }
}

impl MetadataState {
    /// Keeps a removed root. Returns the name that it had; `None`, and nothing changed, if it cannot be kept.
    fn keep(&mut self, gone: &RemovedRoot) -> Option<Option<RegionDetail>> {
        let slot = gone.place.slot;
        let generation = self.table.get(slot)?.generation();
        let root = self.table.root_mut(RegionKey { slot, generation })?;
        if generation >= LAST_GENERATION {
            return None;
        }
        let cache = &mut self.reuse_cache;
        cache.clock += 1;
        let buffer = ReusableBuffer {
            key: RegionKey {
                slot,
                generation: generation + 1,
            },
            kind: gone.kind,
            asked: gone.view.asked,
            since: cache.clock,
        };
        cache.entries.push(buffer).ok()?;
        cache.bytes = cache.bytes.saturating_add(buffer.asked);
        root.header.generation = generation + 1;
        root.header.state = RootState::Reusable;
        Some(root.header.detail.take())
    }
}
