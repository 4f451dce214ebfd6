//! A defragmentation that is none. Each request and each command of one is refused in `sweep` and `region_model`.

use super::*;

/// No pool of that name, and one that somebody is at: kept buffers stay.
#[test]
fn df4_a_defragmentation_that_is_refused_gives_nothing_up() {
    let options = AllocatorOptions {
        reuse: true,
        max_reusable_buffers: 4,
        ..small_blocks()
    };
    scene(MockProfile::Nvidia, options, |scene| {
        let gone = scene.pool(0);
        scene.gpu.destroy_pool(gone).unwrap();
        let two = PoolOptions {
            min_blocks: 2,
            block_size: Some(MIB),
            ..PoolOptions::new(0)
        };
        let busy = scene.gpu.create_pool(&two).unwrap();
        let run = scene
            .gpu
            .defragment(DefragmentationOptions::new().pool(busy));
        let run = run.expect("nobody is at it");
        let region = scene.piece(1, &shared());
        scene.gpu.release(region).unwrap();
        assert_eq!(scene.mock.live_counts().buffers, 1);
        let every = DefragmentationOptions::new();
        for (options, rule) in [
            (every.pool(gone), GpuMisuse::NoSuchPool),
            (every.pool(busy), GpuMisuse::Defragmenting),
            (every, GpuMisuse::Defragmenting),
        ] {
            let refused = scene.gpu.defragment(options).map(drop);
            assert_eq!(refused, Err(rule.into()));
            assert_eq!(scene.mock.live_counts().buffers, 1, "as it was");
        }
        drop(run);
        scene.gpu.defragment(every).map(drop).expect("nobody is");
        assert_eq!(scene.mock.live_counts().buffers, 0, "in the way");
        scene.gpu.destroy_pool(busy).unwrap();
    });
}
