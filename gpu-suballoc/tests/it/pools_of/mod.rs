//! What the issue asks of blocks and pools, on any device: run on the mock's profiles (`profiles.rs`) and on a real one
//! (`live_pools.rs`). Each test answers with what the device gave it no chance to show.

mod blocks;
mod memory;
mod watch;

use alloc_core::HostAllocator;
use gpu_suballoc::device::BufferHandle;
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::{
    AllocatorOptions, BufferUsage, DeviceMemory, GpuAllocator, MemoryPreference, PropertyFlags,
    Region, RegionOptions, ResourceRequirements,
};
use testkit::RecordingAllocator;

use watch::Watch;

/// A device with a queue.
pub(crate) trait Machine {
    fn device(&self) -> &dyn DeviceMemory;
    /// One after the other: source, offset, target, offset, bytes.
    fn copy(&self, copies: &[(BufferHandle, u64, BufferHandle, u64, u64)]);
}

/// What a device gives no chance to show, by name.
pub(crate) type Unseen = Vec<&'static str>;

/// A test by its name.
pub(crate) type Case = (&'static str, fn(&dyn Machine) -> Unseen);

pub(crate) const CASES: &[Case] = &[
    ("blocks_grow_from_small", blocks::grow),
    (
        "refused_blocks_are_halved_and_then_made_for_one",
        blocks::halve,
    ),
    ("limits_hold_at_every_moment", blocks::limits),
    ("empty_blocks_are_kept_by_bytes_and_trimmed", blocks::keep),
    (
        "what_nothing_can_hold_is_refused_unasked",
        blocks::too_large,
    ),
    ("a_budget_is_not_exceeded", blocks::budget),
    ("a_full_heap_vetoes_no_other", blocks::fall_through),
    ("custom_pools_keep_their_bounds", blocks::custom),
    ("types_are_chosen_by_flags", memory::types),
    ("linear_and_optimal_share_no_page", memory::granularity),
    ("dedicated_priority_export_go_through", memory::chains),
    (
        "buffers_of_one_block_have_addresses_of_their_own",
        memory::addresses,
    ),
    ("two_threads_map_two_regions_of_one_block", memory::maps),
    (
        "flushes_are_whole_atoms_of_the_region_alone",
        memory::flushes,
    ),
    (
        "bytes_go_through_regions_and_crops_on_the_queue",
        memory::bytes,
    ),
];

const MIB: u64 = 1 << 20;
const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());
const VISIBLE: RegionOptions<'static> =
    RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
/// Nothing is there but on request.
const SPECIAL: PropertyFlags = PropertyFlags::from_raw(
    PropertyFlags::LAZILY_ALLOCATED.as_raw()
        | PropertyFlags::PROTECTED.as_raw()
        | PropertyFlags::DEVICE_COHERENT_AMD.as_raw()
        | PropertyFlags::DEVICE_UNCACHED_AMD.as_raw(),
);

type Allocator<'a, 'm> = GpuAllocator<&'a Watch<'m>, &'a RecordingAllocator>;

/// Runs `body` over an allocator of its own; afterwards everything has to be back, on both sides.
fn with(
    machine: &dyn Machine,
    memory: MemoryOptions,
    body: impl FnOnce(&Allocator<'_, '_>, &Watch<'_>),
) {
    let (watch, witness) = (Watch::new(machine.device()), RecordingAllocator::system());
    let options = AllocatorOptions {
        memory,
        ..AllocatorOptions::default()
    };
    // SAFETY: infos are valid for any device, nothing is wrapped, the queue is waited for, and the device outlives the allocator.
    let allocator = unsafe { GpuAllocator::new(&watch, &witness, options) }
        .unwrap_or_else(|refused| panic!("sound options: {}", refused.error));
    body(&allocator, &watch);
    if let Err(refused) = allocator.close() {
        panic!("the test left something: {refused:?}");
    }
    let seen = watch.seen();
    assert_eq!(
        (seen.live.len(), seen.bytes()),
        (0, 0),
        "memory objects are left"
    );
    witness.assert_empty("after the allocator was closed");
}

fn free_all<D: DeviceMemory, A: HostAllocator>(
    allocator: &GpuAllocator<D, A>,
    regions: impl IntoIterator<Item = Region>,
) {
    for region in regions {
        allocator.free(region).expect("it is freed once");
    }
}

/// Regions of so many bytes, as many as are given.
fn fill(
    allocator: &Allocator<'_, '_>,
    size: u64,
    options: &RegionOptions<'_>,
) -> (Vec<Region>, gpu_suballoc::GpuError) {
    const ENOUGH: usize = 10_000;
    let mut regions = Vec::new();
    while regions.len() < ENOUGH {
        match allocator.allocate(&ResourceRequirements::new(size, 256), options) {
            Ok(region) => regions.push(region),
            Err(error) => return (regions, error),
        }
    }
    panic!("{ENOUGH} regions of {size} bytes, and no end");
}
