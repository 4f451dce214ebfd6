use super::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use alloc_core::HostAllocator;
use core::fmt;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Frees the kept buffers first.
    pub(crate) fn outstanding(&self) -> OutstandingRegions {
        self.evict_reusable(0, 0);
        let counts = self.records.counts();
        OutstandingRegions { regions: self.pools.live_regions(), wrapped: counts.wrapped, crops: counts.crops }
    }
}

/// What prevents closing an allocator; [`MemoryMap::leaks`](crate::report::MemoryMap::leaks) lists it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutstandingRegions {
    /// Regions of the allocator's own memory.
    pub regions: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Crops.
    pub crops: u64,
}

/// A region of a batch that was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchError {
    /// Its index in the batch, where it still is.
    pub index: usize,
    /// Why.
    pub error: GpuError,
}

impl OutstandingRegions {
    pub(crate) const fn named(self) -> [(u64, &'static str); 3] {
        let Self { regions, wrapped, crops } = self;
        [(regions, "region"), (wrapped, "wrapped buffer"), (crops, "crop")]
    }
}

impl fmt::Display for OutstandingRegions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_in_use(f, &self.named(), "the allocator", "call free_all")
    }
}

pub(crate) fn write_in_use(f: &mut fmt::Formatter<'_>, what: &[(u64, &str)], of: &str, or: &str) -> fmt::Result {
    let there = || what.iter().filter(|(count, _)| *count > 0);
    let kinds = there().count();
    for (nth, (count, name)) in there().enumerate() {
        f.write_str(match nth {
            0 => "",
            _ if nth + 1 == kinds => " and ",
            _ => ", ",
        })?;
        write!(f, "{count} {name}{}", if *count == 1 { "" } else { "s" })?;
    }
    match there().map(|(count, _)| *count).fold(0, u64::saturating_add) {
        0 => write!(f, "nothing of {of} is in use"),
        1 => write!(f, " of {of} is in use: free it, or {or}"),
        _ => write!(f, " of {of} are in use: free them, or {or}"),
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "region {} of the batch: {}", self.index, self.error)
    }
}

impl core::error::Error for OutstandingRegions {}
impl core::error::Error for BatchError {}
