//! How space in a block is found.

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
/// What is freed out of its order is refused: [`VirtualBlockError::OutOfOrder`](crate::virtual_block::VirtualBlockError::OutOfOrder),
/// [`GpuMisuse::OutOfOrder`](crate::GpuMisuse::OutOfOrder). A region that is given up before its turn is passed to
/// [`free_when_unused`](crate::GpuAllocator::free_when_unused): it is gone at once for its owner, and its room comes back in its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockAlgorithm {
    /// Any order of allocating and freeing.
    #[default]
    General,
    /// One behind the other; the newest goes first. A pool has one block.
    Stack,
    /// A stack at each end: the lower one, and, for what asks for an
    /// [`upper address`](crate::virtual_block::VirtualAllocationOptions::upper_address), the upper one. A pool has one block.
    DoubleStack,
    /// One behind the other, and at the start again where the end is reached; the oldest goes first. A pool has one block.
    Ring,
}

impl BlockAlgorithm {
    /// One behind the other.
    pub(crate) const fn is_linear(self) -> bool {
        !matches!(self, Self::General)
    }
}
