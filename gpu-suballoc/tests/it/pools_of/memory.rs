//! Memory: which type, what goes along to the driver, maps, flushes, bytes.

use std::sync::Barrier;

use gpu_suballoc::device::{ExternalHandleTypes, ResourceHandle};
use gpu_suballoc::pool::{MapPolicy, MemoryOptions};
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    BufferInfo, ImageInfo, ImageUsage, MemoryPreference, PoolOptions, PropertyFlags, RegionOptions,
    ResourceKind, ResourceRequirements,
};

use super::*;

const ANY: RegionOptions<'static> = RegionOptions::new();

pub(super) fn types(machine: &dyn Machine) -> Unseen {
    with(machine, MemoryOptions::default(), |allocator, watch| {
        let device = watch.properties();
        let has = |region: &Region| {
            device.types[region.memory_type().expect("it has memory") as usize].properties
        };
        let one = ResourceRequirements::new(1024, 256);
        for required in [PropertyFlags::DEVICE_LOCAL, PropertyFlags::HOST_VISIBLE] {
            let region = allocator
                .allocate(&one, &ANY.preference(MemoryPreference::requiring(required)))
                .expect("every device has it");
            assert!(has(&region).contains(required));
            allocator.free(region).expect("freed once");
        }
        let hidden = MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL)
            .avoiding(PropertyFlags::HOST_VISIBLE);
        let region = allocator
            .allocate(&one, &ANY.preference(hidden))
            .expect("avoiding refuses nothing");
        let could = device.types.iter().any(|kind| {
            kind.properties.contains(PropertyFlags::DEVICE_LOCAL)
                && !kind.properties.contains(PropertyFlags::HOST_VISIBLE)
                && (kind.properties & SPECIAL).is_empty()
        });
        assert_eq!(has(&region).contains(PropertyFlags::HOST_VISIBLE), !could);
        allocator.free(region).expect("freed once");
        // Only what the resource accepts.
        for index in (0u32..)
            .zip(device.types)
            .filter(|(_, kind)| (kind.properties & SPECIAL).is_empty())
            .map(|(index, _)| index)
        {
            let region = allocator
                .allocate(&one.memory_types(1 << index), &ANY)
                .expect("room");
            assert_eq!(region.memory_type(), Some(index));
            allocator.free(region).expect("freed once");
        }
        let none = allocator.allocate(&one.memory_types(0), &ANY);
        assert!(
            matches!(none, Err(gpu_suballoc::GpuError::MemoryType(_))),
            "{none:?}"
        );
    });
    Unseen::new()
}

pub(super) fn granularity(machine: &dyn Machine) -> Unseen {
    with(machine, MemoryOptions::default(), |allocator, watch| {
        let page = watch.properties().limits.buffer_image_granularity;
        let mixed = PoolOptions {
            kind: ResourceKind::Unknown,
            ..PoolOptions::new(0)
        };
        let pool = allocator.create_pool(&mixed).expect("room");
        for options in [ANY, ANY.pool(pool)] {
            let kinds = [ResourceKind::Linear, ResourceKind::Optimal];
            let mut regions = Vec::new();
            for turn in 0..60u64 {
                let kind = kinds[(turn * turn % 3 % 2) as usize];
                let one = ResourceRequirements::new(700 + turn * 13, 16).memory_types(1);
                regions.push((
                    kind,
                    allocator
                        .allocate(&one, &RegionOptions { kind, ..options })
                        .expect("room"),
                ));
                if turn % 7 == 6 {
                    let (_, gone) = regions.swap_remove((turn / 2) as usize % regions.len());
                    allocator.free(gone).expect("freed once");
                }
            }
            for (at, (kind, one)) in regions.iter().enumerate() {
                for (other_kind, other) in &regions[..at] {
                    if one.memory() != other.memory() {
                        continue;
                    }
                    let (first, last) = if one.offset() < other.offset() {
                        (one, other)
                    } else {
                        (other, one)
                    };
                    let end = first.offset() + first.size();
                    assert!(end <= last.offset(), "two regions share bytes");
                    assert!(
                        kind == other_kind || (end - 1) / page < last.offset() / page,
                        "pages of {page} are shared"
                    );
                }
            }
            free_all(allocator, regions.into_iter().map(|(_, region)| region));
        }
        allocator.destroy_pool(pool).expect("it is empty");
    });
    Unseen::new()
}

