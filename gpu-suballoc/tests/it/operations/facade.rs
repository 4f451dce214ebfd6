//! Allocators, bare regions, pools.

use alloc_core::FromGlobalAlloc;
use gpu_suballoc::report::MemoryTotals;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AllocatorOptions, DeviceMemory, GpuAllocator, GpuMisuse, Lifetime, MemoryPreference,
    PoolOptions, PropertyFlags, Region, RegionOptions, ResourceRequirements,
};
use mock_device::{MockDevice, MockProfile};
use testkit::{MemoryUse, Stage};

use super::driver_heap::DriverHeap;
use super::{GpuOperation, operation};

pub(super) type Mock = MockDevice<&'static FromGlobalAlloc<DriverHeap>>;
pub(super) type Over<'s, S> = GpuAllocator<&'s Mock, &'s <S as Stage>::Host>;

// SAFETY: the system's heap, whose blocks outlive every value.
static DRIVER: FromGlobalAlloc<DriverHeap> = unsafe { FromGlobalAlloc::new(DriverHeap) };

/// Its own memory is what a driver's would be: not the stage's.
pub(super) fn mock() -> Mock {
    MockDevice::new(MockProfile::IntelUma, &DRIVER)
}

pub(super) fn allocator<'s, S: Stage>(stage: &'s S, mock: &'s Mock) -> Over<'s, S> {
    // SAFETY: what is asked here is valid.
    unsafe { GpuAllocator::new(mock, stage.host(), AllocatorOptions::default()) }
        .map_err(|refused| refused.error)
        .expect("sound")
}

/// What a refusal must leave as it was. A block that was made for it may stay, empty and counted, as empty blocks do: the next try has it.
pub(super) fn seen<S: Stage>(allocator: &Over<'_, S>) -> impl PartialEq + std::fmt::Debug + use<S> {
    let (total, live) = (allocator.stats().total, allocator.device().live_counts());
    assert_eq!((total.blocks, total.block_bytes), (live.memory, live.bytes));
    (
        MemoryTotals {
            blocks: 0,
            block_bytes: 0,
            empty_bytes: 0,
            largest_free_bound: 0,
            ..total
        },
        live.buffers,
        live.images,
    )
}

pub(super) fn needs(size: u64) -> ResourceRequirements {
    ResourceRequirements::new(size, 256)
}

/// Everything back, and nothing wrong.
pub(super) fn end<S: Stage>(allocator: Over<'_, S>) {
    let (mock, _) = allocator
        .close()
        .map_err(|refused| refused.error)
        .expect("everything was given back");
    assert!(
        mock.violations().is_empty() && mock.live_counts().memory == 0,
        "{}",
        mock.violations()
    );
}

