//! Transient pages for everybody: of an arena of which only offsets exist.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use alloc_core::{HostAllocator, HostError};

use super::pages::PageAllocator;
use super::sub_allocator::{GroupedAllocator, TransientClass};
use super::types::{ClassShortage, FreeError, HostShortage, RangeShortage};
use crate::host_block::HostBlock;
use crate::range::VirtualBlockError;

/// Hands out ranges that die together, of something that it never touches: a staging buffer, a frame's descriptors.
///
/// Ranges are placed one behind the other into pages of equal size, by moving a cursor; freeing one counts it down. A page whose last range
/// is freed begins anew. That costs a few nanoseconds each, and what it costs in room is a page that one survivor keeps: for what lives a
/// frame or two. [`VirtualBlock`](crate::VirtualBlock) is for the rest.
///
/// Sizes and offsets are in units of your choice, bytes below; sizes are rounded up to the *granule*. A range may have an eighth of a page.
/// A range freed twice is told from one that lives, in a full page too, and so is one whose place was handed out again.
///
/// All memory for its book-keeping comes from `A`, scope [`Scope::Object`](alloc_core::Scope::Object): 16 bytes for each range that a page ever had at once, and
/// little for a page. Freeing takes none. Dropping it gives everything back, nothing goes before.
///
/// One thread at a time (`&mut self`), any thread. Constant time, but for [`for_each`](Self::for_each).
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
    /// Where the next page begins, and where the last one may end.
    next: u64,
    end: u64,
    memory_bytes: u64,
}

/// Names a live range of one [`TransientPages`]. Once the range is freed, it names nothing ever again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransientAllocation {
    group: u32,
    slot: u32,
    generation: u32,
    tag: u32,
}

/// A range that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransientRange {
    /// Its name, for freeing it.
    pub allocation: TransientAllocation,
    /// Where it begins, aligned as asked for.
    pub offset: u64,
    /// The size asked for, rounded up to the granule.
    pub size: u64,
}

/// How [`TransientPages`] are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransientStatistics {
    /// Live ranges.
    pub allocation_count: u32,
    /// What they take, rounded up to granules.
    pub allocation_bytes: u64,
    /// What has been made pages so far: no range ends beyond it.
    pub page_bytes: u64,
    /// Bytes of host memory for the book-keeping.
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
    /// An arena of `size`, in pages of `page`. It takes memory when something is first allocated.
    ///
    /// # Errors
    /// [`VirtualBlockError::Granule`] for a granule that is no power of two; [`VirtualBlockError::Alignment`] for a page that is none, or
    /// that has fewer than 8 granules, or 2^30 and more; [`VirtualBlockError::ZeroSize`] below one page.
    pub fn new(memory: A, size: u64, granule: u64, page: u64) -> Result<Self, VirtualBlockError> {
        /// Tells arenas apart, so that one does not free another's ranges.
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

    /// The largest range there can be.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.class.max_size()
    }

    /// Allocates a range.
    ///
    /// # Errors
    /// [`VirtualBlockError::ZeroSize`]; [`VirtualBlockError::Alignment`]; [`VirtualBlockError::TooLarge`] for a size or an alignment
    /// above [`largest`](Self::largest); [`VirtualBlockError::Full`] when no page has room and there can be no other;
    /// [`VirtualBlockError::Host`].
    // Out of line its result would be written in small pieces and read in large ones, which costs as much as all the rest.
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
        // SAFETY: the class was supplied with it from this allocator, with that layout, and has let go of it.
        unsafe { memory.free(&self.memory) };
    }

    /// Frees a range. Takes no memory.
    ///
    /// # Errors
    /// [`VirtualBlockError::Stale`] for one that was freed, [`VirtualBlockError::Foreign`].
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

    /// Where a live range is: offset and size.
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

    /// How it is used. Constant time.
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

    /// Shows every live range, page by page, in order of offset within each.
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
