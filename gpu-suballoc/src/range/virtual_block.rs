//! The range core for everybody: a block of which only offsets exist.

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

/// Hands out ranges of something that it never touches: a buffer of your own, descriptors of a heap, an address space. The peer of
/// `VmaVirtualBlock`.
///
/// Allocating and freeing take constant time, whatever is live; holes are joined as soon as they touch. Sizes and offsets are in
/// units of your choice, bytes below, and are multiples of the *granule*: a size is rounded up to it, an alignment below it costs
/// nothing. As long as a hole fits a request, the request succeeds.
///
/// All memory for its book-keeping comes from `A`, scope [`Scope::Object`](alloc_core::Scope::Object): about 32 bytes for each range and each hole, in blocks of
/// 4 KiB, and a table of at most 3.5 KiB. A request that finds none is refused and changes nothing. Freeing never takes memory and gives back what is no
/// longer needed (a stack or a ring keeps its table); dropping the block gives everything back.
///
/// One thread at a time (`&mut self`), any thread; each method says where it takes more than constant time.
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
/// assert_eq!(block.free(vertices.allocation), Err(VirtualBlockError::Stale)); // also after the range was given to another
/// assert_eq!(block.statistics().allocation_bytes, 5_120);
/// # Ok::<(), VirtualBlockError>(())
/// ```
#[derive(Debug)]
pub struct VirtualBlock<A: HostAllocator> {
    pub(super) core: RangeAllocator,
    pub(super) index: FreeIndex,
    pub(super) store: NodeStore,
    /// In place of both, where the block is a stack or a ring.
    pub(super) linear: Option<LinearRanges>,
    pub(super) memory: A,
    pub(super) tag: u32,
}

/// Names a live range of one [`VirtualBlock`]. Once the range is freed, it names nothing ever again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VirtualAllocation {
    /// Node and generation in one word: names are copied about, and two halves just written are slow to read as one.
    name: u64,
    tag: u32,
}

/// A range that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualRange {
    /// Its name, for freeing it.
    pub allocation: VirtualAllocation,
    /// Where it begins, aligned as asked for.
    pub offset: u64,
    /// The requested size, rounded up to the granule; where it is at least four alignments long and there is room, to the alignment.
    pub size: u64,
}

/// A request in full: [`VirtualBlock::allocate_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualAllocationOptions {
    /// At least 1.
    pub size: u64,
    /// Of the offset; a power of two, at most the block's size.
    pub alignment: u64,
    /// Take the high end of a hole, or of a double stack the upper end. For what lives shortly in a block beside what lives long: neither breaks up the other's room.
    pub upper_address: bool,
    /// Kept with the range; means nothing to the block.
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
    /// Where it begins.
    pub offset: u64,
    /// As it was asked for, at most the size of the range.
    pub size: u64,
    /// What was kept with it.
    pub user_data: u32,
}

/// A piece of the block: [`VirtualBlock::for_each`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualPiece {
    /// Where it begins.
    pub offset: u64,
    /// Whole granules.
    pub size: u64,
    /// Its name and its user data; `None` for a hole.
    pub used: Option<(VirtualAllocation, u32)>,
}

/// How a block is used: [`VirtualBlock::statistics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualBlockStatistics {
    /// What can be handed out altogether: the size asked for, rounded down to the granule.
    pub size: u64,
    /// Live ranges.
    pub allocation_count: u32,
    /// What they take, rounded up to granules.
    pub allocation_bytes: u64,
    /// Holes.
    pub unused_range_count: u32,
    /// No hole is larger. Exact below 64 granules, otherwise up to 1/32 too much; [`VirtualBlock::largest_free`] is exact.
    pub largest_free_bound: u64,
}

