#![forbid(unsafe_code)]

use core::alloc::Layout;

use alloc_core::HostAllocator;

use super::detail::RegionDetail;
use super::resource_description::ResourceDescription;
use super::root_state::RootState;
use super::{MetadataState, RegionMetadata, RemovedRoot};
use crate::error::GpuError;
use crate::growable_vec::GrowableVec;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::id::{LAST_GENERATION, RegionKey};
use crate::request::RegionOptions;

#[derive(Clone, Copy)]
pub(super) struct ReusableBuffer {
    key: RegionKey,
    kind: u16,
    asked: u64,
}

pub(super) struct ReuseCache {
    /// The newest one last.
    pub(super) entries: GrowableVec<ReusableBuffer>,
    max_len: u32,
    pub(super) bytes: u64,
}

impl ReuseCache {
    pub(super) const fn new(max_len: u32) -> Self {
        Self { entries: GrowableVec::new(), max_len, bytes: 0 }
    }

    fn remove(&mut self, index: usize) -> Option<ReusableBuffer> {
        let buffer = self.entries.remove(index)?;
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
    /// A buffer that other devices may share is not.
    pub(crate) fn is_reusable(&self, root: &RemovedRoot) -> bool {
        let state = self.state.lock();
        let description = state.kinds.get(root.description.into());
        description.is_some_and(|it| !it.leaves_device())
    }

    /// The slot's next generation makes existing ids stale.
    pub(crate) fn insert_reusable(&self, memory: &dyn HostAllocator, gone: RemovedRoot) -> Result<(), RemovedRoot> {
        let mut state = self.state.lock();
        let detail = state.keep(&gone);
        drop(state);
        RegionDetail::free(detail.ok_or(gone)?, memory);
        Ok(())
    }

    /// The newest one is the warmest in caches.
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
        let fits = |buffer: &ReusableBuffer| Some(buffer.kind) == kind && buffer.asked == asked;
        let kept = state.reuse_cache.entries.as_slice();
        let found = kept.iter().rposition(fits);
        let found = found.and_then(|index| state.reuse_cache.remove(index));
        if let Some(key) = found.map(|buffer| buffer.key)
            && let Some(root) = state.table.root_mut(key)
        {
            root.state = RootState::Live;
            root.detail = detail;
            return Ok(Some(key));
        }
        drop(state);
        RegionDetail::free(detail, memory);
        Ok(None)
    }

    pub(crate) fn remove_oldest_reusable(&self, count: u32, bytes: u64) -> Option<RemovedRoot> {
        let mut state = self.state.lock();
        let cache = &mut state.reuse_cache;
        if cache.entries.len() <= count && cache.bytes <= bytes {
            return None;
        }
        let oldest = cache.remove(0)?;
        let root = state.table.root_mut(oldest.key)?;
        root.state = RootState::BeingRemoved;
        Some(root.removed(oldest.key.slot))
    }
}

impl MetadataState {
    /// `None`, and nothing changed, if the buffer cannot be kept.
    fn keep(&mut self, gone: &RemovedRoot) -> Option<Option<RegionDetail>> {
        let slot = gone.place.slot;
        let generation = self.table.get(slot)?.generation;
        let root = self.table.root_mut(RegionKey { slot, generation })?;
        if generation >= LAST_GENERATION {
            return None;
        }
        let cache = &mut self.reuse_cache;
        let buffer = ReusableBuffer {
            key: RegionKey { slot, generation: generation + 1 },
            kind: gone.description,
            asked: gone.view.asked,
        };
        cache.entries.push(buffer).ok()?;
        cache.bytes = cache.bytes.saturating_add(buffer.asked);
        root.generation = generation + 1;
        root.state = RootState::Reusable;
        Some(root.detail.take())
    }
}
