//! A defragmentation that is none. Each request and each command of one is refused in `sweep` and `region_model`.

use super::*;

/// No pool of that name, and one that somebody is at: kept buffers stay.
#[test]
fn df4_a_defragmentation_that_is_refused_gives_nothing_up() {
    let options = AllocatorOptions { reuse: true, max_reusable_buffers: 4, ..small_blocks() };
    scene(Nvidia, options, |scene| {
        let gone = scene.pool(0);
        scene.must_destroy_pool(gone);
        let two = PoolOptions { min_blocks: 2, block_size: Some(MIB), ..PoolOptions::new(0) };
        let busy = scene.must_create_pool(&two);
        let run = scene.defragment(all_moves().pool(busy));
        let run = run.expect("nobody is at it");
        let region = scene.piece(1, &shared());
        scene.release(region).unwrap();
        assert_eq!(scene.mock.live_counts().buffers, 1);
        let every = all_moves();
        for (options, rule) in
            [(every.pool(gone), NoSuchPool), (every.pool(busy), Defragmenting), (every, Defragmenting)]
        {
            let refused = scene.defragment(options).map(drop);
            assert_eq!(refused, refusal(rule));
            assert_eq!(scene.mock.live_counts().buffers, 1, "as it was");
        }
        drop(run);
        scene.defragment(every).map(drop).expect("nobody is");
        assert_eq!(scene.mock.live_counts().buffers, 0, "in the way");
        scene.must_destroy_pool(busy);
    });
}
