use std::sync::atomic::{AtomicU64, Ordering};

use crate::chain::{MAX_HEAPS, MAX_TYPES, MEMORY_USES, MemoryAllocateInfo, MemoryProperties, MemoryUses, WHOLE_SIZE};
use crate::count::get;
use crate::handle_records::HandleRecords;

#[derive(Default)]
pub(crate) struct MemoryCount {
    pub(crate) live_bytes: AtomicU64,
    pub(crate) live_blocks: AtomicU64,
    pub(crate) peak_bytes: AtomicU64,
    pub(crate) total_bytes: AtomicU64,
    pub(crate) total_blocks: AtomicU64,
    pub(crate) refusals: AtomicU64,
    /// Of a heap.
    size: AtomicU64,
    /// Of a heap.
    pub(crate) budget: AtomicU64,
}

#[derive(Default)]
pub(crate) struct DeviceMemory {
    pub(crate) heaps: [MemoryCount; MAX_HEAPS],
    pub(crate) types: [MemoryCount; MAX_TYPES],
    pub(crate) uses: [MemoryCount; MEMORY_USES.len()],
    pub(crate) states: [MemoryCount; MEMORY_STATES.len()],
    pub(crate) lost_blocks: AtomicU64,
}

pub(crate) const MEMORY_STATES: [&str; 2] = ["bound", "mapped"];

pub(crate) struct MemoryBlock {
    bytes: u64,
    memory_type: u32,
    uses: MemoryUses,
    is_bound: bool,
    mapped: u64,
}

/// The blocks that a program never freed stay counted as live.
pub(crate) struct MemoryBlocks {
    blocks: HandleRecords<MemoryBlock>,
    properties: MemoryProperties,
}

impl MemoryCount {
    pub(crate) fn numbers(&self) -> [u64; 7] {
        [
            get(&self.live_bytes),
            get(&self.live_blocks),
            get(&self.peak_bytes),
            get(&self.total_bytes),
            get(&self.total_blocks),
            get(&self.refusals),
            get(&self.size),
        ]
    }

