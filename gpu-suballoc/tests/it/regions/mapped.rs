//! Regions that are mapped while they live.

use super::*;

fn with_policy(map_policy: MapPolicy) -> AllocatorOptions {
    with_memory(MemoryOptions { map_policy, ..MemoryOptions::default() })
}

#[test]
fn di1_what_the_host_cannot_see_has_no_pointer() {
    nvidia(|s| {
        let own = MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL).avoiding(PropertyFlags::HOST_VISIBLE);
        let region = s.buffer_with(64, &any().preference(own).mapped());
        assert_eq!(region.mapped(), None);
        let refused = GpuError::MapUnsupported { reason: MapRefusal::NotHostVisible };
        assert_eq!(s.map(&region).unwrap_err(), refused);
        s.free(region);
        // A wrapped buffer has the application's pointer.
        let foreign = s.foreign(64, 1);
        let mut room = [0u64; 16];
        let backing = Backing {
            memory: foreign.memory,
            offset: 8,
            memory_size: 4096,
            properties: VISIBLE,
            mapped: Some(NonNull::from(&mut room).cast()),
        };
        for backing in [None, Some(backing)] {
            let mut info = WrapInfo::new(foreign.buffer, 32).offset(16);
            info.backing = backing;
            let wrapped = s.must_wrap(&info);
            let want = backing.map(|_| room.as_mut_ptr().cast::<u8>().wrapping_add(24));
            assert_eq!(wrapped.mapped().map(NonNull::as_ptr), want);
            assert_eq!(wrapped.memory_properties(), backing.map(|_| VISIBLE));
            let info = s.must_info(wrapped.id());
            assert_eq!((info.memory_size, info.reserved), (backing.map(|_| 4096), 32));
            s.free(wrapped);
        }
    });
}

/// A block that the driver does not map leads to a memory object of the region's own, and then to a refusal without
/// traces.
#[test]
fn di1_a_map_that_is_refused_is_tried_with_an_object_of_its_own() {
    for custom in [false, true] {
        nvidia(|s| {
            let first = s.take(64, &visible());
            let pool = custom.then(|| s.pool(first.memory_type().unwrap()));
            let mut options = visible().mapped();
            options.pool = pool;
            let map = |times| MockFault::nth(1).of(Map).times(times);
            s.mock.plant(map(if custom { 1 } else { 2 }));
            let own = s.take(64, &options);
            assert!(own.is_dedicated() && own.mapped().is_some());
            s.mock.clear_faults();
            s.mock.plant(map(100));
            s.trim(u64::MAX);
            let (objects, regions) = (s.objects(), s.total().regions);
            let refused = s.allocate(&bytes(64), &options);
            assert_eq!(refused.unwrap_err(), GpuError::Device(MapFailed));
            s.trim(u64::MAX);
            assert_eq!(s.objects(), objects);
            assert_eq!(s.total().regions, regions);
            s.mock.clear_faults();
            s.free(own);
            s.free(first);
            pool.into_iter().for_each(|pool| s.must_destroy_pool(pool));
        });
    }
}

/// A kept buffer is reused for a request that maps as it did.
#[test]
fn di1_a_kept_buffer_stays_mapped() {
    for policy in [MapPolicy::Persistent, MapPolicy::Counted] {
        scene(Nvidia, with_policy(policy), |s| {
            let kept = s.buffer_with(1000, &visible().mapped());
            let (first, buffer) = (kept.mapped(), kept.buffer());
            s.release(kept).unwrap();
            let other = s.buffer_with(1000, &visible());
            assert_eq!(other.mapped(), None);
            assert_ne!(other.buffer(), buffer, "that one is mapped");
            let again = s.buffer_with(1000, &visible().mapped());
            assert_eq!((again.mapped(), again.buffer()), (first, buffer));
            s.release(again).unwrap();
            s.set_reuse(false);
            assert_eq!(s.mock.calls(Unmap), u64::from(policy == MapPolicy::Counted));
            s.free(other);
        });
    }
}
