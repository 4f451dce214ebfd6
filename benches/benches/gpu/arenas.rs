//! Ranges alone: no driver, no blocks, one arena.

use alloc_core::{Context, Scope};
use gpu_suballoc::VirtualBlock;
use gpu_suballoc::virtual_block::VirtualAllocation as OurAllocation;
use offset_allocator::Allocation;
use vk_mem::{VirtualAllocation, VirtualAllocationCreateFlags, VirtualAllocationCreateInfo, VirtualBlockCreateInfo};

use super::play::Places;
use super::traces::MemoryTrace;

/// The range core, its book-keeping in memory of a context.
pub struct Ours<'c> {
    block: VirtualBlock<&'c Context>,
    context: &'c Context,
}

impl<'c> Ours<'c> {
    pub fn new(context: &'c Context, size: u64) -> Self {
        Self { block: VirtualBlock::new(context, size, 256).expect("a size that is fine"), context }
    }
}

impl Places for Ours<'_> {
    type Piece = (OurAllocation, u64);
    #[inline]
    fn take(&mut self, size: u64, align: u64) -> Option<Self::Piece> {
        let range = self.block.allocate(size, align).ok()?;
        Some((range.allocation, range.offset))
    }
    #[inline]
    fn give(&mut self, piece: Self::Piece) {
        self.block.free(piece.0).expect("a live piece");
    }
    fn place(&self, piece: &Self::Piece) -> (u64, u64) {
        (0, piece.1)
    }
    fn accounts(&self) -> Option<u64> {
        Some(self.context.usage().scope(Scope::Object).live_bytes)
    }
}

/// `VmaVirtualBlock`.
pub struct VmaVirtual {
    block: vk_mem::VirtualBlock,
}

impl VmaVirtual {
    pub fn new(size: u64) -> Self {
        let block = vk_mem::VirtualBlock::new(VirtualBlockCreateInfo { size, ..Default::default() }).expect("memory");
        Self { block }
    }
}

impl Places for VmaVirtual {
    type Piece = (VirtualAllocation, u64);
    #[inline]
    fn take(&mut self, size: u64, alignment: u64) -> Option<Self::Piece> {
        let info =
            VirtualAllocationCreateInfo { size, alignment, user_data: 0, flags: VirtualAllocationCreateFlags::empty() };
        // SAFETY: size and alignment are not zero.
        unsafe { self.block.allocate(info) }.ok()
    }
    #[inline]
    fn give(&mut self, mut piece: Self::Piece) {
        // SAFETY: a live piece of this block.
        unsafe { self.block.free(&mut piece.0) };
    }
    fn place(&self, piece: &Self::Piece) -> (u64, u64) {
        (0, piece.1)
    }
}

/// It knows no alignment: the trace's is its unit. A node for each piece and for each hole that can be between.
pub struct Offset {
    allocator: offset_allocator::Allocator,
    unit: u32,
}

impl Offset {
    pub fn new(size: u64, trace: &MemoryTrace) -> Self {
        let unit = trace.align.trailing_zeros();
        let units = u32::try_from(size >> unit).unwrap_or(u32::MAX);
        Self { allocator: offset_allocator::Allocator::with_max_allocs(units, 2 * trace.most_live as u32 + 8), unit }
    }
}

impl Places for Offset {
    type Piece = Allocation;
    #[inline]
    fn take(&mut self, size: u64, _: u64) -> Option<Allocation> {
        let units = (size + (1 << self.unit) - 1) >> self.unit;
        self.allocator.allocate(units as u32)
    }
    #[inline]
    fn give(&mut self, piece: Allocation) {
        self.allocator.free(piece);
    }
    fn place(&self, piece: &Allocation) -> (u64, u64) {
        (0, u64::from(piece.offset) << self.unit)
    }
}
