//! Law 2: every call of the device may fail: an error or a way round it, everything as before, and the next try succeeds.

use gpu_suballoc::device::DeviceError;
use gpu_suballoc::report::MemoryTotals;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    BufferInfo, GpuError, ImageInfo, ImageUsage, MemoryPreference, PoolOptions, PropertyFlags,
    Region, RegionOptions,
};
use mock_device::{MockFault, MockProfile};

use super::{AllocatorOptions, COPIED, Scene, any, bytes, scene};

type OnScene<'o> = &'o dyn Fn(&Scene<'_>) -> Result<Vec<Region>, GpuError>;

/// On every profile; coherent memory the tiler does not have.
fn seen_by_host() -> RegionOptions<'static> {
    any().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
}

/// A region of which something is asked that may be refused: then it goes, and the refusal is what is told.
fn or_free(
    s: &Scene<'_>,
    region: Region,
    asked: Result<(), GpuError>,
) -> Result<Vec<Region>, GpuError> {
    match asked {
        Ok(()) => Ok(vec![region]),
        Err(error) => {
            s.free(region);
            Err(error)
        }
    }
}

#[test]
fn h86_h107_every_device_refusal_is_undone() {
    let bare = |s: &Scene<'_>, options: RegionOptions<'_>| {
        s.gpu.allocate(&bytes(5000), &options).map(|one| vec![one])
    };
    let operations: [(&str, OnScene<'_>); 9] = [
        ("create_buffer", &|s| {
            s.gpu
                .create_buffer(&BufferInfo::new(30_000, COPIED), &any())
                .map(|one| vec![one])
        }),
        ("create_image", &|s| {
            s.gpu
                .create_image(&ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED), &any())
                .map(|one| vec![one])
        }),
        ("a large buffer", &|s| {
            s.gpu
                .create_buffer(&BufferInfo::new(300 << 20, COPIED), &seen_by_host())
                .map(|one| vec![one])
        }),
        ("a bare region", &|s| bare(s, seen_by_host())),
        ("a dedicated one", &|s| {
            bare(
                s,
                RegionOptions {
                    dedicated: DedicatedPolicy::Required,
                    ..any()
                },
            )
        }),
        ("a batch", &|s| {
            let mut out = [const { None }; 40];
            // More than one block holds, on most devices.
            s.gpu
                .allocate_batch(&bytes(1 << 20), &seen_by_host(), &mut out)?;
            Ok(out.into_iter().flatten().collect())
        }),
        ("ensure_buffer", &|s| {
            let region = s.gpu.create_buffer(&BufferInfo::new(64, COPIED), &any())?;
            s.gpu
                .ensure_buffer(region, &BufferInfo::new(128, COPIED), &any())
                .map(|one| vec![one])
                .map_err(|refused| {
                    s.free(refused.value);
                    refused.error
                })
        }),
        ("a pool", &|s| {
            let pool = s.gpu.create_pool(&PoolOptions {
                min_blocks: 2,
                block_size: Some(1 << 16),
                ..PoolOptions::new(0)
            })?;
            let region = s.gpu.allocate(&bytes(64), &any().pool(pool));
            if let Ok(region) = region {
                s.free(region);
            }
            s.gpu.destroy_pool(pool)?;
            Ok(Vec::new())
        }),
        ("map and flush", &|s| {
            let region = s
                .gpu
                .create_buffer(&BufferInfo::new(64, COPIED), &seen_by_host())?;
            let asked = s
                .gpu
                .map(&region)
                .and_then(|_mapping| s.gpu.flush(&region, 0, 64));
            or_free(s, region, asked)
        }),
    ];
    let mut refused = [0; 9];
    for profile in MockProfile::ALL {
        for ((name, operation), refused) in operations.iter().zip(&mut refused) {
            for error in [
                DeviceError::OutOfDeviceMemory,
                DeviceError::OutOfHostMemory,
                DeviceError::TooManyObjects,
            ] {
                // The n-th call alone, which an allocator often gets over, and all from there on.
                for times in [1, u64::MAX] {
                    let of_all = (1..).map(|nth| {
                        attempt(
                            profile,
                            *operation,
                            MockFault::nth(nth).times(times).with(error),
                            nth,
                        )
                    });
                    *refused += of_all
                        .take_while(|(met, _)| *met)
                        .filter(|(_, refused)| *refused)
                        .count();
                }
            }
            println!("{name} on {}: {refused} refusals so far", profile.name());
        }
    }
    assert!(refused.iter().all(|refused| *refused > 0), "{refused:?}");
}

/// One operation with one fault, which strikes at the `nth` call: whether it was met, and whether the operation was refused for it.
fn attempt(
    profile: MockProfile,
    operation: OnScene<'_>,
    fault: MockFault,
    nth: u64,
) -> (bool, bool) {
    let (mut met, mut was_refused) = (false, false);
    scene(profile, AllocatorOptions::default(), |s| {
        let keep = s.buffer(100);
        let seen = || {
            let MemoryTotals {
                regions,
                region_bytes,
                wrapped,
                crops,
                ..
            } = s.gpu.stats().total;
            (
                regions,
                region_bytes,
                wrapped,
                crops,
                s.mock.live_counts().buffers,
                s.mock.live_counts().images,
            )
        };
        let (before, calls) = (seen(), s.mock.calls_that_can_fail());
        assert!(s.mock.plant(fault));
        let result = operation(&s);
        met = s.mock.calls_that_can_fail() - calls >= nth;
        s.mock.clear_faults();
        was_refused = result.is_err();
        let regions = result.unwrap_or_else(|refused| {
            assert!(met, "{profile:?}, {fault:?}: {refused}");
            assert_eq!(seen(), before, "{profile:?}, {fault:?}");
            operation(&s).expect("the next try succeeds")
        });
        regions.into_iter().for_each(|region| s.free(region));
        s.free(keep);
    });
    (met, was_refused)
}
