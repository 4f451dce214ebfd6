//! Totals, pictures, leaks, JSON.

use gpu_suballoc::report::MemoryTotals;
use gpu_suballoc::{PoolOptions, RegionOptions};
use testkit::{MemoryUse, Sink, Stage};

use super::facade::{needs, over, seen};
use super::{GpuOperation, operation};

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(
            &["GpuAllocator::memory_map"],
            "of a named region and a crop",
            MemoryUse::Memory,
            |stage| {
                over(stage, |_, allocator| {
                    let named = allocator
                        .allocate(&needs(5000), &RegionOptions::new().name("its name"))
                        .expect("refused nothing");
                    let crop = allocator.crop(&named, 0, 16, 16).expect("refused nothing");
                    let picture = stage.attempt(|| seen::<S>(allocator), || allocator.memory_map());
                    assert_eq!(picture.leaks().count(), 2);
                    drop(picture);
                    [crop, named]
                        .into_iter()
                        .for_each(|region| allocator.free(region).expect("live"));
                })
            },
        ),
        operation(
            &[
                "GpuAllocator::pool_stats",
                "GpuAllocator::stats",
                "GpuAllocator::write_json",
                "MemoryMap::blocks",
                "MemoryMap::crops",
                "MemoryMap::crops_of",
                "MemoryMap::blocks_with_ranges",
                "MemoryMap::leaks",
                "RegionLeak::size",
                "MemoryMap::name",
            ],
            "of a picture that was taken",
            MemoryUse::Nothing("what is asked stands in the picture"),
            |stage| {
                over(stage, |_, allocator| {
                    let region = allocator
                        .allocate(&needs(5000), &RegionOptions::new().name("its name"))
                        .expect("refused nothing");
                    let crop = allocator.crop(&region, 0, 16, 16).expect("refused nothing");
                    let pool = allocator
                        .create_pool(&PoolOptions::new(1))
                        .expect("refused nothing");
                    let picture = allocator.memory_map().expect("refused nothing");
                    stage.attempt_plainly(|| {
                        assert_eq!(allocator.pool_stats(pool), Ok(MemoryTotals::default()));
                        assert_eq!(
                            (
                                allocator.stats().total.regions,
                                allocator.stats().total.crops
                            ),
                            (1, 1)
                        );
                        let range = picture
                            .blocks_with_ranges()
                            .flat_map(|(_, ranges)| ranges)
                            .find(|range| range.id == Some(region.id()))
                            .expect("drawn");
                        assert_eq!(picture.name(range), Some("its name"));
                        assert_eq!(
                            (picture.crops().len(), picture.crops_of(region.id()).count()),
                            (1, 1)
                        );
                        assert_eq!(
                            (picture.name(&picture.crops()[0]), picture.leaks().count()),
                            (None, 2)
                        );
                        assert_eq!(picture.blocks_with_ranges().count(), picture.blocks().len());
                        let mut sink = Sink::default();
                        allocator
                            .write_json(&picture, &mut sink)
                            .expect("the sink takes all");
                        assert!(sink.bytes > 100);
                    });
                    drop(picture);
                    allocator.destroy_pool(pool).expect("empty");
                    [crop, region]
                        .into_iter()
                        .for_each(|region| allocator.free(region).expect("live"));
                })
            },
        ),
    ]
}
