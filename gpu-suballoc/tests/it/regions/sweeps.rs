//! Law 2: every request of host memory may be refused: an error, everything as before, and the next try succeeds.

use std::fmt::Debug;

use alloc_core::HostAllocator;
use debug_guard::{FailingAllocator, Fault as HostFault};
use gpu_suballoc::allocator::{Backing, WrapInfo};
use gpu_suballoc::{
    AllocatorOptions, BufferInfo, GpuAllocator, GpuError, ImageInfo, ImageUsage, Lifetime, Region,
};
use mock_device::MockProfile;
use testkit::{RecordingAllocator, Sweep, Swept};

use super::{COPIED, Foreign, Mock, VISIBLE, any, bytes, visible};

type Failing = FailingAllocator<RecordingAllocator>;
type OnFailing<'a> = GpuAllocator<&'a Mock, &'a dyn HostAllocator>;

/// What is taken, and what is given back at the end.
type Operation<'o> = &'o dyn Fn(&OnFailing<'_>, &Mock, &Region) -> Result<Vec<Region>, GpuError>;

/// Refuses each request of host memory that `operation` makes, with a region at hand.
fn host_sweep(name: &str, operation: Operation<'_>) -> Swept {
    let refuse =
        |host: &Failing, nth: Option<u64>| host.arm(nth.map_or(HostFault::Never, HostFault::Nth));
    let sweep = Sweep::new(
        |witness| FailingAllocator::new(witness, HostFault::Never),
        refuse,
    );
    // What records alone do leaves nothing at all; pools keep the tables that they had got for the next try.
    let sweep = if matches!(name, "wrap" | "crop" | "set_name") {
        sweep
    } else {
        sweep.keeping()
    };
    sweep.run(name, |trial| {
        let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
        let host: &dyn HostAllocator = trial.host();
        // SAFETY: as in `scene`.
        let gpu = unsafe { GpuAllocator::new(&mock, host, AllocatorOptions::default()) }.unwrap();
        let at_hand = gpu.allocate(&bytes(1000), &visible()).unwrap();
        let taken = trial.attempt(|| seen(&gpu, &mock), || operation(&gpu, &mock, &at_hand));
        taken
            .into_iter()
            .for_each(|region| gpu.free(region).unwrap());
        gpu.free(at_hand).unwrap();
        gpu.close().unwrap();
        assert!(mock.violations().is_empty(), "{}", mock.violations());
    })
}

fn seen(gpu: &OnFailing<'_>, mock: &Mock) -> impl PartialEq + Debug + use<> {
    // A block that was made on the way stays as an empty one, within the pool's budget for those.
    let gpu_suballoc::report::MemoryTotals {
        regions,
        region_bytes,
        wrapped,
        crops,
        ..
    } = gpu.stats().total;
    (
        regions,
        region_bytes,
        wrapped,
        crops,
        mock.live_counts().buffers,
        mock.live_counts().images,
    )
}

#[test]
fn h36_a_refused_wrap_leaks_nothing() {
    let swept = host_sweep("wrap", &|gpu, mock, _| {
        let foreign = Foreign::new(mock, 4096, 2);
        let backing = Backing {
            memory: foreign.memory,
            offset: 0,
            memory_size: 4096,
            properties: VISIBLE,
            mapped: None,
        };
        let info = WrapInfo::new(foreign.buffer, 64)
            .backing(backing)
            .name("planes");
        let region = gpu.wrap(&info)?;
        gpu.free(region).unwrap();
        Ok(Vec::new())
    });
    assert_eq!(swept.survived, 0);
    assert!(swept.failed >= 3, "facts, backing, name: {swept:?}");
}

#[test]
fn h49_a_refused_crop_holds_nothing() {
    let swept = host_sweep("crop", &|gpu, _, root| {
        let crop = gpu.crop(root, 8, 8, 8);
        assert_eq!(gpu.info(root.id()).unwrap().crops(), 1);
        Ok(vec![crop?])
    });
    assert_eq!(swept.requests, 0, "a slot was free: {swept:?}");
    // So many crops that slots for them are refused.
    let refused_crops = std::cell::Cell::new(0);
    let swept = host_sweep("crops of a wrapped buffer", &|gpu, mock, _| {
        let foreign = Foreign::new(mock, 4096, 2);
        let root = gpu.wrap(&WrapInfo::new(foreign.buffer, 64))?;
        let mut crops = Vec::new();
        let end = loop {
            match gpu.crop(&root, 0, 8, 8) {
                Ok(crop) => crops.push(crop),
                Err(error) => break Err(error),
            }
            if crops.len() == 200 {
                break Ok(Vec::new());
            }
        };
        refused_crops.set(refused_crops.get() + u32::from(end.is_err()));
        assert_eq!(
            gpu.info(root.id()).unwrap().crops() as usize,
            crops.len(),
            "a refused one does not count"
        );
        let mut root = Some(root);
        for crop in crops {
            let held = gpu.detach(root.take().unwrap()).unwrap_err();
            assert_eq!(held.error, gpu_suballoc::GpuMisuse::HasCrops.into());
            root = Some(held.value);
            gpu.free(crop).unwrap();
        }
        gpu.detach(root.unwrap()).unwrap();
        end
    });
    assert!(
        swept.failed > 1 && swept.survived == 0 && refused_crops.get() > 1,
        "{swept:?}"
    );
}

#[test]
fn every_host_refusal_of_a_creation_is_undone() {
    let buffer = |lifetime| {
        move |gpu: &OnFailing<'_>, _: &Mock, _: &Region| {
            Ok(vec![gpu.create_buffer(
                &BufferInfo::new(3000, COPIED),
                &any().lifetime(lifetime).name("a buffer"),
            )?])
        }
    };
    for lifetime in [Lifetime::Transient, Lifetime::Unknown, Lifetime::Persistent] {
        let swept = host_sweep("create_buffer", &buffer(lifetime));
        assert!(swept.failed > 0, "{lifetime:?}: {swept:?}");
    }
    let swept = host_sweep("create_image", &|gpu, _, _| {
        Ok(vec![gpu.create_image(
            &ImageInfo::new_2d(37, 32, 32, ImageUsage::SAMPLED),
            &any().name("an image"),
        )?])
    });
    assert!(swept.failed > 0, "{swept:?}");
    let swept = host_sweep("allocate, named", &|gpu, _, _| {
        Ok(vec![gpu.allocate(&bytes(100), &any().name("bare"))?])
    });
    assert!(swept.failed > 0, "{swept:?}");
    let swept = host_sweep("map", &|gpu, _, region| {
        drop(gpu.map(region)?);
        Ok(Vec::new())
    });
    assert_eq!(swept.requests, 0, "its slot counts the mapping: {swept:?}");
    let swept = host_sweep("set_name", &|gpu, _, region| {
        gpu.set_name(region, &any().name("late"))?;
        assert_eq!(gpu.info(region.id()).unwrap().name(), "late");
        Ok(Vec::new())
    });
    assert!(swept.failed > 0, "{swept:?}");
}

