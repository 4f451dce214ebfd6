//! A slab stays where one of its regions does; those that are freed meanwhile are free seats, wherever it lies then.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::slab_passes::{SMALL, Slabs, groups};
use super::*;
use gpu_suballoc::mock::{MockCall, MockFault};
use gpu_suballoc::{GpuMisuse, RegionId};

/// The regions of the largest slab of a pass, by id.
fn largest<D: DeviceMemory, A: alloc_core::HostAllocator>(
    pass: &DefragmentationPass<'_, '_, D, A>,
) -> (std::ops::Range<usize>, Vec<RegionId>) {
    let group = groups(pass).into_iter().max_by_key(|group| group.len());
    let group = group.expect("there are moves");
    let ids = pass.moves()[group.clone()].iter().map(|one| one.region());
    (group.clone(), ids.collect())
}

type Pass<'p, 'a, 'm> = DefragmentationPass<'p, 'a, &'m Mock, RecordingAllocator>;
type Spoil<'f> = &'f dyn Fn(&Scene<'_>, &mut Pass<'_, '_, '_>, usize) -> Option<Region>;

/// Plays one pass, in which `spoil` does something to a region of the largest slab: what became of that slab's regions.
fn spoilt(
    profile: MockProfile,
    options: RegionOptions<'static>,
    spoil: Spoil<'_>,
) -> Vec<MoveResult> {
    let mut results = Vec::new();
    scene(profile, small_blocks(), |scene| {
        let mut slabs = scene.slabs(40, options);
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        let (group, ids) = largest(&pass);
        copy(scene.mock, &mut pass);
        let kept = spoil(&scene, &mut pass, group.start + group.len() / 2);
        let buffers = scene.mock.live_counts().buffers;
        let moves = pass.moves().len();
        let mut others = Vec::new();
        pass.finish(|one, result| {
            if ids.contains(&one.region()) {
                results.push(result);
            } else {
                others.push(result);
            }
        });
        assert!(
            others.iter().all(|result| *result == MoveResult::Moved),
            "{others:?}"
        );
        assert_eq!(results.len() + others.len(), moves);
        let stays = results.contains(&MoveResult::Stayed);
        assert_eq!(run.totals().freed_blocks, u32::from(!stays), "{results:?}");
        drop(run);
        assert!(
            scene.mock.live_counts().buffers < buffers,
            "one of two is left"
        );
        slabs
            .small
            .retain(|(_, region)| scene.gpu.info(region.id()).is_ok());
        scene.check_slabs(&mut slabs);
        if let Some(kept) = kept {
            scene.free(kept);
        }
        // Another time it moves.
        slabs
            .small
            .retain(|(_, region)| scene.gpu.info(region.id()).is_ok());
        defragment(&scene, DefragmentationOptions::new());
        assert_eq!(scene.gpu.stats().total.blocks, 1);
        scene.end_slabs(slabs);
    });
    results
}

#[test]
fn df3_one_region_that_stays_keeps_its_slab() {
    let stays = |results: &[MoveResult]| {
        results.len() > 8 && results.iter().all(|result| *result == MoveResult::Stayed)
    };
    let results = spoilt(MockProfile::Nvidia, shared(), &|_, pass, at| {
        pass.set_outcome(at, MoveOutcome::Ignored).unwrap();
        None
    });
    assert!(stays(&results), "ignored: {results:?}");
    let results = spoilt(MockProfile::IntelUma, mappable(), &|scene, pass, at| {
        let id = pass.moves()[at].region();
        scene.gpu.map_id(id).unwrap();
        scene.gpu.unmap_id(id).unwrap();
        None
    });
    assert!(stays(&results), "mapped: {results:?}");
    let results = spoilt(MockProfile::Nvidia, shared(), &|scene, pass, at| {
        Some(
            scene
                .gpu
                .crop_id(pass.moves()[at].region(), 0, 16, 4)
                .unwrap(),
        )
    });
    assert!(stays(&results), "cropped: {results:?}");
    let results = spoilt(MockProfile::Nvidia, shared(), &|scene, pass, at| {
        // Destroyed, and used.
        pass.set_outcome(at, MoveOutcome::Destroyed).unwrap();
        Some(
            scene
                .gpu
                .crop_id(pass.moves()[at].region(), 0, 16, 4)
                .unwrap(),
        )
    });
    assert!(stays(&results), "destroyed under a crop: {results:?}");
}

