//! Random heaps: contents, sums and bounds, whatever is left of them.

use super::*;

/// DF8 on whole allocators: each random heap is defragmented, and what must hold of it holds.
#[test]
fn df8_df9_df11_random_heaps_end_with_every_byte_where_its_region_is() {
    let (mut moves, mut freed) = (0, 0);
    for seed in 0..60 {
        let profile = MockProfile::ALL[seed as usize % MockProfile::ALL.len()];
        scene(profile, small_blocks(), |scene| {
            let mut rng = Rng::new(seed);
            let mut live = Vec::new();
            for number in 0..150u32 {
                let (lifetime, most) = if number % 3 == 0 {
                    (Lifetime::Persistent, 2 * KIB)
                } else {
                    (Lifetime::Unknown, 200 * KIB)
                };
                let size = 1 + u64::from(rng.next() as u32) % most;
                let info = BufferInfo::new(size, COPIED);
                let region = scene
                    .gpu
                    .create_buffer(&info, &shared().lifetime(lifetime))
                    .unwrap();
                let byte = number as u8;
                assert!(
                    scene
                        .mock
                        .fill_buffer(region.buffer().unwrap(), 0, size, byte)
                );
                live.push((byte, region));
            }
            let share = 1 + rng.next() % 9;
            let mut left = Vec::new();
            for (byte, region) in live {
                if rng.next() % 10 < share {
                    scene.free(region);
                } else {
                    left.push((byte, region));
                }
            }
            let before = scene.gpu.stats().total;
            let options = DefragmentationOptions::new()
                .max_bytes_per_pass(MIB / 2)
                .max_moves_per_pass(7);
            let mut run = scene.gpu.defragment(options).unwrap();
            let mut seen = HashSet::new();
            loop {
                let mut pass = run.next_pass().unwrap();
                if pass.is_empty() {
                    break;
                }
                for one in pass.moves() {
                    assert!(seen.insert(one.region()), "a region moves once");
                }
                copy(scene.mock, &mut pass);
                pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
            }
            let totals = run.totals();
            drop(run);
            let after = scene.gpu.stats().total;
            assert!(totals.moved_bytes <= before.region_bytes);
            assert_eq!((after.regions, after.moving), (before.regions, 0));
            assert_eq!(before.block_bytes - after.block_bytes, totals.freed_bytes);
            assert!(totals.freed_blocks <= totals.planned_blocks);
            moves += totals.moves;
            freed += totals.freed_blocks;
            for (byte, region) in &mut left {
                scene.gpu.refresh(region).unwrap();
                let size = region.size() as usize;
                assert_eq!(scene.read(region, size), vec![*byte; size]);
            }
            scene.free_all(left);
        });
    }
    println!("{moves} moves, {freed} blocks");
    assert!(moves > 500 && freed > 100, "{moves} {freed}");
}
