use core::cmp::Reverse;
use core::fmt;
use core::ops::Range;

/// An allocation.
#[derive(Clone)]
pub struct AllocationReport {
    /// The name it was allocated with.
    pub name: String,
    /// Where it begins in its block, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// A memory object.
#[derive(Clone)]
pub struct MemoryBlockReport {
    /// Bytes.
    pub size: u64,
    /// Which of [`AllocatorReport::allocations`] lie in it.
    pub allocations: Range<usize>,
}

/// All memory objects and what lies in them.
#[derive(Clone)]
pub struct AllocatorReport {
    /// All allocations, by block.
    pub allocations: Vec<AllocationReport>,
    /// All memory objects.
    pub blocks: Vec<MemoryBlockReport>,
    /// Bytes of all allocations.
    pub total_allocated_bytes: u64,
    /// Bytes of all memory objects.
    pub total_capacity_bytes: u64,
}

impl fmt::Debug for AllocationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "--" } else { &self.name };
        write!(f, "{name:?}: {}", HumanBytes(self.size))
    }
}

impl fmt::Debug for AllocatorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut largest: Vec<_> = self.allocations.iter().collect();
        largest.sort_by_key(|one| Reverse(one.size));
        largest.truncate(f.precision().unwrap_or(usize::MAX));
        f.debug_struct("AllocatorReport")
            .field(
                "summary",
                &format_args!("{} / {}", HumanBytes(self.total_allocated_bytes), HumanBytes(self.total_capacity_bytes)),
            )
            .field("blocks", &self.blocks.len())
            .field("allocations", &self.allocations.len())
            .field("largest", &largest)
            .finish()
    }
}

struct HumanBytes(u64);

impl fmt::Display for HumanBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let (mut amount, mut unit) = (self.0 as f64, 0);
        while amount >= 1024.0 && unit + 1 < units.len() {
            amount /= 1024.0;
            unit += 1;
        }
        write!(f, "{amount:.*} {}", usize::from(unit > 0), units[unit])
    }
}