#[test]
fn df3_a_slab_of_which_some_regions_are_destroyed_or_freed_moves() {
    let results = spoilt(MockProfile::Nvidia, shared(), &|scene, pass, at| {
        pass.set_outcome(at, MoveOutcome::Destroyed).unwrap();
        let freed = pass.moves()[at + 1].region();
        scene.gpu.free_id(freed).unwrap();
        assert_eq!(scene.gpu.free_id(freed), Err(GpuMisuse::Stale.into()));
        assert!(scene.gpu.info(freed).is_err());
        // The device may still read it.
        let old = pass.moves()[at + 1].old_buffer().unwrap();
        assert!(scene.mock.buffer_bound(old).is_some());
        None
    });
    let count = |wanted| results.iter().filter(|result| **result == wanted).count();
    assert_eq!(
        (
            count(MoveResult::Destroyed),
            count(MoveResult::Freed),
            count(MoveResult::Stayed)
        ),
        (1, 1, 0)
    );
    assert_eq!(count(MoveResult::Moved), results.len() - 2);
}

#[test]
fn df6_freed_seats_of_a_moved_slab_are_free_at_the_new_place() {
    small(|scene| {
        let mut slabs = scene.slabs(40, shared());
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        let (group, ids) = largest(&pass);
        let to = pass.moves()[group.start].to().memory;
        copy(scene.mock, &mut pass);
        let freed = &ids[1..9];
        freed.iter().for_each(|id| scene.gpu.free_id(*id).unwrap());
        // It takes nothing meanwhile.
        let during: Vec<_> = (100..140)
            .map(|n| (n, scene.small_buffer(n, &shared())))
            .collect();
        for (_, region) in &during {
            let slab = |id: RegionId| id.as_raw()[1];
            assert!(
                slab(region.id()) != slab(ids[0]),
                "the slab is being copied"
            );
        }
        pass.finish(|one, result| {
            let is_freed = freed.contains(&one.region());
            let expected = if is_freed {
                MoveResult::Freed
            } else {
                MoveResult::Moved
            };
            assert_eq!(result, expected);
        });
        drop(run);
        slabs
            .small
            .retain(|(_, region)| !freed.contains(&region.id()));
        let again: Vec<_> = (150..210)
            .map(|n| (n, scene.small_buffer(n, &shared())))
            .collect();
        let in_slab = |region: &&Region| region.id().as_raw()[1] == ids[0].as_raw()[1];
        let issued: Vec<_> = (again.iter().map(|(_, region)| region))
            .filter(in_slab)
            .collect();
        assert!(issued.len() >= freed.len(), "its seats are issued again");
        for region in issued {
            assert_eq!(region.memory(), Some(to));
            assert!(!ids.contains(&region.id()), "another generation");
        }
        slabs.small.extend(during.into_iter().chain(again));
        scene.end_slabs(slabs);
    });
}

#[test]
fn df6_a_slab_of_which_every_region_is_freed_meanwhile_goes() {
    for when in 0..3 {
        small(|scene| {
            let mut slabs = scene.slabs(40, shared());
            let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
            let free_all = |slabs: &mut Slabs| {
                slabs
                    .small
                    .drain(..)
                    .for_each(|(_, region)| scene.free(region));
            };
            if when == 0 {
                free_all(&mut slabs);
            }
            let mut pass = run.next_pass().unwrap();
            assert_eq!(pass.moves().len(), if when == 0 { 2 } else { 42 });
            copy(scene.mock, &mut pass);
            if when == 1 {
                free_all(&mut slabs);
            } else if when == 2 {
                for index in 0..pass.moves().len() {
                    if pass.moves()[index].size() == SMALL {
                        pass.set_outcome(index, MoveOutcome::Destroyed).unwrap();
                    }
                }
            }
            pass.finish(|one, result| {
                let expected = match when {
                    _ if one.size() == PIECE => MoveResult::Moved,
                    1 => MoveResult::Freed,
                    _ => MoveResult::Destroyed,
                };
                assert_eq!(result, expected);
            });
            assert_eq!(run.totals().freed_blocks, 1);
            drop(run);
            slabs.small.clear();
            scene.end_slabs(slabs);
        });
    }
}

