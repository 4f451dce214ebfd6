//! The public range allocator: a block that consists only of offsets.

use core::alloc::Layout;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use alloc_core::{HostAllocator, HostError};

use super::free_index::FreeIndex;
use super::linear::LinearRanges;
use super::node_store::NodeStore;
use super::range_allocator::RangeAllocator;
use super::types::{Fit, NODES_PER_ALLOCATION, RangeError, RangeRequest, Span, SpanState};
use super::virtual_linear;
use crate::host_block::HostBlock;

/// Allocates ranges of something that it never accesses: your own buffer, descriptors of a heap, an address space. The equivalent of
/// `VmaVirtualBlock`.
///
/// Allocating and freeing take constant time, independent of the number of live ranges; adjacent holes are joined at once. Sizes and
/// offsets are in units of your choice, here called bytes, and are multiples of the *granule*: a size is rounded up to it, and an alignment
/// below it costs nothing. A request succeeds if a hole fits it.
///
/// All memory for bookkeeping comes from `A`, scope [`Scope::Object`](alloc_core::Scope::Object): about 32 bytes for each range and each
/// hole, in blocks of 4 KiB, and a table of at most 3.5 KiB. If this memory is missing, a request returns an error and changes nothing.
/// Freeing allocates nothing and frees memory that is no longer needed (a stack or a ring keeps its table); dropping the block frees all
/// memory.
///
/// Any thread may use it, one at a time (`&mut self`). The documentation of a method says if it takes more than constant time.
///
/// ```
/// use alloc_core::FromGlobalAlloc;
/// use gpu_suballoc::VirtualBlock;
/// use gpu_suballoc::virtual_block::VirtualBlockError;
///
/// // 64 MiB of some buffer, in granules of 256 bytes.
/// let mut block = VirtualBlock::new(FromGlobalAlloc::SYSTEM, 64 << 20, 256)?;
/// let vertices = block.allocate(100_000, 16)?;
/// let indices = block.allocate(5_000, 4096)?;
/// assert_eq!((vertices.offset, vertices.size), (0, 100_096));
/// assert_eq!(indices.offset % 4096, 0);
///
/// block.free(vertices.allocation)?;
/// assert_eq!(block.free(vertices.allocation), Err(VirtualBlockError::Stale)); // also after the range was allocated again
/// assert_eq!(block.statistics().allocation_bytes, 5_120);
/// # Ok::<(), VirtualBlockError>(())
/// ```
#[derive(Debug)]
pub struct VirtualBlock<A: HostAllocator> {
    pub(super) core: RangeAllocator,
    pub(super) index: FreeIndex,
    pub(super) store: NodeStore,
    /// For a stack or a ring, used instead of the fields above.
    pub(super) linear: Option<LinearRanges>,
    pub(super) memory: A,
    pub(super) tag: u32,
}

/// The id of a live range of one [`VirtualBlock`]. It is stale after the range is freed, and is never reissued.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VirtualAllocation {
    /// Node and generation in one word: ids are copied often, and loading one word that was just stored as two halves is slow.
    name: u64,
    tag: u32,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualRange {
    /// Its id, for freeing it.
    pub allocation: VirtualAllocation,
    /// Its offset, a multiple of the requested alignment.
    pub offset: u64,
    /// The requested size, rounded up to the granule, or to the alignment if it is at least four alignments long and there is room.
    pub size: u64,
}

/// All parameters of a request: [`VirtualBlock::allocate_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualAllocationOptions {
    /// At least 1.
    pub size: u64,
    /// The alignment of the offset: a power of two, at most the block's size.
    pub alignment: u64,
    /// Allocates at the high end of a hole, or at the upper end of a double stack. Use it for short-lived ranges in a block with long-lived
    /// ranges, so that they do not fragment each other's space.
    pub upper_address: bool,
    /// Stored with the range; not interpreted.
    pub user_data: u32,
}

impl VirtualAllocationOptions {
    /// At the low end, user data 0.
    #[must_use]
    pub const fn new(size: u64, alignment: u64) -> Self {
        Self {
            size,
            alignment,
            upper_address: false,
            user_data: 0,
        }
    }
}

/// A live range: [`VirtualBlock::info`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualAllocationInfo {
    /// Its offset.
    pub offset: u64,
    /// The requested size, at most the size of the range.
    pub size: u64,
    /// The user data that is stored with it.
    pub user_data: u32,
}

/// A range or a hole of the block: [`VirtualBlock::for_each`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualPiece {
    /// Its offset.
    pub offset: u64,
    /// Its size in whole granules.
    pub size: u64,
    /// The id and the user data of a range; `None` for a hole.
    pub used: Option<(VirtualAllocation, u32)>,
}

