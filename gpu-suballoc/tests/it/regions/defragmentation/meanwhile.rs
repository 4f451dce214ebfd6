//! What others do to a region while it is being copied.

use super::*;

#[test]
fn df5_a_region_that_is_mapped_meanwhile_keeps_its_block_and_those_beside_it() {
    scene(IntelUma, small_blocks(), |scene| {
        let left = scene.sparse_with(2, 4, &mappable());
        let options = all_moves().max_moves_per_pass(1);
        let mut run = scene.must_defragment(options);
        let mut pass = run.next_pass().unwrap();
        copy(scene.mock, &mut pass);
        let moved = pass.moves()[0];
        let beside = left
            .iter()
            .map(|(_, region)| region)
            .find(|region| region.memory() == Some(moved.from().memory) && region.id() != moved.region());
        let beside = beside.expect("there are four").id();
        scene.map_id(beside).unwrap();
        pass.finish(|_, result| assert_eq!(result, MoveResult::Stayed));
        scene.unmap_id(beside).unwrap();
        drop(run);
        assert_eq!(scene.total().blocks, 2);
        scene.check_and_free(left);
    });
}

#[test]
fn df5_of_a_block_that_must_stay_after_all_none_moves() {
    small(|scene| {
        let left = scene.sparse(2, 4);
        let (asked, late) = (AtomicU64::new(0), AtomicBool::new(false));
        // Not the third region of the block, when it is asked for its move.
        let may_move = |_, _| asked.fetch_add(1, Relaxed) != 2 || !late.load(Relaxed);
        let options = all_moves().filter(&may_move);
        let mut run = scene.must_defragment(options);
        assert_eq!(run.totals().planned_blocks, 1);
        late.store(true, Relaxed);
        asked.store(0, Relaxed);
        each_pass(&mut run, |pass| assert!(pass.moves().is_empty()));
        assert_eq!((asked.load(Relaxed), run.totals().moves), (3, 0));
        drop(run);
        scene.check_and_free(left);
    });
}

#[test]
fn df6_other_threads_allocate_free_map_and_crop_during_the_passes() {
    scene(IntelUma, small_blocks(), |scene| {
        let (done, turns) = (AtomicBool::new(false), AtomicU64::new(0));
        let moved = thread::scope(|threads| {
            for thread in 0..3u64 {
                let (scene, done, turns) = (&scene, &done, &turns);
                threads.spawn(move || {
                    let mut rng = Rng::new(thread);
                    let mut own: Vec<Region> = Vec::new();
                    while !done.load(Relaxed) {
                        turns.fetch_add(1, Relaxed);
                        let pick = rng.next() as usize;
                        if own.len() < 40 && !pick.is_multiple_of(3) {
                            own.push(scene.buffer_with(1 + pick as u64 % PIECE, &mappable()));
                            continue;
                        }
                        let Some(at) = (pick / 7).checked_rem(own.len()) else {
                            continue;
                        };
                        match pick % 5 {
                            0 => drop(scene.map_id(own[at].id()).map(|_| {
                                scene.unmap_id(own[at].id()).unwrap();
                            })),
                            1 => {
                                let crop = scene.crop_id(own[at].id(), 0, 1, 1).unwrap();
                                assert!(scene.info(crop.id()).is_ok());
                                scene.free(crop);
                            }
                            2 => {
                                let mut region = own.swap_remove(at);
                                let id = region.id();
                                scene.refresh(&mut region).unwrap();
                                let info = scene.must_info(id);
                                assert_eq!(info.size, region.size());
                                own.push(region);
                            }
                            _ => {
                                let region = own.swap_remove(at);
                                let id = region.id();
                                scene.free(region);
                                assert!(scene.free_id(id).is_err());
                            }
                        }
                    }
                    scene.free_each(own);
                });
            }
            let (mut totals, mut rounds) = (0, 0);
            while rounds < 25 || turns.load(Relaxed) < 1200 || totals < 20 {
                rounds += 1;
                let options = all_moves().max_moves_per_pass(5);
                let mut run = scene.must_defragment(options);
                each_pass(&mut run, |mut pass| {
                    for index in 0..pass.moves().len() {
                        pass.make_buffer(index).unwrap();
                        pass.set_outcome(index, MoveOutcome::Copied).unwrap();
                    }
                    thread::yield_now();
                    pass.finish(|_, _| ());
                });
                totals += run.totals().moves;
            }
            done.store(true, Relaxed);
            totals
        });
        println!("{moved} moves beside {} turns", turns.load(Relaxed));
        assert_eq!(scene.total().regions, 0);
        assert_eq!(scene.total().moving, 0);
    });
}
