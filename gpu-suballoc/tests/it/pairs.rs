//! A host request and a device command refused within one call, ten thousand sampled pairs: an error or a way round it, never half of
//! what was asked for, and the next try succeeds.

use std::alloc::System;

use alloc_core::FromGlobalAlloc;
use debug_guard::{FailingAllocator, Fault as HostFault};
use gpu_suballoc::allocator::WrapInfo;
use gpu_suballoc::report::MemoryTotals;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AllocatorOptions, BufferInfo, BufferUsage, GpuAllocator, GpuError, ImageInfo, ImageUsage,
    MemoryPreference, PoolOptions, PropertyFlags, Region, RegionOptions, ResourceRequirements,
};
use mock_device::{MockDevice, MockFault, MockProfile};
use testkit::{RecordingAllocator, Rng};

type Mock = MockDevice<FromGlobalAlloc<System>>;
type Host = FailingAllocator<RecordingAllocator>;
type Over<'a> = GpuAllocator<&'a Mock, &'a Host>;

/// A way to ask, and how it goes back.
type Taking = fn(&Over<'_>, &Region) -> Result<Vec<Region>, GpuError>;

fn visible() -> RegionOptions<'static> {
    RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
}

fn needs(size: u64) -> ResourceRequirements {
    ResourceRequirements::new(size, 256)
}

fn one(region: Result<Region, GpuError>) -> Result<Vec<Region>, GpuError> {
    region.map(|region| vec![region])
}

const TAKING: [(&str, Taking); 11] = [
    ("general", |gpu, _| {
        one(gpu.allocate(&needs(5000), &RegionOptions::new()))
    }),
    ("large", |gpu, _| {
        one(gpu.allocate(&needs(20 << 20), &RegionOptions::new()))
    }),
    ("dedicated", |gpu, _| {
        one(gpu.allocate(
            &needs(5000),
            &RegionOptions::new().dedicated(DedicatedPolicy::Required),
        ))
    }),
    ("named", |gpu, _| {
        one(gpu.allocate(&needs(5000), &RegionOptions::new().name("a name")))
    }),
    ("batch", |gpu, _| {
        let mut out = [const { None }; 33];
        gpu.allocate_batch(&needs(5000), &RegionOptions::new(), &mut out)?;
        Ok(out.into_iter().flatten().collect())
    }),
    ("buffer", |gpu, _| {
        one(gpu.create_buffer(
            &BufferInfo::new(5000, BufferUsage::STORAGE_BUFFER),
            &RegionOptions::new(),
        ))
    }),
    ("image", |gpu, _| {
        one(gpu.create_image(
            &ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED),
            &RegionOptions::new(),
        ))
    }),
    ("wrap", |gpu, whole| {
        one(gpu.wrap(&WrapInfo::new(whole.buffer(), 64).name("the application's")))
    }),
    ("crop", |gpu, whole| one(gpu.crop(whole, 16, 32, 16))),
    ("map", |gpu, whole| {
        let mapping = gpu.map(whole)?;
        assert!(mapping.len() as u64 == whole.size());
        gpu.flush(whole, 0, 64)?;
        Ok(Vec::new())
    }),
    ("pool", |gpu, _| {
        let pool = gpu.create_pool(&PoolOptions {
            min_blocks: 1,
            block_size: Some(1 << 16),
            ..PoolOptions::new(0)
        })?;
        gpu.destroy_pool(pool)?;
        Ok(Vec::new())
    }),
];

/// What must not change: blocks may stay, empty and counted.
fn seen(gpu: &Over<'_>) -> (MemoryTotals, u64, u64) {
    let (total, live) = (gpu.stats().total, gpu.device().live_counts());
    assert_eq!(
        (total.blocks, total.block_bytes),
        (live.memory, live.bytes),
        "the sums are the device's"
    );
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

#[test]
fn ten_thousand_pairs_of_refusals() {
    let mut rng = Rng::new(3);
    let (mut refused, mut survived, mut both) = (0, 0, 0);
    for number in 0..10_000 {
        let profile = MockProfile::ALL[number % MockProfile::ALL.len()];
        let (name, taking) = TAKING[rng.below(TAKING.len() as u64) as usize];
        let mock = MockDevice::new(profile, FromGlobalAlloc::SYSTEM);
        let host = FailingAllocator::new(RecordingAllocator::system(), HostFault::Never);
        // SAFETY: what is asked here is valid.
        let gpu = unsafe { GpuAllocator::new(&mock, &host, AllocatorOptions::default()) };
        let gpu = gpu.map_err(|refused| refused.error).expect("sound options");
        let info = BufferInfo::new(5000, BufferUsage::STORAGE_BUFFER);
        let whole = gpu
            .create_buffer(&info, &visible())
            .expect("nothing is refused");
        let before = seen(&gpu);

        // Half of them begin with full tables, so that growth is refused as well.
        let warm = if number % 2 == 0 { 0 } else { rng.below(200) };
        let warm: Vec<Region> = (0..warm)
            .map(|_| gpu.crop(&whole, 0, 16, 16).expect("nothing is refused"))
            .collect();
        let begun = seen(&gpu);
        let (n, m) = (rng.below(10), rng.below(4));
        host.arm(HostFault::Nth(n));
        assert!(mock.plant(MockFault::nth(m + 1)));
        let calls = mock.calls_that_can_fail();
        let first = taking(&gpu, &whole);
        let (host_hit, device_hit) = (host.refused() > 0, mock.calls_that_can_fail() > calls + m);
        host.disarm();
        mock.clear_faults();
        let what = format!(
            "{name} on {}, host request {n} and device command {m}",
            profile.name()
        );
        let regions = match first {
            Ok(regions) => {
                survived += u32::from(host_hit || device_hit);
                regions
            }
            Err(error) => {
                assert!(
                    host_hit || device_hit,
                    "{what} fails although nothing was refused: {error:?}"
                );
                let ours = matches!(
                    error,
                    GpuError::Host(_) | GpuError::Device(_) | GpuError::Limit(_)
                );
                assert!(ours, "{what}: {error:?}");
                assert_eq!(seen(&gpu), begun, "{what}");
                refused += 1;
                taking(&gpu, &whole)
                    .unwrap_or_else(|error| panic!("{what}, the next try: {error:?}"))
            }
        };
        both += u32::from(host_hit && device_hit);
        regions
            .into_iter()
            .chain(warm)
            .for_each(|region| gpu.free(region).expect("live"));
        assert_eq!(
            seen(&gpu),
            before,
            "{what}, after everything was given back"
        );
        gpu.free(whole).expect("live");
        gpu.close()
            .map_err(|refused| refused.error)
            .expect("everything was given back");
        assert!(
            mock.violations().is_empty(),
            "{what}: {}",
            mock.violations()
        );
        assert_eq!(
            mock.live_counts(),
            mock_device::MockLiveCounts::default(),
            "{what}"
        );
        host.inner().assert_empty(&what);
    }
    println!("10000 pairs: {refused} errors, {survived} got over, {both} with both refused");
    assert!(refused > 2000 && survived > 100 && both > 20);
}
