//! Blocks: how they grow, what bounds them, when they go.

use gpu_suballoc::device::HeapBudget;
use gpu_suballoc::error::Limit;
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    GpuError, MemoryPreference, PoolOptions, PropertyFlags, RegionOptions, ResourceRequirements,
};

use super::*;

const ANY: RegionOptions<'static> = RegionOptions::new();

fn small(first: u64, max: u64) -> MemoryOptions {
    MemoryOptions {
        first_block: Some(first),
        max_block: Some(max),
        ..MemoryOptions::default()
    }
}

pub(super) fn grow(machine: &dyn Machine) -> Unseen {
    with(machine, MemoryOptions::default(), |allocator, watch| {
        let first = allocator
            .allocate(&ResourceRequirements::new(1024, 256), &ANY)
            .expect("room");
        let kind = first.memory_type().expect("it has memory");
        let device = watch.properties();
        let heap = device.heaps[device.types[kind as usize].heap_index as usize].size;
        let mut regions = vec![first];
        while watch.seen().given.len() < 4 {
            let of_its_type = ResourceRequirements::new(MIB, 256).memory_types(1 << kind);
            regions.push(allocator.allocate(&of_its_type, &ANY).expect("room"));
        }
        let sizes: Vec<u64> = watch
            .seen()
            .given
            .iter()
            .map(|request| request.size)
            .collect();
        println!(
            "  blocks of a heap of {} MiB: {:?} KiB",
            heap >> 20,
            sizes.iter().map(|size| size >> 10).collect::<Vec<_>>()
        );
        assert!(sizes[0] <= (8 * MIB).min(heap / 64), "{sizes:?}");
        assert!(
            sizes
                .windows(2)
                .all(|pair| pair[0] <= pair[1] && pair[1] <= 2 * pair[0]),
            "{sizes:?}"
        );
        assert!(
            sizes.iter().all(|size| *size <= (256 * MIB).min(heap / 8)),
            "{sizes:?}"
        );
        free_all(allocator, regions);
    });
    Unseen::new()
}

pub(super) fn halve(machine: &dyn Machine) -> Unseen {
    with(machine, small(8 * MIB, 64 * MIB), |allocator, watch| {
        let one = ResourceRequirements::new(1024, 256).memory_types(1);
        watch.refuse_from(Some(4 * MIB));
        let first = allocator
            .allocate(&one, &ANY)
            .expect("a smaller block is possible");
        let seen = watch.seen();
        assert_eq!(
            (seen.refused.as_slice(), seen.given[0].size),
            ([8 * MIB, 4 * MIB].as_slice(), 2 * MIB)
        );
        allocator.free(first).expect("freed once");
        allocator.trim(u64::MAX);
        watch.refuse_from(Some(2048));
        let own = allocator
            .allocate(&one, &ANY)
            .expect("memory for this one alone is possible");
        assert!(
            watch.seen().given[1].size < 2048,
            "{:?}",
            watch.seen().given[1]
        );
        watch.refuse_from(Some(1));
        let refused = allocator.allocate(&ResourceRequirements::new(65_536, 256), &ANY);
        assert!(matches!(refused, Err(GpuError::Device(_))), "{refused:?}");
        watch.refuse_from(None);
        let next = allocator
            .allocate(&ResourceRequirements::new(65_536, 256), &ANY)
            .expect("the next try");
        free_all(allocator, [own, next]);
    });
    Unseen::new()
}

