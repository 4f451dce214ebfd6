//! One allocator, many threads.

use alloc_core::HostSource;

use super::*;

#[test]
fn i48_allocators_regions_and_groups_cross_threads() {
    fn both<T: Send + Sync>() {}
    #[allow(dead_code, reason = "that it compiles is the proof")]
    fn groups<T: GroupDevice + Send + Sync, A: HostSource + Send + Sync>() {
        both::<DeviceGroup<T, A>>();
    }
    both::<GpuAllocator<&Mock, RecordingAllocator>>();
    both::<Region>();
    both::<RegionId>();
    both::<Mapping<'_, &Mock, RecordingAllocator>>();
    both::<Defragmentation<'_, &Mock, RecordingAllocator>>();
    both::<DefragmentationPass<'_, '_, &Mock, RecordingAllocator>>();
}

/// Ids of one region raced by two threads: exactly one gives it back.
#[test]
fn an_id_is_freed_once_whoever_is_first() {
    nvidia(|s| {
        let ids: Vec<RegionId> = (0..2000)
            .map(|n| {
                let options = any();
                let region = if n % 2 == 0 {
                    s.allocate(&bytes(300), &options)
                } else {
                    s.create_buffer(&copied(300), &options)
                };
                region.unwrap().id()
            })
            .collect();
        let freed: u64 = thread::scope(|scope| {
            let racers = times(2, || scope.spawn(|| ids.iter().filter(|id| s.free_id(**id).is_ok()).count() as u64));
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        assert_eq!(freed, 2000);
    });
}
