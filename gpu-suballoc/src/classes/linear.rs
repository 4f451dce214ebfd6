//! Linear placement for everybody: a stack, two stacks, or a ring, of a block of which only offsets exist.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use alloc_core::{HostAllocator, HostError};

use super::range_queue::{QueueEntry, RangeQueue};
use crate::host_block::HostBlock;
use crate::range::{align_down, align_up};

/// Hands out ranges one behind the other, of something that it never touches. The peer of VMA's linear algorithm.
///
/// How it is used makes it what it is; nothing is chosen beforehand:
///
/// ```text
///   stack         | a | b | c |             free              |      free the newest: c, b, a
///   double stack  | a | b |          free           | y | x   |      and the newest of the upper end: y, x
///   ring          | d | e |  free  | b | c |  (left at the end) |    free the oldest: b, c, d, e
/// ```
///
/// A range is freed when it is the newest or the oldest of its end; any other is refused by [`LinearError::OutOfOrder`], and can be freed
/// when it is its turn. When the space behind the newest is used up, ranges go on at the start, as far as the oldest were freed; while they
/// do, the upper end cannot be used, and the other way round.
///
/// Sizes and offsets are in units of your choice, bytes below; sizes are rounded up to the *granule*. Constant time, but for
/// [`info`](Self::info) and refused frees (logarithmic) and [`for_each`](Self::for_each). All memory for its book-keeping comes from `A`,
/// scope [`Scope::Object`](alloc_core::Scope::Object): 24 bytes for each range that lived at once, doubled at worst. Freeing takes none. One thread at a time
/// (`&mut self`), any thread.
///
/// ```
/// use alloc_core::FromGlobalAlloc;
/// use gpu_suballoc::{LinearBlock, LinearError};
///
/// // A ring of 1 MiB for uploads: freed in the order in which the device gets done with them.
/// let mut ring = LinearBlock::new(FromGlobalAlloc::SYSTEM, 1 << 20, 256)?;
/// let first = ring.allocate(600 << 10, 16)?;
/// let second = ring.allocate(400 << 10, 16)?;
/// assert_eq!(ring.allocate(200 << 10, 16), Err(LinearError::Full));
///
/// ring.free(first.allocation)?;
/// let third = ring.allocate(200 << 10, 16)?; // at the start again
/// assert_eq!(third.offset, 0);
/// ring.free(second.allocation)?;
/// ring.free(third.allocation)?;
/// # Ok::<(), LinearError>(())
/// ```
pub struct LinearBlock<A: HostAllocator> {
    lower: RangeQueue,
    upper: RangeQueue,
    memory: A,
    size: u64,
    granule: u64,
    used: u64,
    serial: u64,
    tag: u32,
}

/// Names a live range of one [`LinearBlock`]. Once the range is freed, it names nothing ever again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinearAllocation {
    serial: u64,
    tag: u32,
    is_upper: bool,
}

/// A range that was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearRange {
    /// Its name, for freeing it.
    pub allocation: LinearAllocation,
    /// Where it begins, aligned as asked for.
    pub offset: u64,
    /// The size asked for, rounded up to the granule.
    pub size: u64,
}

/// Why a [`LinearBlock`] refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinearError {
    /// Size 0, or a block smaller than its granule.
    ZeroSize,
    /// An alignment or granule that is no power of two.
    Alignment,
    /// More than the block could hold if it were empty.
    TooLarge,
    /// There is no room at that end.
    Full,
    /// The upper end of a block that is used as a ring.
    Ring,
    /// That range is neither the newest nor the oldest of its end.
    OutOfOrder,
    /// That range was freed before.
    Stale,
    /// That range is of another block.
    Foreign,
    /// No memory for book-keeping.
    Host(HostError),
}