#[test]
fn freeing_takes_no_memory() {
    nvidia_with_refusing_host(|gpu, host, mock| {
        let foreign = Foreign::new(mock, 4096, 1);
        let make = || {
            let owned = gpu
                .create_buffer(&BufferInfo::new(500, COPIED), &any().name("owned"))
                .unwrap();
            let wrapped = gpu
                .wrap(&WrapInfo::new(foreign.buffer, 64).name("wrapped"))
                .unwrap();
            let crops = [
                gpu.crop(&owned, 0, 4, 4).unwrap(),
                gpu.crop(&wrapped, 0, 4, 4).unwrap(),
            ];
            let kept = gpu
                .create_buffer(&BufferInfo::new(600, COPIED), &any())
                .unwrap();
            let bare = gpu.allocate(&bytes(77), &any()).unwrap();
            let batch = [Some(gpu.allocate(&bytes(78), &any()).unwrap()), None];
            (owned, wrapped, crops, kept, bare, batch)
        };
        let (owned, wrapped, [first, second], kept, bare, mut batch) = make();
        host.arm(HostFault::From(0));
        gpu.release(kept).unwrap();
        gpu.free_when_unused(owned).unwrap();
        gpu.free(first).unwrap();
        gpu.detach(second).unwrap();
        gpu.detach(wrapped).unwrap();
        gpu.free_id(bare.id()).unwrap();
        gpu.free_batch(&mut batch).unwrap();
        gpu.trim(u64::MAX);
        assert!(
            gpu.allocate(&bytes(100), &any().name("x")).is_err(),
            "a refusal would have been met"
        );
        host.arm(HostFault::Never);
        assert_eq!(gpu.stats().total.regions, 0);
    });
}

fn nvidia_with_refusing_host(body: impl FnOnce(&GpuAllocator<&Mock, &Failing>, &Failing, &Mock)) {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let host = FailingAllocator::new(RecordingAllocator::system(), HostFault::Never);
    // SAFETY: as in `scene`.
    let gpu = unsafe { GpuAllocator::new(&mock, &host, AllocatorOptions::default()) }.unwrap();
    body(&gpu, &host, &mock);
    gpu.close().unwrap();
    assert!(mock.violations().is_empty(), "{}", mock.violations());
}