/// Why a [`VirtualBlock`] refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VirtualBlockError {
    /// Size 0, or a block smaller than its granule.
    ZeroSize,
    /// An alignment that is no power of two.
    Alignment,
    /// A granule that is no power of two up to 2^31.
    Granule,
    /// More than the block could hold if it were empty; a block of more than 2^32 - 2 granules.
    TooLarge,
    /// No hole fits; of a stack or a ring, there is no room at that end.
    Full,
    /// Of a stack or a ring: that range is not the next to go.
    OutOfOrder,
    /// A stack or a ring has no upper end; a double stack has one.
    NoUpperEnd,
    /// A stack or a ring places its ranges itself: no offset can be named.
    PlacesItself,
    /// That range was freed before.
    Stale,
    /// That range is of another block.
    Foreign,
    /// There are 2^32 ranges and holes.
    TooManyRanges,
    /// No memory for book-keeping.
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
            RangeError::Stale | RangeError::UsedUp | RangeError::OtherUserData => Self::Stale,
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
    /// A block of `size`, all free. It takes memory when something is first allocated.
    ///
    /// # Errors
    /// [`VirtualBlockError::Granule`]; [`VirtualBlockError::ZeroSize`] below one granule; [`VirtualBlockError::TooLarge`] above
    /// 2^32 - 2 granules.
    pub fn new(memory: A, size: u64, granule: u64) -> Result<Self, VirtualBlockError> {
        /// Tells blocks apart, so that one does not free another's ranges.
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

    /// Allocates a range. Constant time; where the block is too fragmented for that, each hole that might fit is looked at once.
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

    /// Allocates a range, with all there is to say about it.
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

    /// Takes the memory for `additional` more ranges now, so that allocating them cannot fail for want of it.
    ///
    /// # Errors
    /// [`VirtualBlockError::Host`], [`VirtualBlockError::TooManyRanges`].
    pub fn reserve(&mut self, additional: u32) -> Result<(), VirtualBlockError> {
        if self.linear.is_some() {
            return self.reserve_linear(additional);
        }
        // Two for each, and as many as the last one wants to see.
        let nodes = additional
            .checked_mul(2)
            .and_then(|nodes| nodes.checked_add(NODES_PER_ALLOCATION));
        self.make_ready(nodes.ok_or(VirtualBlockError::TooManyRanges)?)
    }

    /// Memory for one more range.
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
        // SAFETY: core or store was supplied with it from this allocator, with that layout, and has let go of it.
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

    /// Frees a range. Constant time; takes no memory.
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

    /// Frees many ranges, all or none. Neighbours are joined first: it is faster than freeing one by one, most of all in order of
    /// offset.
    ///
    /// # Errors
    /// The number of a range that cannot be freed, and why; one that is named twice is [`VirtualBlockError::Stale`].
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

    /// Frees everything. It looks at each range and hole once; every name is stale from now on.
    pub fn clear(&mut self) {
        if let Some(linear) = &mut self.linear {
            return linear.clear();
        }
        self.core.clear(&self.store, &self.index);
        if let Some(memory) = self.store.detach_spare_chunk() {
            self.free_spare_memory(memory);
        }
    }

    /// Where a range is, and what is kept with it. Constant time.
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

    /// Changes what is kept with a range. Constant time.
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

    /// Whether nothing is allocated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.linear
            .as_ref()
            .map_or_else(|| self.core.is_empty(), LinearRanges::is_empty)
    }

    /// How the block is used. Constant time; of a stack or a ring it looks at each range.
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

    /// The largest hole. It looks at each hole of about that size.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        if let Some(linear) = &self.linear {
            return virtual_linear::statistics(linear, self.size()).largest_free_bound;
        }
        self.core.largest_free(&self.store, &self.index)
    }

    /// Bytes of host memory that the block has from its allocator. It looks at each chunk once.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let linear = self.linear.as_ref().map_or(0, LinearRanges::memory_bytes);
        self.index.memory_bytes() + self.store.bytes() + linear
    }

    /// Shows every range and every hole, in order of offset: together they are the block.
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