pub(super) fn limits(machine: &dyn Machine) -> Unseen {
    const EACH: u64 = 256 << 10;
    let all = MemoryOptions {
        max_bytes: 6 * MIB,
        ..small(MIB, 2 * MIB)
    };
    with(machine, all, |allocator, watch| {
        let (regions, error) = fill(allocator, EACH, &ANY);
        assert!(
            matches!(error, GpuError::Limit(Limit::Bytes { .. })),
            "{error:?}"
        );
        assert!(
            watch.seen().peak_bytes <= 6 * MIB && regions.len() as u64 * EACH > 5 * MIB,
            "{} regions",
            regions.len()
        );
        free_all(allocator, regions);
        let again = allocator
            .allocate(&ResourceRequirements::new(EACH, 256), &ANY)
            .expect("there is room again");
        allocator.free(again).expect("freed once");
    });
    let three = MemoryOptions {
        max_allocations: 3,
        ..small(MIB, MIB)
    };
    with(machine, three, |allocator, watch| {
        let (regions, error) = fill(allocator, EACH, &ANY);
        assert!(
            matches!(error, GpuError::Limit(Limit::Objects { limit: 3 })),
            "{error:?}"
        );
        assert_eq!(
            (watch.seen().peak_objects, watch.seen().refused.len()),
            (3, 0)
        );
        free_all(allocator, regions);
    });
    let heaps = MemoryOptions {
        heap_limits: [2 * MIB; 16],
        ..small(MIB, MIB)
    };
    with(machine, heaps, |allocator, watch| {
        let (regions, error) = fill(allocator, EACH, &ANY);
        assert!(
            matches!(error, GpuError::Limit(Limit::Heap { .. })),
            "{error:?}"
        );
        assert!(
            watch.seen().heap_peaks.iter().all(|peak| *peak <= 2 * MIB),
            "{:?}",
            watch.seen().heap_peaks
        );
        free_all(allocator, regions);
    });
    Unseen::new()
}

pub(super) fn keep(machine: &dyn Machine) -> Unseen {
    const EACH: u64 = 256 << 10;
    with(machine, small(MIB, MIB), |allocator, watch| {
        let one = ResourceRequirements::new(EACH, 256);
        let full: Vec<_> = (0..4)
            .map(|_| allocator.allocate(&one, &ANY).expect("room"))
            .collect();
        for _ in 0..100 {
            let next = allocator.allocate(&one, &ANY).expect("room");
            allocator.free(next).expect("freed once");
        }
        assert_eq!(
            watch.seen().given.len(),
            2,
            "the block that comes and goes is kept"
        );
        let before = watch.seen().bytes();
        assert!(allocator.trim(u64::MAX) > 0 && watch.seen().bytes() < before);
        free_all(allocator, full);
        allocator.trim(u64::MAX);
        assert_eq!(watch.seen().live.len(), 0);
    });
    with(
        machine,
        MemoryOptions {
            keep_empty: Some(0),
            ..small(MIB, MIB)
        },
        |allocator, watch| {
            let next = allocator
                .allocate(&ResourceRequirements::new(EACH, 256), &ANY)
                .expect("room");
            allocator.free(next).expect("freed once");
            assert_eq!(watch.seen().live.len(), 0, "nothing is kept");
        },
    );
    Unseen::new()
}

pub(super) fn too_large(machine: &dyn Machine) -> Unseen {
    with(machine, MemoryOptions::default(), |allocator, watch| {
        let device = watch.properties();
        let heap = device
            .heaps
            .iter()
            .map(|heap| heap.size)
            .max()
            .expect("a heap");
        for size in [heap + 1, u64::MAX - 15, u64::MAX] {
            let refused = allocator.allocate(&ResourceRequirements::new(size, 256), &ANY);
            assert!(
                matches!(refused, Err(GpuError::TooLarge { bytes, .. }) if bytes == size),
                "{size}: {refused:?}"
            );
        }
        assert_eq!(
            (watch.seen().given.len(), watch.seen().refused.len()),
            (0, 0),
            "the driver was not asked"
        );
    });
    Unseen::new()
}

