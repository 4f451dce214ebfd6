//! One allocator, many threads.

use super::*;

#[test]
fn the_allocator_and_its_regions_cross_threads() {
    fn both<T: Send + Sync>() {}
    both::<GpuAllocator<&Mock, RecordingAllocator>>();
    both::<Region>();
    both::<RegionId>();
    both::<Mapping<'_, &Mock, RecordingAllocator>>();
    both::<Defragmentation<'_, &Mock, RecordingAllocator>>();
    both::<DefragmentationPass<'_, '_, &Mock, RecordingAllocator>>();
}

/// A mapping and a run are begun on one thread and ended on another.
#[test]
fn mappings_and_defragmentations_end_on_other_threads() {
    nvidia(|s| {
        let region = s.visible_buffer(64);
        let mapping = s.gpu.map(&region).unwrap();
        let mut run = s.gpu.defragment(DefragmentationOptions::new()).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                drop(mapping);
                let moves = run.next_pass().unwrap().moves().len();
                assert_eq!(moves, 0, "one region, which may stay");
            });
        });
        s.free(region);
    });
}

/// Ids of one region raced by two threads: exactly one gives it back.
#[test]
fn an_id_is_freed_once_whoever_is_first() {
    nvidia(|s| {
        let ids: Vec<RegionId> = (0..2000)
            .map(|n| {
                let options = any();
                let region = if n % 2 == 0 {
                    s.gpu.allocate(&bytes(300), &options)
                } else {
                    s.gpu.create_buffer(&BufferInfo::new(300, COPIED), &options)
                };
                region.unwrap().id()
            })
            .collect();
        let freed: u64 = thread::scope(|scope| {
            let racers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        ids.iter().filter(|id| s.gpu.free_id(**id).is_ok()).count() as u64
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        assert_eq!(freed, 2000);
    });
}