pub(super) fn chains(machine: &dyn Machine) -> Unseen {
    let mut unseen = Unseen::new();
    let features = machine.device().properties().features;
    with(machine, MemoryOptions::default(), |allocator, watch| {
        let own = RegionOptions {
            dedicated: DedicatedPolicy::Required,
            ..ANY
        };
        let info = BufferInfo::new(100_000, COPIED);
        let region = allocator.create_buffer(&info, &own).expect("room");
        let last =
            |watch: &Watch<'_>| *watch.seen().given.last().expect("a memory object was made");
        let handle = region.buffer().expect("it is a buffer");
        if features.dedicated_allocation {
            assert_eq!(last(watch).dedicated, Some(ResourceHandle::Buffer(handle)));
            assert_eq!(
                last(watch).size,
                // SAFETY: live.
                unsafe { watch.buffer_requirements(handle) }.size
            );
        } else {
            unseen.push("dedicated");
        }
        let image = ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED | ImageUsage::TRANSFER_DST);
        let texture = allocator.create_image(&image, &own).expect("room");
        if features.dedicated_allocation {
            assert_eq!(
                last(watch).dedicated,
                texture.image().map(ResourceHandle::Image)
            );
        }
        let never = RegionOptions {
            dedicated: DedicatedPolicy::Never,
            ..ANY
        };
        let shared = allocator.create_image(&image, &never).expect("room");
        assert!(
            last(watch).dedicated.is_none() && last(watch).size > shared.size(),
            "it lies in a block"
        );
        free_all(allocator, [region, texture, shared]);

        if features.memory_priority {
            let urgent = allocator
                .create_buffer(
                    &info,
                    &RegionOptions {
                        priority: Some(0.75),
                        ..own
                    },
                )
                .expect("room");
            assert_eq!(last(watch).priority, Some(0.75));
            allocator.free(urgent).expect("freed once");
        } else {
            unseen.push("priority");
        }
        if features.external_memory {
            let export = ExternalHandleTypes::OPAQUE_FD;
            let info = BufferInfo {
                external: export,
                ..BufferInfo::new(65_536, COPIED)
            };
            let shared = allocator
                .create_buffer(&info, &RegionOptions { export, ..ANY })
                .expect("room");
            assert_eq!(last(watch).export, export);
            allocator.free(shared).expect("freed once");
        } else {
            unseen.push("export");
        }
    });
    unseen
}

pub(super) fn addresses(machine: &dyn Machine) -> Unseen {
    if !machine.device().properties().features.buffer_device_address {
        return vec!["device address"];
    }
    with(machine, MemoryOptions::default(), |allocator, watch| {
        let info = BufferInfo::new(4096, COPIED | BufferUsage::SHADER_DEVICE_ADDRESS);
        let regions = [(); 2].map(|()| allocator.create_buffer(&info, &ANY).expect("room"));
        let [one, two] = [&regions[0], &regions[1]].map(|region| {
            // SAFETY: live, bound, with the usage.
            let address = unsafe { watch.buffer_address(region.buffer().expect("it is a buffer")) };
            (
                address.expect("it has one").get(),
                region.offset(),
                region.memory(),
            )
        });
        assert_eq!(one.2, two.2, "two small buffers share a block");
        assert_eq!(
            one.0.wrapping_sub(two.0),
            one.1.wrapping_sub(two.1),
            "addresses are as far apart as offsets"
        );
        free_all(allocator, regions);
    });
    Unseen::new()
}

pub(super) fn maps(machine: &dyn Machine) -> Unseen {
    const BYTES: usize = 1000;
    for policy in [MapPolicy::Persistent, MapPolicy::Counted] {
        with(
            machine,
            MemoryOptions {
                map_policy: policy,
                ..MemoryOptions::default()
            },
            |allocator, watch| {
                let one = ResourceRequirements::new(BYTES as u64, 16);
                let regions = [(); 2].map(|()| allocator.allocate(&one, &VISIBLE).expect("room"));
                assert_eq!(
                    regions[0].memory(),
                    regions[1].memory(),
                    "two small regions share a block"
                );
                let barrier = Barrier::new(2);
                std::thread::scope(|scope| {
                    for (number, region) in (1u8..).zip(&regions) {
                        let barrier = &barrier;
                        scope.spawn(move || {
                            for turn in 0..50u8 {
                                let mapping = allocator.map(region).expect("it is visible");
                                barrier.wait();
                                // SAFETY: mapped, so many bytes, and the region is this thread's alone.
                                unsafe { mapping.as_ptr().write_bytes(number ^ turn, BYTES) };
                                barrier.wait();
                                for at in [0, BYTES - 1] {
                                    assert_eq!(
                                        // SAFETY: as above.
                                        unsafe { mapping.as_ptr().wrapping_add(at).read() },
                                        number ^ turn
                                    );
                                }
                            }
                        });
                    }
                });
                let (maps, unmaps) = (watch.seen().maps, watch.seen().unmaps);
                match policy {
                    MapPolicy::Persistent => assert_eq!((maps, unmaps), (1, 0)),
                    MapPolicy::Counted => assert!(
                        maps == unmaps && (1..=100).contains(&maps),
                        "{maps} maps, {unmaps} unmaps"
                    ),
                }
                free_all(allocator, regions);
            },
        );
    }
    Unseen::new()
}