pub(super) fn budget(machine: &dyn Machine) -> Unseen {
    let mut told = [HeapBudget::default(); 16];
    if !machine.device().budget(&mut told) {
        with(machine, MemoryOptions::default(), |allocator, _| {
            assert!(!allocator.set_frame(1), "nothing is told")
        });
        return vec!["budget"];
    }
    with(machine, MemoryOptions::default(), |allocator, watch| {
        assert!(allocator.set_frame(1));
        let device = watch.properties();
        let own = device
            .heaps
            .iter()
            .enumerate()
            .filter(|(_, heap)| heap.is_device_local());
        let (heap, facts) = own
            .max_by_key(|(_, heap)| heap.size)
            .expect("a heap of the device's own");
        let left = told[heap].budget.saturating_sub(told[heap].usage);
        let kinds = (0u32..).zip(device.types);
        let bits = kinds
            .filter(|(_, kind)| kind.heap_index as usize == heap)
            .fold(0, |bits, (index, _)| bits | 1 << index);
        // Not one that fills what is left exactly.
        let size = (facts.size / 20).min(device.limits.max_memory_allocation_size) & !0xffff;
        let own = RegionOptions {
            within_budget: true,
            dedicated: DedicatedPolicy::Required,
            ..ANY
        };
        let mut regions = Vec::new();
        let error = loop {
            match allocator.allocate(
                &ResourceRequirements::new(size, 256).memory_types(bits),
                &own,
            ) {
                Ok(region) => regions.push(region),
                Err(error) => break error,
            }
        };
        println!(
            "  {} times {} MiB of a budget of {} MiB, then {error:?}",
            regions.len(),
            size >> 20,
            left >> 20
        );
        assert!(
            matches!(error, GpuError::Limit(Limit::Heap { heap: which, .. }) if which as usize == heap),
            "{error:?}"
        );
        assert!(
            watch.seen().bytes() <= left
                && watch.seen().bytes() + size > left / 2
                && watch.seen().refused.is_empty()
        );
        free_all(allocator, regions);
    });
    Unseen::new()
}

pub(super) fn fall_through(machine: &dyn Machine) -> Unseen {
    let device = machine.device().properties();
    let wish = MemoryPreference::default().preferring(PropertyFlags::DEVICE_LOCAL);
    let ordinary =
        |kind: &&gpu_suballoc::memory_type::MemoryType| (kind.properties & SPECIAL).is_empty();
    let best = gpu_suballoc::memory_type::choose_memory_type(device.types, u32::MAX, wish)
        .expect("some type");
    let heap = device.types[best as usize].heap_index;
    if device
        .types
        .iter()
        .filter(ordinary)
        .all(|kind| kind.heap_index == heap)
    {
        return vec!["type fall-through"];
    }
    let mut options = small(MIB / 4, MIB);
    options.heap_limits[heap as usize] = MIB;
    with(machine, options, |allocator, watch| {
        let one = ResourceRequirements::new(65_536, 256);
        let regions: Vec<_> = (0..64)
            .map(|_| {
                allocator
                    .allocate(&one, &ANY.preference(wish))
                    .expect("another heap has room")
            })
            .collect();
        let in_best = regions
            .iter()
            .filter(|region| region.memory_type() == Some(best))
            .count();
        assert!(
            (12..=16).contains(&in_best),
            "{in_best} of the type that is best"
        );
        assert!(watch.seen().heap_peaks[heap as usize] <= MIB);
        free_all(allocator, regions);
    });
    Unseen::new()
}

pub(super) fn custom(machine: &dyn Machine) -> Unseen {
    with(machine, MemoryOptions::default(), |allocator, watch| {
        let bounds = PoolOptions {
            block_size: Some(MIB),
            min_blocks: 1,
            max_blocks: 2,
            ..PoolOptions::new(0)
        };
        let pool = allocator.create_pool(&bounds).expect("room");
        assert_eq!((watch.seen().live.len(), watch.seen().bytes()), (1, MIB));
        let (regions, error) = fill(allocator, 128 << 10, &ANY.pool(pool));
        assert!(
            matches!(error, GpuError::Limit(Limit::Blocks { limit: 2 })),
            "{error:?}"
        );
        assert_eq!((regions.len(), watch.seen().peak_objects), (16, 2));
        assert!(regions.iter().all(|region| region.memory_type() == Some(0)));
        assert!(allocator.destroy_pool(pool).is_err(), "regions live in it");
        free_all(allocator, regions);
        allocator.trim(u64::MAX);
        assert_eq!(watch.seen().live.len(), 1, "its least is kept");
        allocator.destroy_pool(pool).expect("it is empty");
        assert_eq!(watch.seen().live.len(), 0);
        assert!(
            allocator
                .allocate(&ResourceRequirements::new(1, 1), &ANY.pool(pool))
                .is_err(),
            "it went"
        );
    });
    Unseen::new()
}
