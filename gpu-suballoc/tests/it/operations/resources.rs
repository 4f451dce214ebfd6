//! Buffers, images, wrapped buffers, crops, mappings.

use gpu_suballoc::allocator::{Backing, DescriptorUse, WrapInfo};
use gpu_suballoc::device::{BufferHandle, MemoryHandle};
use gpu_suballoc::{
    BufferInfo, BufferUsage, GpuMisuse, ImageInfo, ImageUsage, MemoryPreference, PropertyFlags,
    Region, RegionOptions,
};
use testkit::{MemoryUse, Stage};

use super::facade::{Mock, Over, needs, over, seen};
use super::{GpuOperation, operation};

fn info(size: u64) -> BufferInfo {
    BufferInfo::new(
        size,
        BufferUsage::TRANSFER_DST | BufferUsage::STORAGE_BUFFER,
    )
}

fn visible() -> RegionOptions<'static> {
    RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
}

fn buffer<S: Stage>(allocator: &Over<'_, S>) -> Region {
    allocator
        .create_buffer(&info(5000), &visible())
        .expect("refused nothing")
}

/// A number that no device of these tests gave.
fn foreign() -> Option<BufferHandle> {
    BufferHandle::from_raw(0x7777)
}

/// Where that buffer lies.
fn its_memory() -> Backing {
    Backing {
        memory: MemoryHandle::from_raw(0x8888).expect("not 0"),
        offset: 0,
        memory_size: 4096,
        properties: PropertyFlags::NONE,
        mapped: None,
    }
}

/// Takes something in an attempt, gives it back, ends.
fn one<S: Stage>(
    stage: &S,
    taking: impl Fn(&Over<'_, S>) -> Result<Region, gpu_suballoc::GpuError>,
) {
    over(stage, |_, allocator| {
        let region = stage.attempt(|| seen::<S>(allocator), || taking(allocator));
        allocator.free(region).expect("live");
    });
}

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    let mut all: Vec<GpuOperation<S>> = vec![
        operation(
            &["GpuAllocator::create_buffer"],
            "",
            MemoryUse::Memory,
            |stage| {
                one(stage, |allocator| {
                    allocator.create_buffer(&info(5000), &RegionOptions::new())
                })
            },
        ),
        operation(
            &["GpuAllocator::create_image"],
            "",
            MemoryUse::Memory,
            |stage| {
                let image = ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED);
                one(stage, |allocator| {
                    allocator.create_image(&image, &RegionOptions::new())
                });
            },
        ),
        operation(
            &["GpuAllocator::wrap", "WrapInfo::new"],
            "",
            MemoryUse::Memory,
            |stage| {
                one(stage, |allocator| {
                    allocator.wrap(
                        &WrapInfo::new(foreign(), 100)
                            .offset(4)
                            .name("its")
                            .backing(its_memory()),
                    )
                })
            },
        ),
        operation(
            &["GpuAllocator::ensure_buffer"],
            "a larger one",
            MemoryUse::Memory,
            |stage| {
                over(stage, |_, allocator| {
                    let mut region = Some(buffer::<S>(allocator));
                    let larger = stage.attempt(
                        || seen::<S>(allocator),
                        || {
                            let old = region.take().expect("given back when it is refused");
                            allocator
                                .ensure_buffer(old, &info(16 << 20), &visible())
                                .map_err(|refused| {
                                    region = Some(refused.value);
                                    refused.error
                                })
                        },
                    );
                    assert!(larger.size() >= 16 << 20);
                    allocator.free(larger).expect("live");
                })
            },
        ),
        operation(
            &["GpuAllocator::release", "GpuAllocator::set_reuse"],
            "and the next buffer is the one kept",
            MemoryUse::Nothing("room for what is kept is made with the buffer"),
            |stage| {
                over(stage, |mock, allocator| {
                    let first = buffer::<S>(allocator);
                    let (handle, id) = (first.buffer(), first.id());
                    stage.attempt_plainly({
                        let mut first = Some(first);
                        let allocator = &allocator;
                        move || {
                            allocator
                                .release(first.take().expect("once"))
                                .expect("live")
                        }
                    });
                    let second = buffer::<S>(allocator);
                    assert_eq!(second.buffer(), handle, "kept");
                    assert_ne!(second.id(), id, "and renamed");
                    assert_eq!(allocator.free_id(id).err(), Some(GpuMisuse::Stale.into()));
                    allocator.release(second).expect("live");
                    assert!(allocator.set_reuse(false));
                    assert_eq!(mock.live_counts().buffers, 0);
                })
            },
        ),
    ];
    all.extend(of_a_buffer());
    all
}