    pub(crate) fn allocated(&self, bytes: u64) {
        let live = self.live_bytes.fetch_add(bytes, Ordering::Relaxed);
        let live = live.wrapping_add(bytes);
        self.peak_bytes.fetch_max(live, Ordering::Relaxed);
        self.live_blocks.fetch_add(1, Ordering::Relaxed);
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.total_blocks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.live_blocks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DeviceMemory {
    pub(crate) fn set_sizes(&self, properties: &MemoryProperties) {
        for (count, size) in self.heaps.iter().zip(properties.heap_sizes()) {
            count.size.store(size, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_budgets(&self, budgets: &[u64; MAX_HEAPS]) {
        for (count, budget) in self.heaps.iter().zip(budgets) {
            count.budget.store(*budget, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let live = |count: &MemoryCount| count.live_blocks.load(Ordering::Relaxed);
        self.types.iter().map(live).sum::<u64>() == 0
    }
}

impl MemoryBlocks {
    pub(crate) const fn new(properties: MemoryProperties) -> Self {
        Self { blocks: HandleRecords::new(), properties }
    }

    fn counts<'a>(
        &self,
        counts: &'a DeviceMemory,
        (memory_type, uses): (u32, MemoryUses),
    ) -> impl Iterator<Item = &'a MemoryCount> + use<'a> {
        let of_type = counts.types.get(memory_type as usize);
        let heap = self.properties.heap_of(memory_type);
        let of_heap = heap.and_then(|heap| counts.heaps.get(heap));
        let of_uses = counts.uses.iter().zip(uses);
        let of_uses = of_uses.filter(|(_, is_so)| *is_so).map(|(count, _)| count);
        of_type.into_iter().chain(of_heap).chain(of_uses)
    }

    /// `handle` is 0 when the allocation was refused.
    ///
    /// # Safety
    /// The info's chain is one as Vulkan has it.
    pub(crate) unsafe fn allocated(&self, counts: &DeviceMemory, info: &MemoryAllocateInfo, handle: u64) {
        let (bytes, memory_type) = (info.allocation_size, info.memory_type_index);
        // SAFETY: the chain is one as Vulkan has it.
        let uses = unsafe { info.uses() };
        if handle == 0 {
            for count in self.counts(counts, (memory_type, uses)) {
                count.refusals.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let block = MemoryBlock { bytes, memory_type, uses, is_bound: false, mapped: 0 };
        if self.blocks.insert(handle, block) {
            self.counts(counts, (memory_type, uses)).for_each(|count| count.allocated(bytes));
        } else {
            counts.lost_blocks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs before `vkFreeMemory`: afterwards another block may have the handle.
    pub(crate) fn freed(&self, counts: &DeviceMemory, handle: u64) {
        let Some(mut block) = self.blocks.remove(handle) else {
            return;
        };
        self.counts(counts, (block.memory_type, block.uses)).for_each(|count| count.freed(block.bytes));
        let [bound, mapped] = &counts.states;
        if block.is_bound {
            bound.freed(block.bytes);
        }
        block.map(mapped, 0);
    }

    pub(crate) fn bound(&self, counts: &DeviceMemory, handle: u64) {
        let [bound, _] = &counts.states;
        self.blocks.with(handle, |block| {
            if !std::mem::replace(&mut block.is_bound, true) {
                bound.allocated(block.bytes);
            }
        });
    }

    pub(crate) fn mapped(&self, counts: &DeviceMemory, handle: u64, (offset, size): (u64, u64)) {
        let [_, mapped] = &counts.states;
        self.blocks.with(handle, |block| {
            let rest = block.bytes.saturating_sub(offset);
            block.map(mapped, if size == WHOLE_SIZE { rest } else { size });
        });
    }

    pub(crate) fn unmapped(&self, counts: &DeviceMemory, handle: u64) {
        let [_, mapped] = &counts.states;
        self.blocks.with(handle, |block| block.map(mapped, 0));
    }
}

impl MemoryBlock {
    /// A mapping of no bytes is none: its end could not be noticed.
    fn map(&mut self, count: &MemoryCount, bytes: u64) {
        if self.mapped != 0 {
            count.freed(self.mapped);
        }
        if bytes != 0 {
            count.allocated(bytes);
        }
        self.mapped = bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::atomic::Ordering;

    use super::{DeviceMemory, MemoryBlocks, MemoryCount};
    use crate::chain::{DedicatedInfo, MemoryAllocateInfo, MemoryProperties, WHOLE_SIZE};

    #[test]
    fn dedicated_memory_is_counted_apart_until_it_is_freed() {
        let counts = DeviceMemory::default();
        let blocks = MemoryBlocks::new(MemoryProperties::default());
        let mut dedicated = DedicatedInfo::new(ptr::null_mut(), 0, 7);
        let dedicated = (&raw mut dedicated).cast();
        for (handle, p_next) in [(1, ptr::null_mut()), (2, dedicated)] {
            let info = MemoryAllocateInfo::new(p_next, 4096, 3);
            // SAFETY: a chain of one live struct, or none.
            unsafe { blocks.allocated(&counts, &info, handle) };
        }
        let live = |count: &MemoryCount| count.live_bytes.load(Ordering::Relaxed);
        let [imported, exported, dedicated] = &counts.uses;
        assert_eq!((live(imported), live(exported)), (0, 0));
        assert_eq!((live(&counts.types[3]), live(dedicated)), (8192, 4096));
        blocks.freed(&counts, 2);
        assert_eq!((live(&counts.types[3]), live(dedicated)), (4096, 0));
        assert_eq!(dedicated.peak_bytes.load(Ordering::Relaxed), 4096);
    }

    #[test]
    fn ly20_a_mapping_of_no_bytes_is_none() {
        let counts = DeviceMemory::default();
        let blocks = MemoryBlocks::new(MemoryProperties::default());
        let info = MemoryAllocateInfo::new(ptr::null_mut(), 4096, 3);
        // SAFETY: an info without a chain.
        unsafe { blocks.allocated(&counts, &info, 1) };
        let [_, mapped] = &counts.states;
        let live = || mapped.live_blocks.load(Ordering::Relaxed);
        for (range, expected) in [((0, 64), 1), ((4096, WHOLE_SIZE), 0), ((4000, WHOLE_SIZE), 1)] {
            blocks.mapped(&counts, 1, range);
            assert_eq!(live(), expected, "{range:?}");
        }
        blocks.mapped(&counts, 1, (5000, WHOLE_SIZE));
        blocks.unmapped(&counts, 1);
        blocks.freed(&counts, 1);
        assert_eq!(live(), 0);
        assert_eq!(mapped.live_bytes.load(Ordering::Relaxed), 0);
        assert_eq!(mapped.total_bytes.load(Ordering::Relaxed), 64 + 96);
    }
}