/// Runs `run` with an allocator over a device, of which everything is given back.
pub(super) fn over<S: Stage>(stage: &S, run: impl FnOnce(&Mock, &Over<'_, S>)) {
    let mock = mock();
    let allocator = allocator(stage, &mock);
    run(&mock, &allocator);
    end::<S>(allocator);
}

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    let mut all: Vec<GpuOperation<S>> = vec![
        operation(&["GpuAllocator::reserve"], "", MemoryUse::Memory, |stage| {
            over(stage, |_, allocator| {
                let make = || allocator.reserve(1 << 20, u32::MAX, &RegionOptions::new());
                stage.attempt(|| seen::<S>(allocator), make);
                assert!(allocator.stats().total.block_bytes >= 1 << 20);
            })
        }),
        operation(
            &[
                "GpuAllocator::new",
                "GpuAllocator::close",
                "GpuAllocator::device",
                "GpuAllocator::host_bytes",
            ],
            "",
            MemoryUse::Memory,
            |stage| {
                let mock = mock();
                let make = || {
                    // SAFETY: what is asked here is valid.
                    let made = unsafe {
                        GpuAllocator::new(&mock, stage.host(), AllocatorOptions::default())
                    };
                    made.map_err(|refused| refused.error)
                };
                let allocator: Over<'_, S> = stage.attempt(|| mock.live_counts(), make);
                assert!(allocator.host_bytes() > 0 && allocator.device().live_counts().memory == 0);
                end::<S>(allocator);
            },
        ),
        operation(
            &["GpuAllocator::check_corruption"],
            "of one margin",
            MemoryUse::Memory,
            |stage| {
                let mock = mock();
                let mut options = AllocatorOptions::default();
                options.memory.margin = 16;
                // SAFETY: what is asked here is valid.
                let made = unsafe { GpuAllocator::new(&mock, stage.host(), options) };
                let allocator = made.map_err(|refused| refused.error).expect("sound");
                let options = RegionOptions::new()
                    .preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
                let region = allocator.allocate(&needs(500), &options).expect("room");
                let seen = || allocator.stats().total;
                let checked = stage.attempt(seen, || allocator.check_corruption(|_| ()));
                assert_eq!(checked, 1);
                allocator.free(region).expect("nobody wrote there");
                end::<S>(allocator);
            },
        ),
        operation(
            &[
                "GpuAllocator::free",
                "GpuAllocator::free_id",
                "GpuAllocator::free_when_unused",
                "GpuAllocator::free_batch",
                "GpuAllocator::trim",
                "GpuAllocator::set_frame",
                "GpuAllocator::info",
                "Region::buffer",
                "Region::copy_offset",
                "Region::id",
                "Region::image",
                "Region::memory",
                "Region::memory_type",
                "Region::offset",
                "Region::ownership",
                "Region::size",
                "RegionInfo::crops",
                "RegionInfo::maps",
                "RegionInfo::name",
                "RegionInfo::site",
                "RegionInfo::tag",
            ],
            "of regions of each class",
            MemoryUse::Nothing("freeing takes no memory"),
            |stage| {
                over(stage, |_, allocator| {
                    let mut regions = all_classes(allocator).map(Some);
                    stage.attempt_plainly(|| {
                        for region in regions.iter().flatten() {
                            let info = allocator.info(region.id()).expect("live");
                            assert_eq!(
                                (info.memory, info.offset, info.size),
                                (region.memory(), region.offset(), region.size())
                            );
                            assert_eq!(
                                (region.buffer(), region.image(), region.copy_offset()),
                                (None, None, 0)
                            );
                            assert_eq!(
                                (info.ownership, info.memory_type),
                                (region.ownership(), region.memory_type())
                            );
                            assert_eq!(
                                (
                                    info.name(),
                                    info.tag(),
                                    info.site(),
                                    info.crops(),
                                    info.maps()
                                ),
                                ("", 0, 0, 0, 0)
                            );
                        }
                        allocator.set_frame(1);
                        let [first, second, third, ..] = &mut regions;
                        let id = first.as_ref().expect("there").id();
                        allocator.free(first.take().expect("there")).expect("live");
                        assert_eq!(allocator.free_id(id).err(), Some(GpuMisuse::Stale.into()));
                        allocator
                            .free_id(second.take().expect("there").id())
                            .expect("live");
                        allocator
                            .free_when_unused(third.take().expect("there"))
                            .expect("live");
                        allocator.free_batch(&mut regions).expect("live");
                        assert!(allocator.trim(u64::MAX) > 0);
                    });
                })
            },
        ),
        operation(
            &["GpuAllocator::create_pool"],
            "",
            MemoryUse::Memory,
            |stage| {
                over(stage, |_, allocator| {
                    let options = PoolOptions {
                        min_blocks: 1,
                        block_size: Some(1 << 16),
                        ..PoolOptions::new(1)
                    };
                    let pool =
                        stage.attempt(|| seen::<S>(allocator), || allocator.create_pool(&options));
                    let region = allocator
                        .allocate(&needs(256), &RegionOptions::new().pool(pool))
                        .expect("refused nothing");
                    allocator.free(region).expect("live");
                    allocator.destroy_pool(pool).expect("empty");
                })
            },
        ),
        operation(
            &["GpuAllocator::destroy_pool", "GpuAllocator::abandon"],
            "in use, and not; then the device is lost",
            MemoryUse::Nothing("what there is goes back"),
            |stage| {
                let mock = mock();
                let allocator = allocator(stage, &mock);
                let pools = [(); 2].map(|()| {
                    allocator
                        .create_pool(&PoolOptions::new(1))
                        .expect("refused nothing")
                });
                let _left = allocator
                    .allocate(&needs(256), &RegionOptions::new().pool(pools[0]))
                    .expect("refused nothing");
                stage.attempt_plainly(|| {
                    assert_eq!(
                        allocator.destroy_pool(pools[0]).err(),
                        Some(GpuMisuse::PoolInUse.into())
                    );
                    allocator.destroy_pool(pools[1]).expect("empty");
                });
                mock.lose_device();
                let calls = mock.all_calls();
                let _ = allocator.abandon();
                assert_eq!(mock.all_calls(), calls, "an abandoned device is not called");
            },
        ),
    ];
    all.extend(taking());
    all
}

