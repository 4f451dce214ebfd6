//! The public range allocator: a block that consists only of offsets.

use super::allocator::{
    AllocatedRange, Fit, NODES_PER_ALLOCATION, RangeAllocator, RangeError, RangeId, RangeRequest,
    Span, SpanState,
};
use super::free_index::FreeIndex;
use super::linear::{LinearError, LinearRange, LinearRanges};
use super::node::NodeStore;
use crate::host_memory;
use crate::request::BlockAlgorithm;
use alloc_core::{HostAllocator, HostError};
use core::fmt;

/// Allocates ranges of something that it never accesses: your own buffer, descriptors of a heap, an address space. The equivalent of
/// `VmaVirtualBlock`.
///
/// Allocating and freeing take constant time, independent of the number of live ranges; adjacent holes are joined at once. Sizes and
/// offsets are in units of your choice, here called bytes, and are multiples of the *granule*: a size is rounded up to it, and an alignment
/// below it costs nothing. A request succeeds if a hole fits it.
///
/// All memory for bookkeeping comes from `A`, scope [`Scope::Object`](alloc_core::Scope::Object): about 32 bytes for each range and each
/// hole, in blocks of 4 KiB, and a table of at most 3.5 KiB. If this memory is missing, a request returns an error and changes nothing.
/// Freeing allocates nothing; with the last range all but little of the memory is freed (a stack or a ring keeps its table). Dropping the
/// block frees all memory.
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
#[doc(alias("VmaVirtualBlock", "vmaCreateVirtualBlock"))]
#[derive(Debug)]
pub struct VirtualBlock<A: HostAllocator> {
    core: RangeAllocator,
    index: FreeIndex,
    store: NodeStore,
    /// For a stack or a ring, used instead of the fields above.
    linear: Option<LinearRanges>,
    memory: A,
}

/// The id of a live range of one [`VirtualBlock`]. It is stale after the range is freed, and is never reissued.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VirtualAllocation(RangeId);

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

impl fmt::Debug for VirtualAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeId { serial, node } = self.0;
        write!(f, "VirtualAllocation({node}, number {serial})")
    }
}

impl From<VirtualAllocation> for RangeId {
    #[inline]
    fn from(allocation: VirtualAllocation) -> Self {
        allocation.0
    }
}

impl<A: HostAllocator> VirtualBlock<A> {
    /// An empty block of `size`. The first allocation of a range allocates host memory.
    ///
    /// # Errors
    /// [`VirtualBlockError::Granule`]; [`VirtualBlockError::ZeroSize`] below one granule; [`VirtualBlockError::TooLarge`] above
    /// 2^32 - 2 granules.
    pub fn new(memory: A, size: u64, granule: u64) -> Result<Self, VirtualBlockError> {
        let core = RangeAllocator::new(size, granule)?;
        let mut index = FreeIndex::new(1);
        index.admit(core.granules().0);
        Ok(Self {
            core,
            index,
            store: NodeStore::new(),
            linear: None,
            memory,
        })
    }

