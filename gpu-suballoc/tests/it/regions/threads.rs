//! One allocator, many threads.

use std::sync::Mutex;
use std::thread;

use gpu_suballoc::allocator::{
    Defragmentation, DefragmentationOptions, DefragmentationPass, Mapping, WrapInfo,
};
use gpu_suballoc::{BufferInfo, GpuAllocator, GpuMisuse, Lifetime, Region, RegionId};
use testkit::{RecordingAllocator, Rng};

use super::{COPIED, Mock, any, bytes, nvidia};

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
        let mapping = s.gpu.map(&region).expect("visible");
        let mut run = s
            .gpu
            .defragment(DefragmentationOptions::new())
            .expect("memory");
        thread::scope(|scope| {
            scope.spawn(move || {
                drop(mapping);
                let moves = run.next_pass().expect("memory").moves().len();
                assert_eq!(moves, 0, "one region, which may stay");
            });
        });
        s.free(region);
    });
}

/// Everything at once, regions handed between threads, and nothing lost, doubled or overlapping.
#[test]
fn everything_at_once_from_four_threads() {
    nvidia(|s| {
        let foreign = s.foreign(1 << 16, 1);
        let shared: Mutex<Vec<Region>> = Mutex::new(Vec::new());
        let turns = if cfg!(debug_assertions) { 1500 } else { 20_000 };
        thread::scope(|scope| {
            for seed in 0..4u64 {
                let (gpu, shared, buffer) = (s.gpu, &shared, foreign.buffer);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    for _ in 0..turns {
                        let lifetime =
                            [Lifetime::Transient, Lifetime::Unknown, Lifetime::Persistent]
                                [rng.below(3) as usize];
                        let options = any().lifetime(lifetime);
                        let mut new = Vec::new();
                        match rng.below(8) {
                            0 => new.push(
                                gpu.create_buffer(
                                    &BufferInfo::new(1 + rng.below(5000), COPIED),
                                    &options,
                                )
                                .unwrap(),
                            ),
                            1 => new.push(
                                gpu.allocate(&bytes(1 + rng.below(100_000)), &options)
                                    .unwrap(),
                            ),
                            2 => {
                                new.push(gpu.allocate(&bytes(64), &options.name("named")).unwrap())
                            }
                            3 => new.push(gpu.wrap(&WrapInfo::new(buffer, 1 << 16)).unwrap()),
                            4 => {
                                // Of a region that another thread may take meanwhile: it is held under the lock.
                                let shared = shared.lock().unwrap();
                                if let Some(root) = shared.last() {
                                    new.push(gpu.crop(root, 0, 1, 1).unwrap());
                                }
                            }
                            5 => {
                                gpu.trim(rng.below(1 << 20));
                            }
                            _ => {
                                let taken = {
                                    let mut shared = shared.lock().unwrap();
                                    if shared.is_empty() {
                                        None
                                    } else {
                                        let n = rng.below(shared.len() as u64) as usize;
                                        Some(shared.swap_remove(n))
                                    }
                                };
                                let Some(region) = taken else { continue };
                                let result = match rng.below(3) {
                                    0 => gpu.release(region),
                                    1 => gpu.free_when_unused(region),
                                    _ => gpu.free(region),
                                };
                                if let Err(refused) = result {
                                    assert!(
                                        matches!(
                                            refused.error,
                                            gpu_suballoc::GpuError::Misuse(
                                                GpuMisuse::HasCrops | GpuMisuse::IsWrapped
                                            )
                                        ),
                                        "{refused}"
                                    );
                                    new.push(refused.value);
                                }
                            }
                        }
                        shared.lock().unwrap().append(&mut new);
                    }
                });
            }
        });
        let left = shared.into_inner().unwrap();
        let (crops, roots): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|region| region.ownership() == gpu_suballoc::region::Ownership::CropAlias);
        crops
            .into_iter()
            .chain(roots)
            .for_each(|region| s.free(region));
        s.gpu.set_reuse(false);
        let total = s.gpu.stats().total;
        assert_eq!(
            (
                total.regions,
                total.region_bytes,
                total.crops,
                total.wrapped
            ),
            (0, 0, 0, 0)
        );
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
