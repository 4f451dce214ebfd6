//! An allocator that ends while regions live: its resources and its memory objects are freed, those of the application
//! are left alone.

use super::*;

type Host<'h> = &'h FailingAllocator<RecordingAllocator>;
type Ending<'m, 'h> = GpuAllocator<&'m Mock, Host<'h>>;

/// Regions of every kind, in every state in which an allocator can be left with them.
fn fill(gpu: &Ending<'_, '_>, foreign: &Foreign<'_>) {
    let info = copied(4096);
    let buffer = |options: RegionOptions<'_>| gpu.create_buffer(&info, &options).unwrap();
    let image = ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED);
    let _ = gpu.allocate(&bytes(100), &any()).unwrap();
    let _ = gpu.allocate(&bytes(100), &alone()).unwrap();
    let _ = gpu.create_image(&image, &any().name("image")).unwrap();
    let _ = buffer(alone());
    let transient = buffer(any().lifetime(Transient));
    gpu.release(buffer(any())).unwrap();

    let ring = PoolOptions { algorithm: Ring, ..PoolOptions::new(transient.memory_type().expect("its own memory")) };
    let ring = gpu.create_pool(&ring).unwrap();
    let _ = buffer(any().pool(ring));

    let cropped = buffer(any());
    let _ = gpu.crop(&cropped, 16, 16, 4).unwrap();
    gpu.free_when_unused(cropped).expect("waits");
    gpu.map_id(buffer(host()).id()).unwrap();
    std::mem::forget(gpu.map(&buffer(host())).unwrap());

    let backing = Backing {
        memory: foreign.memory,
        offset: 0,
        memory_size: foreign.size,
        properties: PropertyFlags::HOST_VISIBLE,
        mapped: None,
    };
    let wrap = WrapInfo::new(foreign.buffer, 64).backing(backing);
    for _ in 0..2 {
        let wrapped = gpu.wrap(&wrap.name("wrapped")).unwrap();
        let _ = gpu.crop(&wrapped, 0, 4, 4).unwrap();
        gpu.map_id(wrapped.id()).unwrap();
    }
}

#[test]
fn di4_an_allocator_that_ends_with_live_regions_frees_its_memory_and_allocates_nothing() {
    for profile in MockProfile::ALL {
        for name in ["dropped", "freed"] {
            let mock = Mock::new(profile);
            let host = FailingAllocator::new(RecordingAllocator::system(), Fault::Never);
            let foreign = Foreign::new(&mock, 4096, visible_type(&mock));
            let gpu = over(&mock, &host);
            fill(&gpu, &foreign);
            host.arm(Fault::From(0));
            let requests = host.requests();
            if name == "freed" {
                let _ = gpu.free_all();
            } else {
                drop(gpu);
            }
            assert_eq!(host.requests(), requests, "{profile:?} {name}");
            host.inner().assert_empty(name);
            let live = mock.live_counts();
            assert_eq!(
                (live.memory, live.buffers, live.images),
                (1, 1, 0),
                "{profile:?} {name}: the application's alone"
            );
            assert!(
                mock.memory(foreign.memory).unwrap().mapped.is_none(),
                "{profile:?} {name}: the application can map its memory again"
            );
            drop(foreign);
            // Also: no memory object was freed under a resource.
            assert!(mock.violations().is_empty(), "{name}: {}", mock.violations());
        }
    }
}

#[test]
fn di4_an_abandoned_allocator_calls_no_driver() {
    let mock = Mock::new(Nvidia);
    let host = FailingAllocator::new(RecordingAllocator::system(), Fault::Never);
    let foreign = Foreign::new(&mock, 4096, visible_type(&mock));
    let gpu = over(&mock, &host);
    fill(&gpu, &foreign);
    let calls = mock.all_calls();
    let _ = gpu.abandon();
    assert_eq!(mock.all_calls(), calls);
    assert_eq!(mock.calls(Free), 0);
    host.inner().assert_empty("by an abandoned allocator");
}
