//! What never moves lies in blocks of its own.

use super::*;

#[test]
fn df9_what_never_moves_has_blocks_of_its_own_on_every_device() {
    for profile in MockProfile::ALL {
        scene(profile, small_blocks(), |scene| {
            let needs = ResourceRequirements::new(PIECE, 256);
            let usage = ImageUsage::from_raw(COPIED.as_raw());
            let image = ImageInfo::new_2d(37, 64, 64, usage);
            let (mut moving, mut pinned) = (Vec::new(), Vec::new());
            // One of twenty: mixed with the others they would keep every block.
            for number in 0..160u8 {
                if number % 20 == 0 {
                    let options = shared().pinned();
                    pinned.push(scene.piece(number, &options));
                    pinned.push(scene.must_allocate(&needs, &options));
                    pinned.push(scene.create_image(&image, &options).unwrap());
                } else {
                    moving.push((number, scene.piece(number, &shared())));
                }
            }
            let memory = |region: &Region| region.memory().expect("it is the allocator's");
            let of_pinned: HashSet<MemoryHandle> = pinned.iter().map(memory).collect();
            let of_moving: HashSet<_> = moving.iter().map(|(_, region)| memory(region)).collect();
            assert!(of_pinned.is_disjoint(&of_moving), "{profile:?}");
            assert_eq!(of_moving.len(), 10);

            let mut left = Vec::new();
            for (index, one) in moving.into_iter().enumerate() {
                if index % 4 == 0 {
                    left.push(one);
                } else {
                    scene.free(one.1);
                }
            }
            let places = Vec::from_iter(pinned.iter().map(|one| (one.memory(), one.offset())));
            let mut run = scene.must_defragment(all_moves());
            assert_eq!(run.skipped().pinned, pinned.len() as u32);
            assert_eq!(run.totals().planned_blocks, 7, "38 pieces need three blocks");
            each_pass(&mut run, |mut pass| {
                copy(scene.mock, &mut pass);
                pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
            });
            assert_eq!(run.totals().freed_blocks, 7);
            drop(run);
            scene.check(&mut left);
            for (region, place) in pinned.iter_mut().zip(places) {
                scene.refresh(region).unwrap();
                assert_eq!((region.memory(), region.offset()), place);
            }
            scene.free_all(left);
            scene.free_each(pinned);
        });
    }
}

#[test]
fn df9_a_pool_is_pinned_as_a_whole() {
    small(|scene| {
        let info = copied(PIECE);
        let pool = |pinned| {
            let options = PoolOptions { block_size: Some(MIB), pinned, ..PoolOptions::new(0) };
            scene.must_create_pool(&options)
        };
        let (moves, stays) = (pool(false), pool(true));
        let refused = scene.create_buffer(&info, &shared().pool(moves).pinned());
        assert_eq!(refused, refusal(PoolNotPinned));
        let sparse = |pool| scene.sparse_with(4, 4, &shared().pool(pool));
        let mut all = [sparse(moves), sparse(stays)];
        all[1].push((9, scene.piece(9, &shared().pool(stays).pinned())));
        let plan = |pool| {
            let options = all_moves().pool(pool);
            let run = scene.must_defragment(options);
            (run.totals().planned_blocks, run.skipped().pinned)
        };
        assert_eq!((plan(moves), plan(stays)), ((2, 0), (0, 17)));
        all.iter_mut().for_each(|left| scene.check(left));
        all.into_iter().for_each(|left| scene.free_all(left));
        scene.must_destroy_pool(moves);
        scene.must_destroy_pool(stays);
    });
}
