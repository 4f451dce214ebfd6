//! Choice of the memory type and the budget.

#![forbid(unsafe_code)]

use gpu_suballoc::device::{HeapBudget, MAX_MEMORY_HEAPS};
use gpu_suballoc::memory_type::{MemoryTypeError, choose_memory_type};
use gpu_suballoc::{DeviceMemory, MemoryPreference, PropertyFlags};

use super::traces::{MemoryTrace, SizeEnding, TraceScale, all_traces};

/// The memory for the traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryBudget {
    pub(super) memory_type: u32,
    pub(super) properties: PropertyFlags,
    pub(super) heap: u32,
    pub(super) heap_bytes: u64,
    /// The most bytes that may be allocated at any moment.
    pub(super) bytes: u64,
}

/// The type that buffers on the device would use, and the smaller of `limit` and half of the free bytes of its heap. For a heap in host
/// memory the budget is also at most a quarter of the host's available memory: the machine runs other programs.
pub(super) fn of_device(
    device: &impl DeviceMemory,
    limit: Option<u64>,
    host_available: Option<u64>,
) -> Result<MemoryBudget, MemoryTypeError> {
    let properties = device.properties();
    let preference = MemoryPreference::default()
        .preferring(PropertyFlags::DEVICE_LOCAL)
        .avoiding(PropertyFlags::HOST_VISIBLE);
    let memory_type = choose_memory_type(properties.types, u32::MAX, preference)?;
    let of_type = properties.types.get(memory_type as usize);
    let heap = of_type.map_or(0, |of| of.heap_index);
    let heap_bytes = properties
        .heaps
        .get(heap as usize)
        .map_or(0, |heap| heap.size);
    let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
    let is_reported = budgets
        .get_mut(..properties.heaps.len())
        .is_some_and(|heaps| device.budget(heaps));
    let free = match budgets.get(heap as usize) {
        Some(heap) if is_reported => heap.budget.saturating_sub(heap.usage),
        _ => heap_bytes,
    };
    let of_heap = free.min(heap_bytes) / 2;
    let of_host = host_available.map_or(u64::MAX, |bytes| bytes / 4);
    Ok(MemoryBudget {
        memory_type,
        properties: of_type.map_or(PropertyFlags::NONE, |of| of.properties),
        heap,
        heap_bytes,
        bytes: of_heap.min(of_host).min(limit.unwrap_or(u64::MAX)),
    })
}

/// The largest traces that fit with a tenth to spare, or the smallest ones: allocations that do not fit are refused and counted.
pub(super) fn traces_within(bytes: u64, quick: bool) -> (&'static str, [MemoryTrace; 4]) {
    let at = |scale| {
        all_traces(SizeEnding::Rounded, scale, |rounds| {
            if quick { rounds / 20 } else { rounds }
        })
    };
    for (name, scale) in [("full", TraceScale::FULL), ("small", TraceScale::SMALL)] {
        let traces = at(scale);
        if traces.iter().all(|trace| trace.peak <= bytes / 10 * 9) {
            return (name, traces);
        }
    }
    ("tiny", at(TraceScale::TINY))
}

/// Bytes that the host's programs can still allocate, if the system reports them.
pub(super) fn host_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    available_in(&text)
}

fn available_in(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_traces_that_fit_are_chosen() {
        for (gib, name) in [
            (16, "full"),
            (7, "full"),
            (5, "small"),
            (2, "small"),
            (1, "tiny"),
        ] {
            let (chosen, traces) = traces_within(gib << 30, true);
            assert_eq!(chosen, name, "{gib} GiB");
            for trace in &traces {
                assert!(trace.peak <= gib << 30, "{}: {}", trace.name, trace.peak);
            }
        }
        let (chosen, traces) = traces_within(0, true);
        assert_eq!(chosen, "tiny");
        assert!(traces.iter().all(|trace| trace.peak < 512 << 20));
    }

    #[test]
    fn what_the_host_has_is_read_in_bytes() {
        let text = "MemTotal:       2000 kB\nMemAvailable:   1000 kB\n";
        assert_eq!(available_in(text), Some(1_024_000));
        for broken in [
            "",
            "MemAvailable: 7",
            "MemAvailable: x kB",
            "MemAvailable: 99999999999999999999 kB",
        ] {
            assert_eq!(available_in(broken), None, "{broken}");
        }
    }
}