/// Room is reserved for the whole block; then others free, map and name regions that wait for a later pass.
#[test]
fn df6_what_happens_to_a_slab_that_waits_for_its_pass() {
    for maps in [false, true] {
        scene(MockProfile::IntelUma, small_blocks(), |scene| {
            let mut slabs = scene.slabs(40, mappable());
            let options = DefragmentationOptions::new().max_moves_per_pass(1);
            let mut run = scene.gpu.defragment(options).unwrap();
            let mut pass = run.next_pass().unwrap();
            let done: Vec<_> = pass.moves().iter().map(|one| one.region()).collect();
            copy(scene.mock, &mut pass);
            pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
            let waits = |region: &Region| !done.contains(&region.id());
            let at = slabs.small.iter().position(|(_, one)| waits(one)).unwrap();
            scene.free(slabs.small.swap_remove(at).1);
            let at = slabs.small.iter().position(|(_, one)| waits(one)).unwrap();
            let id = slabs.small[at].1.id();
            if maps {
                scene.gpu.map_id(id).unwrap();
            }
            let mut moved = Vec::new();
            loop {
                let mut pass = run.next_pass().unwrap();
                if pass.is_empty() {
                    break;
                }
                copy(scene.mock, &mut pass);
                pass.finish(|one, result| moved.push((one.region(), result)));
            }
            assert_eq!(moved.iter().any(|(one, _)| *one == id), !maps);
            assert_eq!(run.totals().freed_blocks, u32::from(!maps));
            drop(run);
            if maps {
                scene.gpu.unmap_id(id).unwrap();
            }
            scene.end_slabs(slabs);
        });
    }
}

#[test]
fn df3_a_dropped_or_forgotten_pass_leaves_slabs_where_they_are() {
    for forgets in [false, true] {
        small(|scene| {
            let slabs = scene.slabs(40, shared());
            let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
            let mut pass = run.next_pass().unwrap();
            copy(scene.mock, &mut pass);
            if forgets {
                std::mem::forget(pass);
                assert!(run.next_pass().unwrap().is_empty());
            } else {
                drop(pass);
            }
            drop(run);
            assert_eq!(scene.gpu.stats().total.blocks, 2);
            scene.end_slabs(slabs);
        });
    }
}

/// Whoever is told unwinds in the middle of a slab: it has moved by then, and the others of it have too.
#[test]
fn df3_a_report_that_unwinds_leaves_no_slab_half_moved() {
    for at in [1, 5, 20, 41] {
        small(|scene| {
            let slabs = scene.slabs(40, shared());
            let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
            let mut pass = run.next_pass().unwrap();
            copy(scene.mock, &mut pass);
            let mut seen = 0;
            let ended = catch_unwind(AssertUnwindSafe(|| {
                pass.finish(|_, _| {
                    seen += 1;
                    assert!(seen != at, "as asked");
                });
            }));
            assert!(ended.is_err() && seen == at);
            drop(run);
            scene.end_slabs(slabs);
        });
    }
}

#[test]
fn df5_a_filter_that_refuses_one_region_keeps_the_block_of_its_slab() {
    small(|scene| {
        let slabs = scene.slabs(40, shared());
        let refused = slabs.small[17].1.id();
        let filter = |id: RegionId, _| id != refused;
        let options = DefragmentationOptions::new().filter(&filter);
        let mut run = scene.gpu.defragment(options).unwrap();
        assert_eq!(run.skipped().filter, 1);
        while {
            let mut pass = run.next_pass().unwrap();
            assert!(pass.moves().iter().all(|one| one.size() == PIECE));
            copy(scene.mock, &mut pass);
            let more = !pass.is_empty();
            pass.finish(|_, _| ());
            more
        } {}
        drop(run);
        // The slabs take regions again.
        let options = slabs.options;
        let mut slabs = slabs;
        slabs
            .small
            .extend((50..60).map(|n| (n, scene.small_buffer(n, &options))));
        scene.end_slabs(slabs);
    });
}

#[test]
fn df7_a_device_that_refuses_one_second_buffer_leaves_its_slab() {
    for call in [MockCall::CreateBuffer, MockCall::BindBuffer] {
        small(|scene| {
            let slabs = scene.slabs(40, shared());
            let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
            let mut pass = run.next_pass().unwrap();
            assert!(scene.mock.plant(MockFault::nth(20).of(call)));
            let mut refused = None;
            for index in 0..pass.moves().len() {
                let Ok(new) = pass.make_buffer(index) else {
                    assert!(refused.replace(index).is_none());
                    continue;
                };
                let one = &pass.moves()[index];
                assert!(
                    scene
                        .mock
                        .copy_buffer(one.old_buffer().unwrap(), 0, new, 0, one.size())
                );
            }
            // Also of the one that has none.
            pass.set_outcomes(MoveOutcome::Copied);
            let refused = pass.moves()[refused.expect("one was refused")];
            pass.finish(|one, result| {
                let expected = if one.moves_with(&refused) {
                    MoveResult::Stayed
                } else {
                    MoveResult::Moved
                };
                assert_eq!(result, expected);
            });
            drop(run);
            scene.mock.clear_faults();
            scene.end_slabs(slabs);
        });
    }
}