pub(super) fn flushes(machine: &dyn Machine) -> Unseen {
    let device = machine.device().properties();
    let visible = (0u32..).zip(device.types).filter(|(_, kind)| {
        kind.properties.contains(PropertyFlags::HOST_VISIBLE)
            && (kind.properties & SPECIAL).is_empty()
    });
    let mut unseen = vec!["non-coherent"];
    for (index, kind) in visible {
        let coherent = kind.properties.contains(PropertyFlags::HOST_COHERENT);
        with(machine, MemoryOptions::default(), |allocator, watch| {
            let atom = watch.properties().limits.non_coherent_atom_size;
            let one = ResourceRequirements::new(1000, 1).memory_types(1 << index);
            let regions = [(); 3].map(|()| allocator.allocate(&one, &VISIBLE).expect("room"));
            let region = &regions[1];
            let mapping = allocator.map(region).expect("it is visible");
            allocator.flush(region, 3, 10).expect("within the region");
            allocator
                .invalidate(region, 700, 300)
                .expect("within the region");
            assert!(
                allocator.flush(region, region.size(), 1).is_err(),
                "past the end"
            );
            let seen = watch.seen();
            if coherent {
                assert_eq!(
                    (seen.flushed.len(), seen.invalidated.len()),
                    (0, 0),
                    "coherent memory needs none"
                );
            } else {
                let [flushed, invalidated] = [seen.flushed[0], seen.invalidated[0]];
                for (range, from, to) in [(flushed, 3, 13), (invalidated, 700, 1000)] {
                    assert!(
                        range.offset.is_multiple_of(atom) && range.size.is_multiple_of(atom),
                        "{range:?}"
                    );
                    let whole = region.size().next_multiple_of(256);
                    let (start, end) = (region.offset(), region.offset() + whole);
                    assert!(
                        range.offset >= start && range.offset + range.size <= end,
                        "{range:?} leaves {start}..{end}"
                    );
                    assert!(
                        range.offset <= start + from && range.offset + range.size >= start + to,
                        "{range:?}"
                    );
                }
            }
            drop(mapping);
            free_all(allocator, regions);
        });
        if !coherent {
            unseen.clear();
        }
    }
    unseen
}

pub(super) fn bytes(machine: &dyn Machine) -> Unseen {
    let pattern = |at: u64| (at * 7 % 251) as u8;
    with(machine, MemoryOptions::default(), |allocator, _| {
        let whole = BufferInfo::new(10_000, COPIED);
        let source = allocator.create_buffer(&whole, &VISIBLE).expect("room");
        let target = allocator.create_buffer(&whole, &VISIBLE).expect("room");
        let deep = ANY.preference(
            MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL)
                .avoiding(PropertyFlags::HOST_VISIBLE),
        );
        let middle = allocator.create_buffer(&whole, &deep).expect("room");
        let put = allocator.map(&source).expect("it is visible");
        for at in 0..10_000u64 {
            // SAFETY: mapped, 10 000 bytes, nobody else writes.
            unsafe { put.as_ptr().wrapping_add(at as usize).write(pattern(at)) };
        }
        allocator.flush(&source, 0, 10_000).expect("mapped");
        drop(put);
        // Three deep: 4 + 12 + 36 bytes in.
        let one = allocator.crop(&source, 4, 9000, 4).expect("within");
        let two = allocator.crop(&one, 12, 8000, 4).expect("within");
        let three = allocator.crop(&two, 36, 4000, 4).expect("within");
        let handle = |region: &Region| region.buffer().expect("it has a buffer");
        assert_eq!((three.copy_offset(), handle(&three)), (52, handle(&source)));
        machine.copy(&[
            (
                handle(&three),
                three.copy_offset(),
                handle(&middle),
                middle.copy_offset() + 100,
                4000,
            ),
            (
                handle(&middle),
                middle.copy_offset() + 100,
                handle(&target),
                target.copy_offset() + 8,
                4000,
            ),
        ]);
        let got = allocator.map(&target).expect("it is visible");
        allocator.invalidate(&target, 0, 10_000).expect("mapped");
        for at in 0..4000u64 {
            assert_eq!(
                // SAFETY: mapped, 10 000 bytes, the copies are done.
                unsafe { got.as_ptr().wrapping_add(8 + at as usize).read() },
                pattern(52 + at),
                "byte {at}"
            );
        }
        drop(got);
        free_all(allocator, [three, two, one, source, target, middle]);
    });
    Unseen::new()
}
