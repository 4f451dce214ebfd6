//! What keeps a block as it is, reason by reason.

use super::*;

/// Two blocks; what `put` adds lies in the one with less in it, so that this one would be emptied. External buffers may
/// lie in blocks.
fn pinned(put: fn(&Scene<'_>) -> Vec<Region>, options: DefragmentationOptions<'_>) -> SkippedRegions {
    let mut skipped = SkippedRegions::default();
    let mut config = Nvidia.config();
    config.rules.external_requires_dedicated = false;
    scene_on(&Mock::with_config(config), small_blocks(), |scene| {
        let first = times(12, || (1, scene.piece(1, &shared())));
        let added = put(&scene);
        let second = Vec::from_iter((0..19).map(|n| (n, scene.piece(n, &shared()))));
        assert!(scene.total().blocks >= 2);
        let mut left = Vec::new();
        for (number, region) in first.into_iter().chain(second) {
            if number % 4 == 0 {
                left.push((number, region));
            } else {
                scene.free(region);
            }
        }
        let run = scene.must_defragment(options);
        skipped = run.skipped();
        drop(run);
        scene.check_and_free(left);
        scene.free_each(added);
    });
    skipped
}

#[test]
fn df5_each_reason_keeps_its_block_and_is_counted() {
    type Put = fn(&Scene<'_>) -> Vec<Region>;
    fn of_usage(scene: &Scene<'_>, usage: BufferUsage) -> Vec<Region> {
        let info = BufferInfo::new(PIECE, usage);
        vec![scene.must_create_buffer(&info, &shared())]
    }
    let addressed: Put = |scene| of_usage(scene, COPIED | BufferUsage::SHADER_DEVICE_ADDRESS);
    let bare: Put = |scene| vec![scene.take(PIECE, &shared())];
    let tagged: Put = |scene| vec![scene.piece(1, &shared().tag(77))];
    let none = SkippedRegions::default();
    let waiting: Put = |scene| {
        let root = scene.piece(1, &shared());
        let crop = scene.must_crop(&root, 0, 16, 4);
        scene.free_when_unused(root).unwrap();
        vec![crop]
    };
    let shareable: Put = |scene| {
        let info = BufferInfo { external: ExternalHandleTypes::from_raw(1), ..copied(PIECE) };
        vec![scene.must_create_buffer(&info, &shared())]
    };
    let (busy, external) = (skipped_only(|skipped| skipped.busy = 1), skipped_only(|skipped| skipped.external = 1));
    let (all, all_but_77) = (|_, _| true, |_, tag| tag != 77);
    let every = all_moves();
    let no_transfer = skipped_only(|skipped| skipped.no_transfer = 1);
    let device_address = skipped_only(|skipped| skipped.device_address = 1);
    let one_bare = skipped_only(|skipped| skipped.bare = 1);
    let filter = skipped_only(|skipped| skipped.filter = 1);
    let dedicated: Put = |scene| times(3, || scene.buffer_with(PIECE, &alone()));
    let wrapped: Put = |scene| vec![scene.must_wrap(&WrapInfo::new(BufferHandle::from_raw(7).unwrap(), 64))];
    let in_ring: Put = |scene| {
        let ring = scene.must_create_pool(&ring_options(MIB, 0));
        times(2, || scene.take(PIECE, &shared().pool(ring)))
    };
    let rows: [(Put, DefragmentationOptions<'_>, SkippedRegions); 12] = [
        (|_| Vec::new(), every, none),
        (|scene| of_usage(scene, BufferUsage::TRANSFER_SRC), every, no_transfer),
        (addressed, every, device_address),
        (bare, every, one_bare),
        (bare, every.move_bare_regions(), none),
        (waiting, every, busy),
        (shareable, every, external),
        (tagged, every.filter(&all_but_77), filter),
        (tagged, every.filter(&all), none),
        // Outside of blocks.
        (dedicated, every, skipped_only(|skipped| skipped.dedicated = 3)),
        (wrapped, every, skipped_only(|skipped| skipped.wrapped = 1)),
        (in_ring, every, skipped_only(|skipped| skipped.linear = 2)),
    ];
    for (row, (put, options, skipped)) in rows.into_iter().enumerate() {
        assert_eq!(pinned(put, options), skipped, "row {row}");
    }
}

#[test]
fn df5_regions_with_margins_are_counted() {
    let memory = MemoryOptions { margin: 16, ..blocks_of(MIB) };
    scene(IntelUma, with_memory(memory), |scene| {
        let marked = times(20, || scene.piece(1, &mappable()));
        let run = scene.must_defragment(all_moves());
        assert_eq!(run.skipped(), skipped_only(|skipped| skipped.margin = 20));
        drop(run);
        scene.free_each(marked);
    });
}

#[test]
fn df5_di1_a_mapped_region_keeps_its_block() {
    for for_life in [false, true] {
        scene(IntelUma, small_blocks(), |scene| {
            let left = scene.sparse_with(2, 4, &mappable());
            let mapping = (!for_life).then(|| scene.must_map(&left[0].1));
            let mapped = for_life.then(|| scene.piece(9, &mappable().mapped()));
            let first = mapped.as_ref().and_then(Region::mapped);
            let run = scene.must_defragment(all_moves());
            assert_eq!((run.skipped().mapped, run.totals().planned_blocks), (1, 1));
            drop(run);
            let (_, totals) = defragment(&scene, all_moves());
            assert_eq!(totals.moves, 4, "the other block's");
            drop(mapping);
            scene.check_and_free(left);
            if let Some(mapped) = mapped {
                assert_eq!(scene.must_info(mapped.id()).mapped(), first);
                let mut kept = vec![(9, mapped)];
                scene.check(&mut kept);
                scene.free_all(kept);
            }
        });
    }
}

fn skipped_only(count: impl FnOnce(&mut SkippedRegions)) -> SkippedRegions {
    let mut skipped = SkippedRegions::default();
    count(&mut skipped);
    skipped
}

#[test]
fn df5_where_no_hole_is_large_enough_nothing_moves() {
    small(|scene| {
        // Half of the first block is free, in holes of one piece; of the second one two pieces are used, by one region.
        let mut first = Vec::from_iter((0..16u8).map(|n| (n, scene.piece(n, &shared()))));
        let info = copied(2 * PIECE);
        let large = scene.must_create_buffer(&info, &shared());
        for at in (0..8).rev() {
            scene.free(first.remove(2 * at).1);
        }
        let mut run = scene.must_defragment(all_moves());
        assert_eq!(run.totals().planned_blocks, 1);
        assert!(run.next_pass().unwrap().is_empty());
        assert_eq!(run.skipped(), skipped_only(|skipped| skipped.no_room = 1));
        drop(run);
        scene.check(&mut first);
        scene.free_all(first);
        scene.free(large);
    });
}
