//! What is planned, how it is cut into passes, and that it ends.

use super::*;

#[test]
fn df13_four_blocks_with_a_buffer_at_offset_0_each_become_one() {
    small(|scene| {
        let left = scene.sparse(4, 16);
        assert_eq!(left.len(), 4);
        assert!(left.iter().all(|(_, region)| region.offset() == 0));
        let map = scene.must_memory_map();
        let ranges = ranges_of(&map);
        let alignments =
            Vec::from_iter(ranges.filter(|range| range.range_use == RangeUse::Region).map(|range| range.alignment));
        assert!(alignments.iter().all(|alignment| *alignment > 0), "{alignments:?}");
        drop(map);
        let (passes, totals) = defragment(&scene, all_moves());
        assert_eq!((passes, totals.freed_blocks, totals.freed_bytes), (vec![3], 3, 3 * MIB));
        assert_eq!((totals.moves, totals.moved_bytes), (3, 3 * PIECE));
        assert_eq!(scene.total().blocks, 1);
        assert_eq!(scene.objects(), 1);
        scene.check_and_free(left);
    });
}

#[test]
fn df1_a_plan_is_a_defragmentation_that_is_dropped() {
    small(|scene| {
        let left = scene.sparse(4, 4);
        let before = scene.total();
        let run = scene.must_defragment(all_moves());
        assert_eq!((run.totals().planned_blocks, run.totals().planned_bytes), (2, 2 * MIB));
        let second = scene.defragment(all_moves());
        assert_eq!(second.map(drop), refusal(Defragmenting));
        drop(run);
        assert_eq!(scene.total(), before);
        // The blocks are ordinary ones again: all the room there was is there.
        let filled = times(48, || (0, scene.piece(0, &shared())));
        assert_eq!(scene.total().blocks, 4);
        scene.check_and_free(left);
        scene.free_all(filled);
    });
}

/// A turnover has closed two of four blocks: one has two regions, the other eight. Two blocks are full.
#[test]
fn df1_a_block_that_drains_takes_what_moves() {
    small(|scene| {
        let mut left = Vec::from_iter((0..64).map(|number| (number, scene.piece(number, &shared()))));
        let first = left[0].1.memory();
        let goes = |at: &usize| match *at {
            at @ 0..16 => ![5, 7].contains(&at),
            at => [1, 2].contains(&(at % 4)),
        };
        (0..64).rev().filter(goes).for_each(|at| scene.free(left.remove(at).1));
        (0..64).for_each(|_| scene.free(scene.piece(0, &shared())));
        for number in 64..80 {
            left.push((number, scene.piece(number, &shared())));
            assert_ne!(left.last().unwrap().1.memory(), first, "it is closed");
        }
        let (_, totals) = defragment(&scene, all_moves());
        assert_eq!((totals.moves, totals.freed_blocks), (2, 1), "{totals:?}");
        assert_eq!(scene.objects(), 3);
        scene.check_and_free(left);
    });
}

#[test]
fn df1_limits_cut_the_same_moves_into_passes() {
    for (options, most) in [
        (all_moves().max_moves_per_pass(3), 3),
        (all_moves().max_bytes_per_pass(2 * PIECE), 2),
        (all_moves().max_bytes_per_pass(1).max_moves_per_pass(0), 1),
    ] {
        small(|scene| {
            let left = scene.sparse(6, 4);
            let (passes, totals) = defragment(&scene, options);
            assert!(passes.iter().all(|moves| *moves <= most), "{passes:?}");
            assert_eq!((passes.iter().sum::<usize>(), totals.freed_blocks), (16, 4));
            assert_eq!(totals.passes as usize, passes.len());
            scene.check_and_free(left);
        });
    }
}

#[test]
fn df1_one_pool_alone() {
    small(|scene| {
        let pool = scene.pool_of(MIB, 0);
        let mut inside = scene.sparse_with(2, 4, &shared().pool(pool));
        let mut outside = scene.sparse(2, 8);
        let blocks = scene.total().blocks;
        let (_, totals) = defragment(&scene, all_moves().pool(pool));
        assert_eq!((totals.moves, totals.freed_blocks), (4, 1));
        assert_eq!(scene.total().blocks, blocks - 1);
        scene.check(&mut inside);
        scene.check(&mut outside);
        scene.free_all(inside);
        scene.free_all(outside);
        scene.must_destroy_pool(pool);
        let gone = scene.defragment(all_moves().pool(pool));
        assert_eq!(gone.map(drop), refusal(NoSuchPool));
    });
}
