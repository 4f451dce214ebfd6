use super::VirtualBlockError;
use super::allocator::{NODES_PER_ALLOCATION, RangeAllocator, Span, VirtualAllocation, VirtualRange};
use super::free_index::FreeIndex;
use super::granule_request::{Fit, RangeRequest};
use super::node::NodeStore;
use crate::host_memory;
use crate::request::BlockAlgorithm;
use alloc_core::HostAllocator;

/// Allocates ranges of something that it never accesses: your own buffer, descriptors of a heap, an address space. The
/// equivalent of `VmaVirtualBlock`.
///
/// Allocating and freeing take constant time. Sizes and offsets are multiples of the *granule*, in units of your
/// choice, here called bytes: a size is rounded up to it, and an alignment below it costs nothing.
///
/// All memory for bookkeeping comes from `A`, scope [`Scope::Object`](alloc_core::Scope::Object): about 32 bytes for
/// each range and each hole, in blocks of 4 KiB, and a table of at most 3.5 KiB. Freeing allocates nothing.
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
    memory: A,
}

/// All parameters of a request: [`VirtualBlock::allocate_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualAllocationOptions {
    /// At least 1.
    pub size: u64,
    /// The alignment of the offset: a power of two, at most the block's size.
    pub alignment: u64,
    /// Allocates at the high end of a hole, or at the upper end of a double stack: for short-lived ranges among
    /// long-lived ones.
    pub upper_address: bool,
    /// Stored with the range; not interpreted.
    pub user_data: u32,
}

impl VirtualAllocationOptions {
    /// At the low end, user data 0.
    #[must_use]
    pub const fn new(size: u64, alignment: u64) -> Self {
        Self { size, alignment, upper_address: false, user_data: 0 }
    }
}

/// A live range: [`VirtualBlock::info`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
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
#[non_exhaustive]
pub struct VirtualBlockStatistics {
    /// The bytes that can be allocated: the size of the block, rounded down to the granule.
    pub size: u64,
    /// Number of live ranges.
    pub allocation_count: u32,
    /// Bytes of live ranges, rounded up to granules.
    pub allocation_bytes: u64,
    /// Number of holes.
    pub unused_range_count: u32,
    /// An upper bound of the size of a hole: exact below 64 granules, otherwise up to 1/32 too high.
    pub largest_free_bound: u64,
}

impl VirtualAllocation {
    /// As three words, for interfaces of C.
    #[must_use]
    pub const fn as_raw(self) -> [u32; 3] {
        let Self { serial, node } = self;
        [node, serial as u32, (serial >> 32) as u32]
    }

    /// From the words of [`as_raw`](Self::as_raw). Other words give an id that every call refuses, or that of another
    /// live range.
    #[must_use]
    pub const fn from_raw([node, low, high]: [u32; 3]) -> Self {
        let serial = (high as u64) << 32 | low as u64;
        Self { serial, node }
    }
}

impl<A: HostAllocator> VirtualBlock<A> {
    /// An empty block of `size`, without host memory yet.
    ///
    /// # Errors
    /// [`VirtualBlockError::Granule`]; [`VirtualBlockError::ZeroSize`] below one granule;
    /// [`VirtualBlockError::TooLarge`] above 2^32 - 2 granules.
    pub fn new(memory: A, size: u64, granule: u64) -> Result<Self, VirtualBlockError> {
        Self::with_algorithm(memory, size, granule, BlockAlgorithm::General)
    }