/// Something is taken of a buffer that is there.
fn with_buffer<S: Stage>(stage: &S, taking: impl Fn(&Over<'_, S>, &Mock, &Region)) {
    over(stage, |mock, allocator| {
        let whole = buffer::<S>(allocator);
        taking(allocator, mock, &whole);
        allocator.free(whole).expect("nothing holds it any more");
    });
}

fn of_a_buffer<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(
            &[
                "GpuAllocator::crop",
                "GpuAllocator::crop_signed",
                "GpuAllocator::crop_id",
            ],
            "the first, and two more of it",
            MemoryUse::Memory,
            |stage| {
                with_buffer(stage, |allocator, _, whole| {
                    let crop = stage.attempt(
                        || seen::<S>(allocator),
                        || many_crops::<S>(allocator, whole),
                    );
                    let other = allocator.crop_signed(&crop, 4, 8, 4).expect("room");
                    let third = allocator.crop_id(other.id(), 4, 4, 4).expect("room");
                    assert_eq!(third.copy_offset(), 16);
                    for crop in [third, other, crop] {
                        allocator.free(crop).expect("live");
                    }
                });
            },
        ),
        operation(
            &["GpuAllocator::set_name"],
            "a long one",
            MemoryUse::Memory,
            |stage| {
                with_buffer(stage, |allocator, _, whole| {
                    let long = "a name that does not fit into a few bytes of a record, so that it needs a block of its own";
                    let rename = || allocator.set_name(whole, &RegionOptions::new().name(long));
                    stage.attempt(
                        || allocator.info(whole.id()).map(|info| info.name().len()),
                        rename,
                    );
                    assert_eq!(
                        allocator.info(whole.id()).map(|info| info.name() == long),
                        Ok(true)
                    );
                });
            },
        ),
        operation(
            &[
                "GpuAllocator::map",
                "Mapping::as_ptr",
                "Mapping::len",
                "GpuAllocator::flush",
                "GpuAllocator::invalidate",
            ],
            "of a bare region",
            MemoryUse::Nothing("its slot was made with it"),
            |stage| {
                over(stage, |_, allocator| {
                    let region = allocator
                        .allocate(&needs(5000), &visible())
                        .expect("refused nothing");
                    let mapping = stage.attempt(|| seen::<S>(allocator), || allocator.map(&region));
                    assert!(!mapping.as_ptr().is_null() && mapping.len() as u64 == region.size());
                    allocator.flush(&region, 0, 100).expect("mapped");
                    allocator.invalidate(&region, 0, 100).expect("mapped");
                    drop(mapping);
                    allocator.free(region).expect("live");
                })
            },
        ),
        operation(
            &[
                "GpuAllocator::map_id",
                "GpuAllocator::unmap_id",
                "GpuAllocator::flush_id",
                "GpuAllocator::invalidate_id",
                "GpuAllocator::detach",
                "GpuAllocator::descriptor",
            ],
            "of a buffer",
            MemoryUse::Nothing("it was made with the buffer"),
            |stage| {
                with_buffer(stage, |allocator, mock, whole| {
                    let (memory, offset) = mock
                        .buffer_bound(whole.buffer().expect("made"))
                        .expect("bound");
                    let found = mock.memory(memory).expect("live").request;
                    let backing = Backing {
                        memory,
                        offset,
                        memory_size: found.size,
                        properties: PropertyFlags::NONE,
                        mapped: None,
                    };
                    let wrapped = allocator
                        .wrap(
                            &WrapInfo::new(whole.buffer(), 64)
                                .backing(backing)
                                .buffer_size(64)
                                .tag(1),
                        )
                        .expect("refused nothing");
                    let mut wrapped = Some(wrapped);
                    stage.attempt_plainly(|| {
                        allocator.map_id(whole.id()).expect("visible");
                        allocator.flush_id(whole.id(), 0, 8).expect("mapped");
                        allocator.invalidate_id(whole.id(), 0, 8).expect("mapped");
                        allocator.unmap_id(whole.id()).expect("mapped");
                        let found = allocator
                            .descriptor(whole, 4, DescriptorUse::Storage)
                            .expect("a buffer");
                        assert_eq!((found.offset, found.index), (0, 0));
                        let region = wrapped.take().expect("once");
                        assert!(
                            allocator.map(&region).is_err(),
                            "it was said not to be visible"
                        );
                        allocator.detach(region).expect("wrapped");
                    });
                });
            },
        ),
    ]
}

/// Enough that their records need more memory than there is; the last one is handed out.
fn many_crops<S: Stage>(
    allocator: &Over<'_, S>,
    whole: &Region,
) -> Result<Region, gpu_suballoc::GpuError> {
    let mut kept = [const { None }; 300];
    let mut result = allocator.crop(whole, 8, 16, 4);
    for place in &mut kept {
        match result {
            Ok(crop) => *place = Some(crop),
            Err(_) => break,
        }
        result = allocator.crop(whole, 8, 16, 4);
    }
    for crop in kept.into_iter().flatten() {
        allocator.free(crop).expect("live");
    }
    result
}