/// The mapping is the crop's, and older than the region's move, of which only the block knows of it.
#[test]
fn df5_a_slab_stays_where_a_crop_of_one_of_its_regions_is_mapped() {
    scene(MockProfile::IntelUma, small_blocks(), |scene| {
        let slabs = scene.slabs(40, mappable());
        let crops: Vec<_> = (slabs.small.iter())
            .map(|(_, region)| scene.gpu.crop_id(region.id(), 0, 16, 4).unwrap())
            .collect();
        let options = DefragmentationOptions::new().max_moves_per_pass(1);
        let mut run = scene.gpu.defragment(options).unwrap();
        // Room for the others is reserved, and they are at rest.
        let first: Vec<_> = {
            let pass = run.next_pass().unwrap();
            pass.moves().iter().map(|one| one.region()).collect()
        };
        assert!(!first.is_empty());
        let mapped = (slabs.small.iter())
            .position(|(_, region)| !first.contains(&region.id()))
            .expect("of another slab");
        let (id, crop) = (slabs.small[mapped].1.id(), crops[mapped].id());
        scene.gpu.map_id(crop).unwrap();
        let mut stayed = Vec::new();
        loop {
            let mut pass = run.next_pass().unwrap();
            if pass.is_empty() {
                break;
            }
            copy(scene.mock, &mut pass);
            pass.finish(|one, result| {
                assert_eq!(result, MoveResult::Stayed);
                stayed.push(one.region());
            });
        }
        assert!(stayed.contains(&id), "it was handed out");
        scene.gpu.unmap_id(crop).unwrap();
        drop(run);
        crops.into_iter().for_each(|crop| scene.free(crop));
        scene.end_slabs(slabs);
    });
}

/// Its crop reads it where it was.
#[test]
fn df3_a_region_that_waits_for_its_crop_keeps_its_slab() {
    small(|scene| {
        let mut slabs = scene.slabs(40, shared());
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        copy(scene.mock, &mut pass);
        let (_, group) = largest(&pass);
        let waiting = group[0];
        let crop = scene.gpu.crop_id(waiting, 0, 16, 4).unwrap();
        let at = (slabs.small.iter()).position(|(_, region)| region.id() == waiting);
        let (_, region) = slabs.small.swap_remove(at.unwrap());
        let place = (region.memory(), region.offset());
        scene.gpu.free_when_unused(region).unwrap();
        let mut stayed = 0;
        pass.finish(|one, result| {
            let expected = if group.contains(&one.region()) {
                stayed += 1;
                MoveResult::Stayed
            } else {
                MoveResult::Moved
            };
            assert_eq!(result, expected);
        });
        assert_eq!(stayed, group.len());
        drop(run);
        let now = scene.gpu.info(crop.id()).unwrap();
        assert_eq!((now.memory, now.offset), place);
        scene.free(crop);
        scene.end_slabs(slabs);
    });
}

/// It waits for its crop when its slab is to be handed out: nobody copies it.
#[test]
fn df6_a_slab_with_a_region_that_waits_is_not_handed_out() {
    small(|scene| {
        let mut slabs = scene.slabs(40, shared());
        let options = DefragmentationOptions::new().max_moves_per_pass(1);
        let mut run = scene.gpu.defragment(options).unwrap();
        let first: Vec<_> = {
            let pass = run.next_pass().unwrap();
            pass.moves().iter().map(|one| one.region()).collect()
        };
        let at = (slabs.small.iter()).position(|(_, region)| !first.contains(&region.id()));
        let (number, region) = slabs.small.swap_remove(at.expect("of another slab"));
        let crop = scene.gpu.crop_id(region.id(), 0, 16, 4).unwrap();
        let place = (region.memory(), region.offset());
        scene.gpu.free_when_unused(region).unwrap();
        loop {
            let mut pass = run.next_pass().unwrap();
            if pass.is_empty() {
                break;
            }
            copy(scene.mock, &mut pass);
            pass.finish(|_, _| {});
        }
        drop(run);
        let now = scene.gpu.info(crop.id()).unwrap();
        assert_eq!((now.memory, now.offset), place);
        assert_eq!(scene.read(&crop, 16), vec![number; 16]);
        scene.free(crop);
        scene.end_slabs(slabs);
    });
}