impl fmt::Display for LinearError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroSize => "a size of 0 has no range: ask for one granule at least",
            Self::Alignment => {
                "the alignment or granule is no power of two: use 1 where any offset will do"
            }
            Self::TooLarge => {
                "more than the block could ever hold: split it, or make a larger block"
            }
            Self::Full => {
                "there is no room at that end: free the newest or the oldest, or use another block"
            }
            Self::Ring => {
                "the block is used as a ring: free what went round before using the upper end"
            }
            Self::OutOfOrder => {
                "the range is neither the newest nor the oldest of its end: free those first"
            }
            Self::Stale => "that range was freed before: forget its name when you free it",
            Self::Foreign => "that range is of another block: free it there",
            Self::Host(error) => {
                return write!(f, "no memory for the block's book-keeping: {error}");
            }
        })
    }
}

impl core::error::Error for LinearError {}

impl fmt::Debug for LinearAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LinearAllocation({}{})",
            self.serial,
            if self.is_upper { ", upper" } else { "" }
        )
    }
}

impl<A: HostAllocator> fmt::Debug for LinearBlock<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lower, upper) = (self.lower.len(), self.upper.len());
        f.debug_struct("LinearBlock")
            .field("lower", &lower)
            .field("upper", &upper)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl<A: HostAllocator> LinearBlock<A> {
    /// A block of `size`, all free. It takes memory when something is first allocated.
    ///
    /// # Errors
    /// [`LinearError::Alignment`] for a granule that is no power of two; [`LinearError::ZeroSize`] below one granule.
    pub fn new(memory: A, size: u64, granule: u64) -> Result<Self, LinearError> {
        /// Tells blocks apart, so that one does not free another's ranges.
        static BLOCKS: AtomicU32 = AtomicU32::new(1);
        let size = align_down(size, granule).ok_or(LinearError::Alignment)?;
        if size == 0 {
            return Err(LinearError::ZeroSize);
        }
        let tag = BLOCKS.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            lower: RangeQueue::new(),
            upper: RangeQueue::new(),
            memory,
            size,
            granule,
            used: 0,
            serial: 0,
            tag,
        })
    }

    /// Allocates a range behind the newest of the lower end, or, where that does not fit, at the start, before the oldest.
    ///
    /// # Errors
    /// [`LinearError::ZeroSize`], [`LinearError::Alignment`], [`LinearError::TooLarge`], [`LinearError::Full`], [`LinearError::Host`].
    pub fn allocate(&mut self, size: u64, alignment: u64) -> Result<LinearRange, LinearError> {
        let (size, alignment) = self.round_request(size, alignment)?;
        let fits = |from: u64, end: u64| {
            let offset = align_up(from, alignment)?;
            (offset.checked_add(size)? <= end).then_some(offset)
        };
        let top = self.upper.last().map_or(self.size, |entry| entry.offset);
        let offset = match (self.lower.first(), self.lower.last()) {
            (Some(first), Some(last)) if last.offset < first.offset => {
                fits(last.offset + last.size, first.offset)
            }
            (Some(first), Some(last)) => fits(last.offset + last.size, top).or_else(|| {
                if self.upper.len() == 0 {
                    fits(0, first.offset)
                } else {
                    None
                }
            }),
            _ => fits(0, top),
        };
        self.push(false, offset.ok_or(LinearError::Full)?, size)
    }

    /// Allocates a range at the upper end, before the newest there.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and [`LinearError::Ring`].
    pub fn allocate_upper(
        &mut self,
        size: u64,
        alignment: u64,
    ) -> Result<LinearRange, LinearError> {
        let (size, alignment) = self.round_request(size, alignment)?;
        let bottom = match (self.lower.first(), self.lower.last()) {
            (Some(first), Some(last)) if last.offset < first.offset => {
                return Err(LinearError::Ring);
            }
            (_, Some(last)) => last.offset + last.size,
            _ => 0,
        };
        let top = self.upper.last().map_or(self.size, |entry| entry.offset);
        let offset = top
            .checked_sub(size)
            .and_then(|offset| align_down(offset, alignment))
            .filter(|offset| *offset >= bottom);
        self.push(true, offset.ok_or(LinearError::Full)?, size)
    }

    fn round_request(&self, size: u64, alignment: u64) -> Result<(u64, u64), LinearError> {
        if size == 0 {
            return Err(LinearError::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(LinearError::Alignment);
        }
        let size = align_up(size, self.granule)
            .filter(|size| *size <= self.size)
            .ok_or(LinearError::TooLarge)?;
        Ok((size, alignment.max(self.granule)))
    }

    fn push(&mut self, upper: bool, offset: u64, size: u64) -> Result<LinearRange, LinearError> {
        let queue = if upper {
            &mut self.upper
        } else {
            &mut self.lower
        };
        if let Some(layout) = queue.missing_capacity() {
            let block = HostBlock::allocate(&self.memory, layout).map_err(LinearError::Host)?;
            if let Some(back) = queue.grow_with(block) {
                // SAFETY: it came back as it was handed in.
                unsafe { back.free(&self.memory) };
            }
        }
        let serial = self.serial + 1;
        if !queue.push(QueueEntry {
            serial,
            offset,
            size,
        }) {
            return Err(LinearError::Host(HostError::TooLarge));
        }
        self.serial = serial;
        self.used += size;
        Ok(LinearRange {
            allocation: LinearAllocation {
                serial,
                tag: self.tag,
                is_upper: upper,
            },
            offset,
            size,
        })
    }

    /// Frees the newest or the oldest range of its end; of the upper end the newest alone. Takes no memory.
    ///
    /// # Errors
    /// [`LinearError::OutOfOrder`] for another one that lives, [`LinearError::Stale`], [`LinearError::Foreign`].
    pub fn free(&mut self, allocation: LinearAllocation) -> Result<(), LinearError> {
        let LinearAllocation {
            serial,
            tag,
            is_upper: upper,
        } = allocation;
        if tag != self.tag {
            return Err(LinearError::Foreign);
        }
        let queue = if upper {
            &mut self.upper
        } else {
            &mut self.lower
        };
        let named = |entry: &QueueEntry| entry.serial == serial;
        if let Some(last) = queue.last().filter(named) {
            queue.pop_last();
            self.used -= last.size;
        } else if let Some(first) = queue.first().filter(|first| named(first) && !upper) {
            queue.pop_first();
            self.used -= first.size;
        } else if queue.find(serial).is_some() {
            return Err(LinearError::OutOfOrder);
        } else {
            return Err(LinearError::Stale);
        }
        Ok(())
    }

    /// Where a live range is: offset and size.
    ///
    /// # Errors
    /// [`LinearError::Stale`], [`LinearError::Foreign`].
    pub fn info(&self, allocation: LinearAllocation) -> Result<(u64, u64), LinearError> {
        let LinearAllocation {
            serial,
            tag,
            is_upper: upper,
        } = allocation;
        if tag != self.tag {
            return Err(LinearError::Foreign);
        }
        let queue = if upper { &self.upper } else { &self.lower };
        queue
            .find(serial)
            .map(|entry| (entry.offset, entry.size))
            .ok_or(LinearError::Stale)
    }

    /// Frees everything, at once.
    pub fn clear(&mut self) {
        self.lower.clear();
        self.upper.clear();
        self.used = 0;
    }

    /// Live ranges, and their bytes.
    #[must_use]
    pub fn live(&self) -> (u32, u64) {
        (self.lower.len() + self.upper.len(), self.used)
    }

    /// Shows every live range: the lower end's, then the upper end's, each from the oldest to the newest.
    pub fn for_each(&self, mut see: impl FnMut(LinearRange)) {
        for (queue, upper) in [(&self.lower, false), (&self.upper, true)] {
            for QueueEntry {
                serial,
                offset,
                size,
            } in (0..queue.len()).filter_map(|nth| queue.get(nth))
            {
                see(LinearRange {
                    allocation: LinearAllocation {
                        serial,
                        tag: self.tag,
                        is_upper: upper,
                    },
                    offset,
                    size,
                });
            }
        }
    }
}

impl<A: HostAllocator> Drop for LinearBlock<A> {
    fn drop(&mut self) {
        while let Some(memory) = self
            .lower
            .detach_memory()
            .or_else(|| self.upper.detach_memory())
        {
            // SAFETY: a queue was supplied with it from this allocator, with that layout, and has let go of it.
            unsafe { memory.free(&self.memory) };
        }
    }
}