/// Each way to take a bare region, the first of its kind.
fn taking<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(
            &["GpuAllocator::allocate"],
            "general",
            MemoryUse::Memory,
            |stage| take(stage, 5000, RegionOptions::new()),
        ),
        operation(
            &["GpuAllocator::allocate"],
            "dedicated",
            MemoryUse::Memory,
            |stage| {
                take(
                    stage,
                    5000,
                    RegionOptions::new().dedicated(DedicatedPolicy::Required),
                )
            },
        ),
        operation(
            &["GpuAllocator::allocate"],
            "with a name",
            MemoryUse::Memory,
            |stage| take(stage, 5000, RegionOptions::new().name("the name")),
        ),
        operation(
            &["GpuAllocator::allocate_at"],
            "with a name",
            MemoryUse::Memory,
            |stage| {
                over(stage, |_, allocator| {
                    let pool = PoolOptions {
                        min_blocks: 1,
                        ..PoolOptions::new(0)
                    };
                    let pool = allocator.create_pool(&pool).expect("refused nothing");
                    let options = RegionOptions::new().pool(pool).name("the name");
                    let place = || allocator.allocate_at(0, 8192, &needs(5000), &options);
                    let region = stage.attempt(|| seen::<S>(allocator), place);
                    assert_eq!(region.offset(), 8192);
                    allocator.free(region).expect("live");
                })
            },
        ),
        operation(
            &["GpuAllocator::allocate_batch"],
            "of 40",
            MemoryUse::Memory,
            |stage| {
                over(stage, |_, allocator| {
                    let mut regions = [const { None }; 40];
                    stage.attempt(
                        || seen::<S>(allocator),
                        || {
                            allocator.allocate_batch(
                                &needs(5000),
                                &RegionOptions::new(),
                                &mut regions,
                            )
                        },
                    );
                    allocator.free_batch(&mut regions).expect("live");
                })
            },
        ),
    ]
}

fn take<S: Stage>(stage: &S, size: u64, options: RegionOptions<'static>) {
    over(stage, |_, allocator| {
        let region = stage.attempt(
            || seen::<S>(allocator),
            || allocator.allocate(&needs(size), &options),
        );
        assert!(region.size() >= size);
        allocator.free(region).expect("live");
    });
}

/// One region of each class, and some more.
fn all_classes<D: DeviceMemory, A: alloc_core::HostAllocator>(
    allocator: &GpuAllocator<D, A>,
) -> [Region; 8] {
    let options = [
        RegionOptions::new(),
        RegionOptions::new().lifetime(Lifetime::Transient),
        RegionOptions::new().lifetime(Lifetime::Persistent),
        RegionOptions::new().dedicated(DedicatedPolicy::Required),
    ];
    let take = |index: usize| {
        allocator
            .allocate(&needs(500), &options[index % 4])
            .expect("refused nothing")
    };
    [0, 1, 2, 3, 4, 5, 6, 7].map(take)
}
