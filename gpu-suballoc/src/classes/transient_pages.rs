//! Public transient pages, for an arena that consists only of offsets.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use alloc_core::{HostAllocator, HostError};

use super::pages::PageAllocator;
use super::sub_allocator::{GroupedAllocator, TransientClass};
use super::types::{ClassShortage, FreeError, HostShortage, RangeShortage};
use crate::host_block::HostBlock;
use crate::range::VirtualBlockError;

/// Allocates ranges with similar lifetimes, of something that it never accesses: a staging buffer, a frame's descriptors.
///
/// Ranges are allocated contiguously in pages of equal size, by advancing a cursor; freeing a range decrements the page's count. A page
/// is reused from its start when its last range is freed. Each call costs a few nanoseconds, but one live range keeps a whole page: use it
/// for ranges that live a frame or two, and [`VirtualBlock`](crate::VirtualBlock) for all others.
///
/// Sizes and offsets are in units of your choice, here called bytes; sizes are rounded up to the *granule*. A range has at most an eighth
/// of a page. A second free of a range is detected, also in a full page and after the place was allocated again.
///
/// All memory for bookkeeping comes from `A`, scope [`Scope::Object`](alloc_core::Scope::Object): 16 bytes for each range that a page ever
/// had at once, and a few bytes for each page. Freeing allocates nothing. Host memory is freed only when the arena is dropped.
///
/// Any thread may use it, one at a time (`&mut self`). All methods take constant time, except [`for_each`](Self::for_each).
///
/// ```
/// use alloc_core::FromGlobalAlloc;
/// use gpu_suballoc::virtual_block::{TransientPages, VirtualBlockError};
///
/// // Up to 64 MiB in pages of 4 MiB, in granules of 256 bytes.
/// let mut pages = TransientPages::new(FromGlobalAlloc::SYSTEM, 64 << 20, 256, 4 << 20)?;
/// let first = pages.allocate(1000, 16)?;
/// let second = pages.allocate(1000, 4096)?;
/// assert_eq!((first.offset, first.size), (0, 1024));
/// assert_eq!(second.offset, 4096);
///
/// pages.free(first.allocation)?;
/// assert_eq!(pages.free(first.allocation), Err(VirtualBlockError::Stale));
/// # Ok::<(), VirtualBlockError>(())
/// ```
pub struct TransientPages<A: HostAllocator> {
    class: TransientClass<()>,
    memory: A,
    tag: u32,
    /// Offset of the next page. `end`: the limit of the last page.
    next: u64,
    end: u64,
    memory_bytes: u64,
}

/// The id of a live range of one [`TransientPages`]. It is stale after the range is freed, and is never reissued.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransientAllocation {
    group: u32,
    slot: u32,
    generation: u32,
    tag: u32,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransientRange {
    /// Its id, for freeing it.
    pub allocation: TransientAllocation,
    /// Its offset, a multiple of the requested alignment.
    pub offset: u64,
    /// The requested size, rounded up to the granule.
    pub size: u64,
}

/// Usage of [`TransientPages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransientStatistics {
    /// Number of live ranges.
    pub allocation_count: u32,
    /// Their bytes, rounded up to granules.
    pub allocation_bytes: u64,
    /// Bytes of all pages so far: no range ends beyond this offset.
    pub page_bytes: u64,
    /// Bytes of host memory for bookkeeping.
    pub memory_bytes: u64,
}

impl fmt::Debug for TransientAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TransientAllocation({}/{}, generation {})",
            self.group, self.slot, self.generation
        )
    }
}

impl<A: HostAllocator> fmt::Debug for TransientPages<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransientPages")
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

impl From<FreeError> for VirtualBlockError {
    fn from(error: FreeError) -> Self {
        match error {
            FreeError::Foreign => Self::Foreign,
            FreeError::Stale | FreeError::Double | FreeError::Held => Self::Stale,
        }
    }
}

impl<A: HostAllocator> TransientPages<A> {
    /// An arena of `size` bytes, in pages of `page` bytes. The first allocation of a range allocates host memory.
    ///
    /// # Errors
    /// [`VirtualBlockError::Granule`] if the granule is not a power of two; [`VirtualBlockError::Alignment`] if the page size is not a
    /// power of two, or is less than 8 granules, or 2^30 granules or more; [`VirtualBlockError::ZeroSize`] if `size` is less than one page.
    pub fn new(memory: A, size: u64, granule: u64, page: u64) -> Result<Self, VirtualBlockError> {
        /// The next tag. Different tags prevent an arena from freeing another arena's ranges.
        static ARENAS: AtomicU32 = AtomicU32::new(1);
        if !granule.is_power_of_two() {
            return Err(VirtualBlockError::Granule);
        }
        if !page.is_power_of_two() || !(8..1 << 30).contains(&(page / granule)) {
            return Err(VirtualBlockError::Alignment);
        }
        if size < page {
            return Err(VirtualBlockError::ZeroSize);
        }
        let class = GroupedAllocator::new(PageAllocator::new(granule, page));
        Ok(Self {
            class,
            memory,
            tag: ARENAS.fetch_add(1, Ordering::Relaxed),
            next: 0,
            end: size & !(page - 1),
            memory_bytes: 0,
        })
    }

