//! Algorithms of blocks.

#![forbid(unsafe_code)]

/// How a [`VirtualBlock`](crate::VirtualBlock) or a custom pool finds space. The linear ones place ranges one behind the other, in constant
/// time and with little book-keeping, and free them in their order:
///
/// ```text
///   Stack         | a | b | c |             free              |      the newest: c, b, a
///   DoubleStack   | a | b |          free           | y | x   |      the newest of each end: b or y
///   Ring          | d | e |  free  | b | c |  (left at the end) |    the oldest: b, c, d, e
/// ```
///
/// A free out of order is refused: [`VirtualBlockError::OutOfOrder`](crate::virtual_block::VirtualBlockError::OutOfOrder),
/// [`GpuMisuse::OutOfOrder`](crate::GpuMisuse::OutOfOrder). For a region before its turn call
/// [`free_when_unused`](crate::GpuAllocator::free_when_unused): its id is stale at once, and its space is reclaimed in its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockAlgorithm {
    /// Any order of allocating and freeing.
    #[default]
    General,
    /// One behind the other; the newest is freed first. A pool has one block.
    Stack,
    /// A stack at each end: the lower one, and, for requests with an
    /// [`upper address`](crate::virtual_block::VirtualAllocationOptions::upper_address), the upper one. A pool has one block.
    DoubleStack,
    /// One behind the other, continued at the start; the oldest is freed first. A pool has one block.
    Ring,
}

impl BlockAlgorithm {
    /// Stack, double stack or ring.
    pub(crate) const fn is_linear(self) -> bool {
        !matches!(self, Self::General)
    }
}