    /// An empty block of `size` that uses `algorithm`. The first allocation of a range allocates host memory: for a stack or a ring, 32
    /// bytes for each range that is live at once, in a table that doubles and stays until the block is dropped.
    ///
    /// Ranges of a stack or a ring must be freed in order, by [`free`](Self::free); otherwise the error
    /// is [`VirtualBlockError::OutOfOrder`]. All methods take constant time (amortized), except [`statistics`](Self::statistics),
    /// [`largest_free`](Self::largest_free) and [`for_each`](Self::for_each), which examine each range.
    ///
    /// ```
    /// use alloc_core::FromGlobalAlloc;
    /// use gpu_suballoc::{BlockAlgorithm, VirtualBlock};
    /// use gpu_suballoc::virtual_block::VirtualBlockError;
    ///
    /// // A ring of 1 MiB for uploads, which are freed in the order in which the device finishes with them.
    /// let mut ring = VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, 1 << 20, 256, BlockAlgorithm::Ring)?;
    /// let first = ring.allocate(600 << 10, 16)?;
    /// let second = ring.allocate(400 << 10, 16)?;
    /// assert_eq!(ring.allocate(200 << 10, 16), Err(VirtualBlockError::Full));
    /// assert_eq!(ring.free(second.allocation), Err(VirtualBlockError::OutOfOrder));
    ///
    /// ring.free(first.allocation)?;
    /// let third = ring.allocate(200 << 10, 16)?; // at the start again
    /// assert_eq!(third.offset, 0);
    /// ring.free(second.allocation)?;
    /// ring.free(third.allocation)?;
    /// # Ok::<(), VirtualBlockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_algorithm(
        memory: A,
        size: u64,
        granule: u64,
        algorithm: BlockAlgorithm,
    ) -> Result<Self, VirtualBlockError> {
        let mut block = Self::new(memory, size, granule)?;
        if algorithm.is_linear() {
            let whole = block.core.size();
            block.linear = Some(LinearRanges::new(algorithm, granule, 0, whole));
        }
        Ok(block)
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
        let want = self.prepare(options)?;
        let placed = self.core.allocate(&self.store, &self.index, &want)?;
        Ok(self.named(placed))
    }

    /// Allocates a range at `offset`, for example to restore a capture. Examines each range and hole in front of it.
    ///
    /// `upper_address` is ignored.
    ///
    /// ```
    /// use alloc_core::FromGlobalAlloc;
    /// use gpu_suballoc::VirtualBlock;
    /// use gpu_suballoc::virtual_block::{VirtualAllocationOptions, VirtualBlockError};
    ///
    /// let mut block = VirtualBlock::new(FromGlobalAlloc::SYSTEM, 1 << 20, 256)?;
    /// let wanted = VirtualAllocationOptions::new(1000, 256);
    /// assert_eq!(block.allocate_at(4096, &wanted)?.offset, 4096);
    /// assert_eq!(block.allocate_at(4608, &wanted), Err(VirtualBlockError::Full)); // 4096 to 5119 are allocated
    /// # Ok::<(), VirtualBlockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`allocate_with`](Self::allocate_with); [`VirtualBlockError::Alignment`] if the offset is not a multiple of the alignment and the
    /// granule; [`VirtualBlockError::Full`] if the range is not completely free and inside the block; [`VirtualBlockError::PlacesItself`]
    /// for a stack or a ring.
    pub fn allocate_at(
        &mut self,
        offset: u64,
        options: &VirtualAllocationOptions,
    ) -> Result<VirtualRange, VirtualBlockError> {
        if self.linear.is_some() {
            return Err(VirtualBlockError::PlacesItself);
        }
        let want = self.prepare(options)?;
        let placed = (self.core).allocate_at(&self.store, &self.index, offset, &want)?;
        Ok(self.named(placed))
    }

    /// Allocates the memory for one range.
    #[inline]
    fn prepare(
        &mut self,
        options: &VirtualAllocationOptions,
    ) -> Result<RangeRequest, VirtualBlockError> {
        if options.alignment.is_power_of_two() && options.alignment > self.core.size() {
            return Err(VirtualBlockError::TooLarge);
        }
        if self.store.spare_nodes() < NODES_PER_ALLOCATION {
            self.fill(NODES_PER_ALLOCATION)?;
        }
        Ok(RangeRequest {
            size: options.size,
            asked: options.size,
            alignment: options.alignment,
            user_data: options.user_data,
            fit: if options.upper_address {
                Fit::High
            } else {
                Fit::Low
            },
            is_optimal: false,
        })
    }

    #[inline]
    fn named(&self, placed: AllocatedRange) -> VirtualRange {
        VirtualRange {
            allocation: VirtualAllocation(placed.id),
            offset: placed.offset,
            size: placed.size,
        }
    }

    #[cold]
    fn allocate_linear(
        &mut self,
        options: &VirtualAllocationOptions,
    ) -> Result<VirtualRange, VirtualBlockError> {
        let (size, alignment) = (options.size, options.alignment);
        if size == 0 {
            return Err(VirtualBlockError::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(VirtualBlockError::Alignment);
        }
        if size.max(alignment) > self.core.size() {
            return Err(VirtualBlockError::TooLarge);
        }
        let linear = self.linear.as_mut().ok_or(VirtualBlockError::Full)?;
        linear.reserve = 1;
        host_memory::fill(linear, &self.memory)?;
        let placed = linear.allocate(
            (size, size),
            alignment,
            options.user_data,
            options.upper_address,
        )?;
        Ok(VirtualRange {
            allocation: VirtualAllocation(placed.id),
            offset: placed.offset,
            size: placed.size,
        })
    }

    /// Allocates the memory for `additional` ranges in advance, so that allocating them cannot fail for lack of host memory.
    ///
    /// # Errors
    /// [`VirtualBlockError::Host`], [`VirtualBlockError::TooManyRanges`].
    pub fn reserve(&mut self, additional: u32) -> Result<(), VirtualBlockError> {
        // Two nodes for each range, and as many as the last allocation checks for.
        let nodes = (additional.checked_mul(2))
            .and_then(|nodes| nodes.checked_add(NODES_PER_ALLOCATION))
            .ok_or(VirtualBlockError::TooManyRanges)?;
        let Some(linear) = &mut self.linear else {
            return self.fill(nodes);
        };
        linear.reserve = additional;
        Ok(host_memory::fill(linear, &self.memory)?)
    }

    /// Allocates memory until there are `nodes` spare nodes.
    #[cold]
    fn fill(&mut self, nodes: u32) -> Result<(), VirtualBlockError> {
        host_memory::fill(&mut self.index, &self.memory)?;
        self.store.reserve = nodes;
        host_memory::fill(&mut self.store, &self.memory)?;
        if self.store.spare_nodes() < nodes {
            return Err(VirtualBlockError::TooManyRanges);
        }
        Ok(())
    }

    /// Frees the memory of nodes after the last range was freed, if it is much.
    #[inline]
    fn free_idle_memory(&mut self) {
        if self.core.is_empty() && self.store.is_large() {
            self.free_nodes();
        }
    }

    #[cold]
    fn free_nodes(&mut self) {
        self.core.clear(&self.store, &self.index);
        host_memory::free_table(&mut self.store, &self.memory);
    }

    /// Why a range is not live here: it was, or it is another block's.
    #[cold]
    fn refusal(&self, allocation: VirtualAllocation) -> VirtualBlockError {
        let own = (self.linear.as_ref()).map_or(self.core.serial, |linear| linear.serial);
        if allocation.0.serial >> 32 == own >> 32 {
            VirtualBlockError::Stale
        } else {
            VirtualBlockError::Foreign
        }
    }

    /// Frees a range. Constant time; allocates nothing.
    ///
    /// # Errors
    /// [`VirtualBlockError::OutOfOrder`], [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    #[inline]
    pub fn free(&mut self, allocation: VirtualAllocation) -> Result<(), VirtualBlockError> {
        let id = allocation.0;
        if let Some(linear) = &mut self.linear {
            return match linear.check_order(id).and_then(|()| linear.free(id)) {
                Ok(_) => Ok(()),
                Err(LinearError::OutOfOrder) => Err(VirtualBlockError::OutOfOrder),
                Err(_) => Err(self.refusal(allocation)),
            };
        }
        if self.core.free(&self.store, &self.index, id, None).is_err() {
            return Err(self.refusal(allocation));
        }
        self.free_idle_memory();
        Ok(())
    }

    /// Frees all ranges: every id is stale from now on. Examines each range and hole once.
    pub fn clear(&mut self) {
        if let Some(linear) = &mut self.linear {
            return linear.clear();
        }
        self.core.clear(&self.store, &self.index);
        self.free_idle_memory();
    }

    /// The offset, requested size and user data of a range. Constant time.
    ///
    /// # Errors
    /// [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    pub fn info(
        &self,
        allocation: VirtualAllocation,
    ) -> Result<VirtualAllocationInfo, VirtualBlockError> {
        let id = allocation.0;
        let found = match &self.linear {
            Some(linear) => {
                (linear.get(id).ok()).map(|found| (found.offset, found.asked, found.user_data))
            }
            None => (self.core.get(&self.store, id).ok())
                .map(|found| (found.offset, found.asked, found.user_data)),
        };
        let (offset, size, user_data) = found.ok_or_else(|| self.refusal(allocation))?;
        Ok(VirtualAllocationInfo {
            offset,
            size,
            user_data,
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
        let id = allocation.0;
        let is_set = match &mut self.linear {
            Some(linear) => linear.set_user_data(id, user_data).is_ok(),
            None => (self.core.set_user_data(&self.store, id, user_data)).is_ok(),
        };
        if is_set {
            Ok(())
        } else {
            Err(self.refusal(allocation))
        }
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
        let mut sums = VirtualBlockStatistics {
            size: self.core.size(),
            allocation_count: self.core.live_count(),
            allocation_bytes: self.core.used_bytes(),
            unused_range_count: self.core.free_range_count(),
            largest_free_bound: self.core.largest_free_bound(&self.index),
        };
        if let Some(linear) = &self.linear {
            (sums.allocation_count, sums.allocation_bytes) = linear.totals();
            (sums.unused_range_count, sums.largest_free_bound) = (0, 0);
            self.for_each(|piece| {
                if piece.used.is_none() {
                    sums.unused_range_count += 1;
                    sums.largest_free_bound = sums.largest_free_bound.max(piece.size);
                }
            });
        }
        sums
    }

    /// The size of the largest hole. Examines each hole of about this size.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        if self.linear.is_some() {
            return self.statistics().largest_free_bound;
        }
        self.core.largest_free(&self.store, &self.index)
    }

    /// Bytes of host memory that the block has allocated.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let linear = self.linear.as_ref().map_or(0, LinearRanges::memory_bytes);
        self.index.memory_bytes() + self.store.bytes() + linear
    }

    /// Visits every range and every hole in order of offset; together they tile the block.
    pub fn for_each(&self, mut see: impl FnMut(VirtualPiece)) {
        let Some(linear) = &self.linear else {
            return self.core.for_each(&self.store, &mut |span| {
                let used = match span.state {
                    SpanState::Free => None,
                    SpanState::Used { id, user_data, .. } => {
                        Some((VirtualAllocation(id), user_data))
                    }
                };
                let Span { offset, size, .. } = span;
                see(VirtualPiece { offset, size, used });
            });
        };
        let mut end = 0;
        let see_hole = |from: u64, to: u64, see: &mut dyn FnMut(VirtualPiece)| {
            if to > from {
                let size = to - from;
                see(VirtualPiece {
                    offset: from,
                    size,
                    used: None,
                });
            }
        };
        linear.for_each(&mut |LinearRange {
                                  id,
                                  offset,
                                  size,
                                  user_data,
                                  ..
                              }| {
            see_hole(end, offset, &mut see);
            end = offset.saturating_add(size);
            let used = Some((VirtualAllocation(id), user_data));
            see(VirtualPiece { offset, size, used });
        });
        see_hole(end, self.core.size(), &mut see);
    }
}

impl<A: HostAllocator> Drop for VirtualBlock<A> {
    fn drop(&mut self) {
        if let Some(linear) = &mut self.linear {
            host_memory::free_table(linear, &self.memory);
        }
        self.free_nodes();
        host_memory::free_table(&mut self.index, &self.memory);
    }
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
            Self::ZeroSize => "a size of 0 has no range: request one granule at least",
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

impl From<LinearError> for VirtualBlockError {
    fn from(refusal: LinearError) -> Self {
        match refusal {
            LinearError::Full => Self::Full,
            LinearError::NoUpperEnd => Self::NoUpperEnd,
            LinearError::Stale => Self::Stale,
            LinearError::OutOfOrder => Self::OutOfOrder,
        }
    }
}

impl From<HostError> for VirtualBlockError {
    fn from(refusal: HostError) -> Self {
        Self::Host(refusal)
    }
}