/// Usage of a block: [`VirtualBlock::statistics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualBlockStatistics {
    /// The bytes that can be allocated: the size of the block, rounded down to the granule.
    pub size: u64,
    /// Number of live ranges.
    pub allocation_count: u32,
    /// Bytes of live ranges, rounded up to granules.
    pub allocation_bytes: u64,
    /// Number of holes.
    pub unused_range_count: u32,
    /// An upper bound of the size of a hole. Exact below 64 granules, otherwise up to 1/32 too high; [`VirtualBlock::largest_free`] is
    /// exact.
    pub largest_free_bound: u64,
}

/// Errors of a [`VirtualBlock`]. An error changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VirtualBlockError {
    /// Size 0, or a block smaller than its granule.
    ZeroSize,
    /// An alignment that is not a power of two.
    Alignment,
    /// A granule that is not a power of two up to 2^31.
    Granule,
    /// More than the block could hold if it were empty; a block of more than 2^32 - 2 granules.
    TooLarge,
    /// No hole fits. In a stack or a ring: there is no room at that end.
    Full,
    /// In a stack or a ring: this range is not the next to free.
    OutOfOrder,
    /// A stack or a ring has no upper end; a double stack has one.
    NoUpperEnd,
    /// A stack or a ring chooses its offsets itself: the caller cannot.
    PlacesItself,
    /// This range was freed before.
    Stale,
    /// This range belongs to another block.
    Foreign,
    /// There are 2^32 ranges and holes.
    TooManyRanges,
    /// No memory for bookkeeping.
    Host(HostError),
}

impl fmt::Display for VirtualBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroSize => "a size of 0 has no range: ask for one granule at least",
            Self::Alignment => "the alignment is no power of two: use 1 where any offset will do",
            Self::Granule => "the granule is no power of two up to 2^31: use 1 or 256",
            Self::TooLarge => {
                "more than the block could ever hold: split it, or make a larger block or one with a larger granule"
            }
            Self::Full => "no hole is large enough: free something, or use another block",
            Self::OutOfOrder => "that range is not the next to go: free the others first",
            Self::PlacesItself => "a stack or a ring places its ranges itself: make a general block",
            Self::NoUpperEnd => "a stack or a ring has no upper end: make a double stack",
            Self::Stale => "that range was freed before: forget its name when you free it",
            Self::Foreign => "that range is of another block: free it there",
            Self::TooManyRanges => "there are 2^32 ranges and holes: use several blocks",
            Self::Host(error) => return write!(f, "no memory for the block's book-keeping: {error}"),
        })
    }
}

impl core::error::Error for VirtualBlockError {}

impl From<RangeError> for VirtualBlockError {
    fn from(refusal: RangeError) -> Self {
        match refusal {
            RangeError::ZeroSize => Self::ZeroSize,
            RangeError::Alignment => Self::Alignment,
            RangeError::Granule => Self::Granule,
            RangeError::TooLarge => Self::TooLarge,
            RangeError::Full => Self::Full,
            RangeError::NoNodes => Self::TooManyRanges,
            RangeError::Stale | RangeError::OtherUserData => Self::Stale,
        }
    }
}

impl VirtualAllocation {
    #[inline]
    pub(super) const fn new(node: u32, generation: u32, tag: u32) -> Self {
        Self {
            name: (node as u64) << 32 | generation as u64,
            tag,
        }
    }
}

impl fmt::Debug for VirtualAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, generation) = (*self).into();
        write!(f, "VirtualAllocation({node}, generation {generation})")
    }
}

impl From<VirtualAllocation> for (u32, u32) {
    #[inline]
    fn from(allocation: VirtualAllocation) -> Self {
        ((allocation.name >> 32) as u32, allocation.name as u32)
    }
}

