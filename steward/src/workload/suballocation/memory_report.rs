#![forbid(unsafe_code)]

use super::Allocator;
use vk_report::report::DeviceMemory;

pub(super) fn memory_report(allocator: &Allocator) -> DeviceMemory {
    let stats = allocator.stats();
    let total = stats.total;
    DeviceMemory {
        block_count: total.blocks,
        block_bytes: total.block_bytes,
        regions: total.regions,
        region_bytes: total.region_bytes,
        wrapped: total.wrapped,
        wrapped_bytes: total.wrapped_bytes,
        crops: total.crops,
        host_bytes: stats.host_bytes,
        free_bytes_in_use: total.free_bytes_in_use(),
        largest_free_bytes: total.largest_free_bound,
        peak_block_bytes: stats.peak_block_bytes,
        reserved_percent: total.reserved_percent(),
    }
}
