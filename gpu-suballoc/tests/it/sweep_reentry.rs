//! Law 2 with a device that calls back: each request of the host allocator is refused once, those that the calls from within make among
//! them. What is refused inside is no reason to fail outside, and the other way round; nothing is lost either way.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use crate::region_model::subject::again::{Again, How, TIMES};
use alloc_core::FromGlobalAlloc;
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::pool::MapPolicy;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AllocatorOptions, BufferInfo, BufferUsage, GpuAllocator, GpuError, MemoryPreference,
    PoolOptions, PropertyFlags, Region, RegionOptions, ResourceRequirements,
};
use mock_device::{MockDevice, MockProfile};
use testkit::{Counted, RecordingAllocator, Sweep};

type Host = Counted<FailingAllocator<RecordingAllocator>>;
type Mock = MockDevice<FromGlobalAlloc<std::alloc::System>>;
type Gpu = GpuAllocator<&'static Mock, &'static Host>;

/// Something to do: what it leaves is freed afterwards.
type Operation = fn(&'static Gpu) -> Result<Vec<Region>, GpuError>;

fn needs() -> ResourceRequirements {
    ResourceRequirements::new(5000, 16)
}

fn visible() -> RegionOptions<'static> {
    RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
}

fn allocate(gpu: &Gpu, options: &RegionOptions<'_>) -> Result<Vec<Region>, GpuError> {
    Ok(vec![gpu.allocate(&needs(), options)?])
}

/// With the region, or without it.
fn and<T>(
    gpu: &Gpu,
    mut regions: Vec<Region>,
    then: impl FnOnce(&Region) -> Result<T, GpuError>,
) -> Result<Vec<Region>, GpuError> {
    match then(&regions[0]) {
        Ok(_) => Ok(regions),
        Err(error) => {
            gpu.free(regions.remove(0)).expect("live");
            Err(error)
        }
    }
}

const OPERATIONS: [(&str, Operation); 8] = [
    ("general", |gpu| allocate(gpu, &RegionOptions::new())),
    ("dedicated", |gpu| {
        allocate(
            gpu,
            &RegionOptions::new().dedicated(DedicatedPolicy::Required),
        )
    }),
    ("named", |gpu| {
        allocate(gpu, &RegionOptions::new().name("a name"))
    }),
    ("buffer", |gpu| {
        Ok(vec![gpu.create_buffer(
            &BufferInfo::new(5000, BufferUsage::TRANSFER_SRC),
            &RegionOptions::new(),
        )?])
    }),
    ("map", |gpu| {
        and(gpu, allocate(gpu, &visible())?, |region| {
            gpu.map(region).map(drop)
        })
    }),
    ("crop", |gpu| {
        and(gpu, allocate(gpu, &visible())?, |region| {
            let crop = gpu.crop(region, 0, 16, 1)?;
            gpu.free(crop).map_err(GpuError::from)
        })
    }),
    ("pool", |gpu| {
        let options = PoolOptions {
            min_blocks: 2,
            block_size: Some(1 << 16),
            ..PoolOptions::new(1)
        };
        gpu.destroy_pool(gpu.create_pool(&options)?)?;
        Ok(Vec::new())
    }),
    ("picture", |gpu| {
        and(gpu, allocate(gpu, &visible())?, |_| {
            gpu.memory_map().map(drop)
        })
    }),
];

#[test]
fn each_request_refused_alone_while_the_device_reenters() {
    // What is done at the first call: map, a buffer, by its id, a look.
    for ((name, operation), first) in OPERATIONS
        .into_iter()
        .flat_map(|one| [3, 5, 6, 8].map(|first| (one, first)))
    {
        let before = TIMES.load(Relaxed);
        let sweep = Sweep::new(
            |witness| FailingAllocator::new(witness, Fault::Never),
            |host: &FailingAllocator<RecordingAllocator>, n: Option<u64>| {
                host.arm(n.map_or(Fault::Never, Fault::Nth))
            },
        );
        let swept = sweep.keeping().run(name, |trial| {
            let mock: &'static Mock = Box::leak(Box::new(MockDevice::new(
                MockProfile::Nvidia,
                FromGlobalAlloc::SYSTEM,
            )));
            // SAFETY: the allocator is closed before the trial, which has the host, ends.
            let host: &'static Host = unsafe { NonNull::from(trial.host()).as_ref() };
            let mut options = AllocatorOptions::default();
            options.memory.map_policy = MapPolicy::Counted;
            // SAFETY: what is asked here is valid.
            let gpu = unsafe { GpuAllocator::new(mock, host, options) }
                .map_err(|refused| refused.error)
                .expect("sound");
            let gpu = Box::new(gpu);
            // SAFETY: on the heap until it is closed, and the device calls back no more by then.
            let there: &'static Gpu = unsafe { NonNull::from(&*gpu).as_ref() };
            let again: &'static Again<_, _> =
                Box::leak(Box::new(Again::new(there, How::Clean(first))));
            mock.set_hook(Some(Box::leak(Box::new(move |call| again.at(call)))));
            let observe = || {
                let total = there.stats().total;
                (total.regions, total.crops, mock.live_counts().buffers)
            };
            let left = trial.attempt(observe, || operation(there));
            left.into_iter()
                .for_each(|region| there.free(region).expect("live"));
            mock.set_hook(None);
            (*gpu)
                .close()
                .map_err(|refused| refused.error)
                .expect("everything was given back");
            assert!(
                mock.violations().is_empty() && mock.live_counts().memory == 0,
                "{}",
                mock.violations()
            );
        });
        assert!(swept.requests > 0 && swept.failed > 0, "{name}: {swept:?}");
        assert!(TIMES.load(Relaxed) > before, "{name}: nobody called back");
        println!(
            "{name}: {swept:?}, called back {} times",
            TIMES.load(Relaxed) - before
        );
    }
}