impl<A: HostAllocator> VirtualBlock<A> {
    /// An empty block of `size`. The first allocation of a range allocates host memory.
    ///
    /// # Errors
    /// [`VirtualBlockError::Granule`]; [`VirtualBlockError::ZeroSize`] below one granule; [`VirtualBlockError::TooLarge`] above
    /// 2^32 - 2 granules.
    pub fn new(memory: A, size: u64, granule: u64) -> Result<Self, VirtualBlockError> {
        /// The next tag. Different tags prevent a block from freeing another block's ranges.
        static BLOCKS: AtomicU32 = AtomicU32::new(1);
        let core = RangeAllocator::new(size, granule)?;
        let mut index = FreeIndex::new();
        index.admit(core.granules().0);
        Ok(Self {
            core,
            index,
            store: NodeStore::new(1),
            linear: None,
            memory,
            tag: BLOCKS.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Allocates a range. Constant time; if the block is too fragmented, examines each hole that might fit once.
    ///
    /// # Errors
    /// [`VirtualBlockError::ZeroSize`]; [`VirtualBlockError::Alignment`]; [`VirtualBlockError::TooLarge`] for a size or an alignment
    /// above the block's size; [`VirtualBlockError::Full`]; [`VirtualBlockError::Host`].
    #[inline]
    pub fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
    ) -> Result<VirtualRange, VirtualBlockError> {
        self.allocate_with(&VirtualAllocationOptions::new(size, alignment))
    }

    /// Allocates a range with all parameters.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    #[inline]
    pub fn allocate_with(
        &mut self,
        options: &VirtualAllocationOptions,
    ) -> Result<VirtualRange, VirtualBlockError> {
        if self.linear.is_some() {
            return self.allocate_linear(options);
        }
        let fit = if options.upper_address {
            Fit::High
        } else {
            Fit::Low
        };
        let want = RangeRequest {
            size: options.size,
            alignment: options.alignment,
            user_data: options.user_data,
            fit,
        };
        if options.alignment.is_power_of_two() && options.alignment > self.core.size() {
            return Err(VirtualBlockError::TooLarge);
        }
        self.prepare_one()?;
        let taken = self.core.allocate(&self.store, &self.index, &want)?;
        let allocation = VirtualAllocation::new(taken.node, taken.generation, self.tag);
        Ok(VirtualRange {
            allocation,
            offset: taken.offset,
            size: taken.size,
        })
    }

    /// Allocates the memory for `additional` ranges in advance, so that allocating them cannot fail for lack of host memory.
    ///
    /// # Errors
    /// [`VirtualBlockError::Host`], [`VirtualBlockError::TooManyRanges`].
    pub fn reserve(&mut self, additional: u32) -> Result<(), VirtualBlockError> {
        if self.linear.is_some() {
            return self.reserve_linear(additional);
        }
        // Two for each range, and as many as the last allocation checks for.
        let nodes = additional
            .checked_mul(2)
            .and_then(|nodes| nodes.checked_add(NODES_PER_ALLOCATION));
        self.make_ready(nodes.ok_or(VirtualBlockError::TooManyRanges)?)
    }

    /// Allocates the memory for one more range.
    #[inline]
    pub(super) fn prepare_one(&mut self) -> Result<(), VirtualBlockError> {
        if self.store.missing_capacity(NODES_PER_ALLOCATION).is_some() {
            self.make_ready(NODES_PER_ALLOCATION)?;
        }
        Ok(())
    }

    #[cold]
    fn make_ready(&mut self, nodes: u32) -> Result<(), VirtualBlockError> {
        if let Some(layout) = self.index.missing_capacity(self.core.granules().0) {
            let block = self.allocate_memory(layout)?;
            if let Some(unwanted) = self.index.grow_with(block) {
                self.free_memory(unwanted);
            }
        }
        while let Some(lack) = self.store.missing_capacity(nodes) {
            let block = self.allocate_memory(lack.layout())?;
            if let Some(outgrown) = self.store.grow_with(lack, block) {
                self.free_memory(outgrown);
            }
        }
        Ok(())
    }

    fn allocate_memory(&self, layout: Layout) -> Result<HostBlock, VirtualBlockError> {
        HostBlock::allocate(&self.memory, layout).map_err(VirtualBlockError::Host)
    }

    pub(super) fn size(&self) -> u64 {
        self.core.size()
    }

    pub(super) fn free_memory(&self, memory: HostBlock) {
        // SAFETY: the memory was allocated from this allocator with this layout, and is no longer used.
        unsafe { memory.free(&self.memory) };
    }

    #[cold]
    fn free_spare_memory(&mut self, memory: HostBlock) {
        self.free_memory(memory);
        while let Some(memory) = self.store.detach_spare_chunk() {
            self.free_memory(memory);
        }
    }

    #[inline]
    fn node_of(&self, allocation: VirtualAllocation) -> Result<(u32, u32), VirtualBlockError> {
        if allocation.tag == self.tag {
            Ok(allocation.into())
        } else {
            Err(VirtualBlockError::Foreign)
        }
    }

    /// Frees a range. Constant time; allocates nothing.
    ///
    /// # Errors
    /// [`VirtualBlockError::OutOfOrder`], [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    #[inline]
    pub fn free(&mut self, allocation: VirtualAllocation) -> Result<(), VirtualBlockError> {
        let (node, generation) = self.node_of(allocation)?;
        if let Some(linear) = &mut self.linear {
            return virtual_linear::free(linear, (node, generation));
        }
        self.core
            .free(&self.store, &self.index, (node, generation), None)?;
        if let Some(memory) = self.store.detach_spare_chunk() {
            self.free_spare_memory(memory);
        }
        Ok(())
    }

    /// Frees many ranges, all or none. Joins adjacent ranges first: this is faster than single frees, especially in order of offset.
    ///
    /// # Errors
    /// The index of a range that cannot be freed, and the reason. A range that is listed twice is [`VirtualBlockError::Stale`].
    pub fn free_batch(
        &mut self,
        allocations: &[VirtualAllocation],
    ) -> Result<(), (usize, VirtualBlockError)> {
        if let Some(foreign) = allocations
            .iter()
            .position(|allocation| allocation.tag != self.tag)
        {
            return Err((foreign, VirtualBlockError::Foreign));
        }
        if let Some(linear) = &mut self.linear {
            return virtual_linear::free_batch(linear, allocations);
        }
        self.core
            .free_batch(&self.store, &self.index, allocations)
            .map_err(|(at, refusal)| (at, refusal.into()))?;
        if let Some(memory) = self.store.detach_spare_chunk() {
            self.free_spare_memory(memory);
        }
        Ok(())
    }

    /// Frees all ranges: every id is stale from now on. Examines each range and hole once.
    pub fn clear(&mut self) {
        if let Some(linear) = &mut self.linear {
            return linear.clear();
        }
        self.core.clear(&self.store, &self.index);
        if let Some(memory) = self.store.detach_spare_chunk() {
            self.free_spare_memory(memory);
        }
    }

    /// The offset, requested size and user data of a range. Constant time.
    ///
    /// # Errors
    /// [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    pub fn info(
        &self,
        allocation: VirtualAllocation,
    ) -> Result<VirtualAllocationInfo, VirtualBlockError> {
        let (node, generation) = self.node_of(allocation)?;
        if let Some(linear) = &self.linear {
            return virtual_linear::info(linear, (node, generation));
        }
        let found = self.core.get(&self.store, node, generation)?;
        Ok(VirtualAllocationInfo {
            offset: found.offset,
            size: found.asked,
            user_data: found.user_data,
        })
    }

    /// Changes the user data of a range. Constant time.
    ///
    /// # Errors
    /// [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    pub fn set_user_data(
        &mut self,
        allocation: VirtualAllocation,
        user_data: u32,
    ) -> Result<(), VirtualBlockError> {
        let (node, generation) = self.node_of(allocation)?;
        if let Some(linear) = &mut self.linear {
            return Ok(linear.set_user_data(node, generation, user_data)?);
        }
        Ok(self
            .core
            .set_user_data(&self.store, node, generation, user_data)?)
    }

