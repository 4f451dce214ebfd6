//! A virtual block as the interval model's subject, on a host allocator of which one request can be refused.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

use super::{NoRange, RangeTotals};
use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, HostError, Scope};
use gpu_suballoc::VirtualBlock;
use gpu_suballoc::virtual_block::{VirtualAllocation, VirtualAllocationOptions, VirtualBlockError};

/// The system's memory, of which one request can be refused. Nothing may be out when it ends.
#[derive(Debug, Default)]
struct Refusing {
    /// Requests until the one that is refused.
    until: Cell<Option<u64>>,
    live: Cell<i64>,
}

impl Drop for Refusing {
    fn drop(&mut self) {
        assert!(
            self.live.get() == 0 || std::thread::panicking(),
            "host memory was not given back"
        );
    }
}

/// The handle that the block has.
#[derive(Debug, Default, Clone)]
struct RangeHost(Rc<Refusing>);

// SAFETY: all blocks are the system allocator's.
unsafe impl HostAllocator for RangeHost {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert_eq!(scope, Scope::Object);
        match self.0.until.get() {
            Some(0) => {
                self.0.until.set(None);
                return Err(AllocError);
            }
            Some(more) => self.0.until.set(Some(more - 1)),
            None => {}
        }
        self.0.live.set(self.0.live.get() + 1);
        FromGlobalAlloc::SYSTEM.allocate(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.0.live.set(self.0.live.get() - 1);
        // SAFETY: forwarded.
        unsafe { FromGlobalAlloc::SYSTEM.deallocate(block, layout, scope) }
    }
}

/// The subject. Once it is dropped, all host memory was given back.
#[derive(Debug)]
pub(crate) struct RangeSubject {
    memory: RangeHost,
    block: VirtualBlock<RangeHost>,
}

impl RangeSubject {
    /// A block of `size` bytes in granules of `granule`.
    pub(crate) fn new(size: u64, granule: u64) -> Self {
        let memory = RangeHost::default();
        let block = VirtualBlock::new(memory.clone(), size, granule)
            .expect("the program's blocks make sense");
        Self { memory, block }
    }
}

fn why(error: VirtualBlockError) -> NoRange {
    match error {
        VirtualBlockError::Full => NoRange::Full,
        VirtualBlockError::Host(HostError::OutOfHostMemory { .. }) => NoRange::Host,
        VirtualBlockError::Stale => NoRange::Stale,
        VirtualBlockError::ZeroSize
        | VirtualBlockError::Alignment
        | VirtualBlockError::TooLarge => NoRange::Misuse,
        other => panic!("{other}"),
    }
}

impl RangeSubject {
    pub(super) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        high: bool,
    ) -> Result<(VirtualAllocation, u64, u64), NoRange> {
        let options = VirtualAllocationOptions {
            upper_address: high,
            ..VirtualAllocationOptions::new(size, alignment)
        };
        self.block
            .allocate_with(&options)
            .map(|range| (range.allocation, range.offset, range.size))
            .map_err(why)
    }

    pub(super) fn free(&mut self, id: VirtualAllocation) -> Result<(), NoRange> {
        // No memory is taken for it: the next request would be refused.
        let before = self.memory.0.until.replace(Some(0));
        let freed = self.block.free(id);
        assert_eq!(
            self.memory.0.until.replace(before),
            Some(0),
            "freeing took memory"
        );
        freed.map_err(why)
    }

    pub(super) fn find(&self, id: VirtualAllocation) -> Option<(u64, u64)> {
        self.block
            .info(id)
            .ok()
            .map(|info| (info.offset, info.size))
    }

    pub(super) fn totals(&self) -> RangeTotals {
        let sums = self.block.statistics();
        let largest = self.block.largest_free();
        assert!(
            sums.largest_free_bound >= largest,
            "{} is no bound of {largest}",
            sums.largest_free_bound
        );
        let (used, live) = (sums.allocation_bytes, u64::from(sums.allocation_count));
        RangeTotals {
            used,
            free: sums.size - used,
            live,
            largest,
        }
    }

    pub(super) fn walk(&self, each: &mut dyn FnMut(u64, u64, bool)) {
        let mut holes = 0;
        self.block.for_each(|piece| {
            holes += u32::from(piece.used.is_none());
            each(piece.offset, piece.size, piece.used.is_some());
        });
        assert_eq!(self.block.statistics().unused_range_count, holes);
    }

    pub(super) fn clear(&mut self) {
        self.block.clear();
    }

    pub(super) fn refuse_host(&mut self, nth: Option<u64>) {
        self.memory.0.until.set(nth);
    }
}