    /// The maximum size of a range.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.class.max_size()
    }

    /// Allocates a range.
    ///
    /// # Errors
    /// [`VirtualBlockError::ZeroSize`]; [`VirtualBlockError::Alignment`]; [`VirtualBlockError::TooLarge`] for a size or an alignment
    /// above [`largest`](Self::largest); [`VirtualBlockError::Full`] if no page has room and no page can be added;
    /// [`VirtualBlockError::Host`].
    // Without inlining, the result would be stored in small parts and loaded in large parts: that costs as much as the rest of the
    // function.
    #[inline(always)]
    pub fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
    ) -> Result<TransientRange, VirtualBlockError> {
        loop {
            match self.class.allocate(size, alignment, 0) {
                Ok(taken) => {
                    let (group, slot, generation) = (taken.group, taken.slot, taken.generation);
                    let allocation = TransientAllocation {
                        group,
                        slot,
                        generation,
                        tag: self.tag,
                    };
                    return Ok(TransientRange {
                        allocation,
                        offset: taken.offset,
                        size: taken.size,
                    });
                }
                Err(shortage) => self.make_ready(shortage, size, alignment)?,
            }
        }
    }

    #[cold]
    fn make_ready(
        &mut self,
        shortage: ClassShortage,
        size: u64,
        alignment: u64,
    ) -> Result<(), VirtualBlockError> {
        match shortage {
            ClassShortage::Unsupported if size == 0 => Err(VirtualBlockError::ZeroSize),
            ClassShortage::Unsupported if !alignment.is_power_of_two() => {
                Err(VirtualBlockError::Alignment)
            }
            ClassShortage::Unsupported if size.max(alignment) > self.largest() => {
                Err(VirtualBlockError::TooLarge)
            }
            ClassShortage::Unsupported => Err(VirtualBlockError::TooManyRanges),
            ClassShortage::Memory(need) => self.grow_with(need),
            ClassShortage::Range(need) => self.add(need),
        }
    }

    fn grow_with(&mut self, need: HostShortage) -> Result<(), VirtualBlockError> {
        let block =
            HostBlock::allocate(&self.memory, need.layout).map_err(VirtualBlockError::Host)?;
        self.memory_bytes += need.layout.size() as u64;
        match self.class.grow_with(need, block) {
            None => Ok(()),
            Some(memory) => {
                self.free_memory(memory);
                Err(VirtualBlockError::Host(HostError::TooLarge))
            }
        }
    }

    fn add(&mut self, need: RangeShortage) -> Result<(), VirtualBlockError> {
        let base = self.next;
        if self.end - base < need.size {
            return Err(VirtualBlockError::Full);
        }
        match self.class.add((), base, need) {
            Ok(_) => {
                self.next = base + need.size;
                Ok(())
            }
            Err(ClassShortage::Memory(need)) => self.grow_with(need),
            Err(ClassShortage::Range(_) | ClassShortage::Unsupported) => {
                Err(VirtualBlockError::TooManyRanges)
            }
        }
    }

    fn free_memory(&mut self, memory: HostBlock) {
        self.memory_bytes -= memory.layout().size() as u64;
        // SAFETY: the memory was allocated from this allocator with this layout, and the class no longer uses it.
        unsafe { memory.free(&self.memory) };
    }

    /// Frees a range. Allocates nothing.
    ///
    /// # Errors
    /// [`VirtualBlockError::Stale`] if the range was freed before, [`VirtualBlockError::Foreign`].
    #[inline]
    pub fn free(&mut self, allocation: TransientAllocation) -> Result<(), VirtualBlockError> {
        let TransientAllocation {
            group,
            slot,
            generation,
            tag,
        } = allocation;
        if tag != self.tag {
            return Err(VirtualBlockError::Foreign);
        }
        self.class.free(group, slot, generation, 0)?;
        Ok(())
    }

    /// The offset and the size of a live range.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn info(&self, allocation: TransientAllocation) -> Result<(u64, u64), VirtualBlockError> {
        let TransientAllocation {
            group,
            slot,
            generation,
            tag,
        } = allocation;
        if tag != self.tag {
            return Err(VirtualBlockError::Foreign);
        }
        let found = self.class.find(group, slot, generation)?;
        Ok((found.offset, found.size))
    }

    /// The current usage. Constant time.
    #[must_use]
    pub fn statistics(&self) -> TransientStatistics {
        let totals = self.class.totals();
        TransientStatistics {
            allocation_count: totals.live,
            allocation_bytes: totals.used_bytes,
            page_bytes: totals.reserved_bytes,
            memory_bytes: self.memory_bytes,
        }
    }

    /// Visits every live range, page by page, in order of offset within each page.
    pub fn for_each(&self, mut visit: impl FnMut(TransientRange)) {
        let tag = self.tag;
        for number in 0..self.class.number_bound() {
            self.class.walk(number, &mut |piece| {
                let allocation = TransientAllocation {
                    group: piece.group,
                    slot: piece.slot,
                    generation: piece.generation,
                    tag,
                };
                visit(TransientRange {
                    allocation,
                    offset: piece.offset,
                    size: piece.size,
                });
            });
        }
    }
}

impl<A: HostAllocator> Drop for TransientPages<A> {
    fn drop(&mut self) {
        while let Some(memory) = self.class.detach_memory() {
            self.free_memory(memory);
        }
    }
}