    /// Whether there is no live range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.linear
            .as_ref()
            .map_or_else(|| self.core.is_empty(), LinearRanges::is_empty)
    }

    /// The current usage. Constant time; for a stack or a ring, examines each range.
    #[must_use]
    pub fn statistics(&self) -> VirtualBlockStatistics {
        if let Some(linear) = &self.linear {
            return virtual_linear::statistics(linear, self.size());
        }
        VirtualBlockStatistics {
            size: self.core.size(),
            allocation_count: self.core.live_count(),
            allocation_bytes: self.core.used_bytes(),
            unused_range_count: self.core.free_range_count(),
            largest_free_bound: self.core.largest_free_bound(&self.index),
        }
    }

    /// The size of the largest hole. Examines each hole of about this size.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        if let Some(linear) = &self.linear {
            return virtual_linear::statistics(linear, self.size()).largest_free_bound;
        }
        self.core.largest_free(&self.store, &self.index)
    }

    /// Bytes of host memory that the block has allocated. Examines each chunk once.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let linear = self.linear.as_ref().map_or(0, LinearRanges::memory_bytes);
        self.index.memory_bytes() + self.store.bytes() + linear
    }

    /// Visits every range and every hole in order of offset; together they tile the block.
    pub fn for_each(&self, mut see: impl FnMut(VirtualPiece)) {
        let tag = self.tag;
        if let Some(linear) = &self.linear {
            return virtual_linear::for_each(linear, self.size(), tag, &mut see);
        }
        self.core.for_each(
            &self.store,
            &mut |Span {
                      offset,
                      size,
                      state,
                  }| {
                let used = match state {
                    SpanState::Free => None,
                    SpanState::Used {
                        node,
                        generation,
                        user_data: word,
                        ..
                    } => Some((VirtualAllocation::new(node, generation, tag), word)),
                };
                see(VirtualPiece { offset, size, used });
            },
        );
    }
}

impl<A: HostAllocator> Drop for VirtualBlock<A> {
    fn drop(&mut self) {
        if let Some(memory) = self.linear.as_mut().and_then(LinearRanges::detach_memory) {
            self.free_memory(memory);
        }
        self.core.clear(&self.store, &self.index);
        if let Some(memory) = self.index.detach_memory() {
            self.free_memory(memory);
        }
        while let Some(memory) = self.store.detach_memory() {
            self.free_memory(memory);
        }
    }
}