    /// An empty block of `size` that uses `algorithm`.
    ///
    /// Ranges of a stack or a ring must be freed in order, by [`free`](Self::free); otherwise the error
    /// is [`VirtualBlockError::OutOfOrder`].
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
        let core = RangeAllocator::new(size, granule, algorithm)?;
        let mut index = FreeIndex::new(1);
        index.admit(core.granules());
        Ok(Self { core, index, store: NodeStore::new(), memory })
    }

    /// Allocates a range. Constant time, unless the block is too fragmented.
    ///
    /// # Errors
    /// [`VirtualBlockError::ZeroSize`]; [`VirtualBlockError::Alignment`]; [`VirtualBlockError::TooLarge`] for a size or
    /// an alignment above the block's size; [`VirtualBlockError::Full`]; [`VirtualBlockError::Host`].
    #[inline]
    #[doc(alias("vmaVirtualAllocate"))]
    pub fn allocate(&mut self, size: u64, alignment: u64) -> Result<VirtualRange, VirtualBlockError> {
        self.allocate_with(&VirtualAllocationOptions::new(size, alignment))
    }

    /// Allocates a range with all parameters.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    #[inline]
    pub fn allocate_with(&mut self, options: &VirtualAllocationOptions) -> Result<VirtualRange, VirtualBlockError> {
        let want = self.prepare(options)?;
        self.core.allocate(&self.store, &self.index, &want)
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
    /// As [`allocate_with`](Self::allocate_with); [`VirtualBlockError::Alignment`] if the offset is no multiple of
    /// alignment and granule; [`VirtualBlockError::Full`] if the range is not completely free;
    /// [`VirtualBlockError::PlacesItself`] for a stack or a ring.
    pub fn allocate_at(
        &mut self,
        offset: u64,
        options: &VirtualAllocationOptions,
    ) -> Result<VirtualRange, VirtualBlockError> {
        if self.core.algorithm.is_linear() {
            return Err(VirtualBlockError::PlacesItself);
        }
        let want = self.prepare(options)?;
        (self.core).allocate_at(&self.store, &self.index, offset, &want)
    }

    #[inline]
    fn prepare(&mut self, options: &VirtualAllocationOptions) -> Result<RangeRequest, VirtualBlockError> {
        if options.alignment.is_power_of_two() && options.alignment > self.core.size() {
            return Err(VirtualBlockError::TooLarge);
        }
        if options.upper_address && matches!(self.core.algorithm, BlockAlgorithm::Stack | BlockAlgorithm::Ring) {
            return Err(VirtualBlockError::NoUpperEnd);
        }
        if self.store.spare_nodes() < NODES_PER_ALLOCATION {
            self.fill(NODES_PER_ALLOCATION)?;
        }
        Ok(RangeRequest {
            size: options.size,
            asked: options.size,
            alignment: options.alignment,
            user_data: options.user_data,
            fit: if options.upper_address { Fit::High } else { Fit::Low },
            is_optimal: false,
        })
    }

    /// Allocates the memory for `additional` ranges in advance, so that allocating them cannot fail for lack of host
    /// memory.
    ///
    /// # Errors
    /// [`VirtualBlockError::Host`], [`VirtualBlockError::TooManyRanges`].
    pub fn reserve(&mut self, additional: u32) -> Result<(), VirtualBlockError> {
        let nodes = (additional.checked_mul(2))
            .and_then(|nodes| nodes.checked_add(NODES_PER_ALLOCATION))
            .ok_or(VirtualBlockError::TooManyRanges)?;
        self.fill(nodes)
    }

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

    #[inline]
    fn free_idle_memory(&mut self) {
        // A ring that is drained each frame keeps its nodes, and what was reserved.
        let is_general = !self.core.algorithm.is_linear();
        if is_general && self.core.is_empty() && self.store.is_large() {
            self.free_nodes();
        }
    }

    #[cold]
    fn free_nodes(&mut self) {
        self.core.clear(&self.store, &self.index);
        host_memory::free_table(&mut self.store, &self.memory);
    }

    #[cold]
    fn refusal(&self, allocation: VirtualAllocation) -> VirtualBlockError {
        if allocation.serial >> 32 == self.core.serial >> 32 {
            VirtualBlockError::Stale
        } else {
            VirtualBlockError::Foreign
        }
    }

    /// Frees a range.
    ///
    /// # Errors
    /// [`VirtualBlockError::OutOfOrder`], [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    #[inline]
    #[doc(alias("vmaVirtualFree"))]
    pub fn free(&mut self, allocation: VirtualAllocation) -> Result<(), VirtualBlockError> {
        self.check_order(allocation)?;
        if (self.core).free(&self.store, &self.index, allocation, None).is_err() {
            return Err(self.refusal(allocation));
        }
        self.free_idle_memory();
        Ok(())
    }

    #[inline]
    fn check_order(&self, allocation: VirtualAllocation) -> Result<(), VirtualBlockError> {
        if !self.core.algorithm.is_linear() {
            return Ok(());
        }
        let is_next = self.core.is_next(&self.store, allocation.node);
        if !is_next && self.core.get(&self.store, allocation).is_ok() {
            return Err(VirtualBlockError::OutOfOrder);
        }
        Ok(())
    }

    /// As [`free`](Self::free), with a note on the hole: until when a device may still use it, for instance. A joined
    /// hole has the merged note of all, both parts of a split one keep it, and [`VirtualRange::note`] has it for a
    /// part. Note 0 is that of a block before its first range, and after [`clear`](Self::clear). Free all ranges of a
    /// block by this, or none. Constant time; keeps its memory.
    ///
    /// `merge` is called at most twice, with the note of a neighbouring hole and the note so far, before anything
    /// changes. [`free`](Self::free) keeps one of the notes of the holes that it joins.
    ///
    /// ```
    /// use alloc_core::FromGlobalAlloc;
    /// use gpu_suballoc::VirtualBlock;
    ///
    /// let mut block = VirtualBlock::new(FromGlobalAlloc::SYSTEM, 4096, 16)?;
    /// let (first, second) = (block.allocate(1024, 16)?, block.allocate(1024, 16)?);
    /// // The number of the submission that used it last.
    /// block.free_noted(first.allocation, 10, u32::max)?;
    /// block.free_noted(second.allocation, 7, u32::max)?;
    /// assert_eq!(block.allocate(16, 16)?.note, 10);
    /// assert_eq!(block.allocate(4000, 16)?.note, 10); // the rest of it
    /// # Ok::<(), gpu_suballoc::virtual_block::VirtualBlockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn free_noted(
        &mut self,
        allocation: VirtualAllocation,
        note: u32,
        mut merge: impl FnMut(u32, u32) -> u32,
    ) -> Result<(), VirtualBlockError> {
        self.check_order(allocation)?;
        let freed = (self.core).free_noted(&self.store, &self.index, allocation, note, &mut merge);
        freed.map_err(|_| self.refusal(allocation))
    }

    /// Frees all ranges: every id is stale from now on.
    #[doc(alias("vmaClearVirtualBlock"))]
    pub fn clear(&mut self) {
        self.core.clear(&self.store, &self.index);
        self.free_idle_memory();
    }

    /// The offset, requested size and user data of a range.
    ///
    /// # Errors
    /// [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    #[doc(alias("vmaGetVirtualAllocationInfo"))]
    pub fn info(&self, allocation: VirtualAllocation) -> Result<VirtualAllocationInfo, VirtualBlockError> {
        let found = self.core.get(&self.store, allocation);
        let found = found.map_err(|_| self.refusal(allocation))?;
        Ok(VirtualAllocationInfo { offset: found.offset, size: found.asked, user_data: found.user_data })
    }

    /// Changes the user data of a range.
    ///
    /// # Errors
    /// [`VirtualBlockError::Stale`], [`VirtualBlockError::Foreign`].
    #[doc(alias("vmaSetVirtualAllocationUserData"))]
    pub fn set_user_data(&mut self, allocation: VirtualAllocation, user_data: u32) -> Result<(), VirtualBlockError> {
        let set = (self.core).set_user_data(&self.store, allocation, user_data);
        set.map_err(|_| self.refusal(allocation))
    }

    /// Whether there is no live range.
    #[must_use]
    #[doc(alias("vmaIsVirtualBlockEmpty"))]
    pub fn is_empty(&self) -> bool {
        self.core.is_empty()
    }

    /// The current usage. Constant time, but for a stack or a ring.
    #[must_use]
    #[doc(alias("vmaGetVirtualBlockStatistics"))]
    pub fn statistics(&self) -> VirtualBlockStatistics {
        VirtualBlockStatistics {
            size: self.core.size(),
            allocation_count: self.core.live,
            allocation_bytes: self.core.used_bytes(),
            unused_range_count: self.core.free_ranges.get(),
            largest_free_bound: if self.core.algorithm.is_linear() {
                self.largest_free()
            } else {
                self.core.largest_free_bound(&self.index)
            },
        }
    }

    /// The size of the largest hole.
    #[must_use]
    pub fn largest_free(&self) -> u64 {
        self.core.largest_free(&self.store, &self.index)
    }

    /// Bytes of host memory that the block has allocated.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes() + self.store.bytes()
    }

    /// Visits every range and every hole in order of offset; together they tile the block.
    pub fn for_each(&self, mut see: impl FnMut(VirtualPiece)) {
        self.core.for_each(&self.store, &mut |span| {
            let Span { offset, size, used } = span;
            let used = used.map(|range| (range.id, range.user_data));
            see(VirtualPiece { offset, size, used });
        });
    }
}

impl<A: HostAllocator> Drop for VirtualBlock<A> {
    fn drop(&mut self) {
        self.free_nodes();
        host_memory::free_table(&mut self.index, &self.memory);
    }
}
