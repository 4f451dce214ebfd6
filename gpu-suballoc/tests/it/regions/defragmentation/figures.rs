//! What statistics and reports say before, during and after.

use super::*;

/// The same figures, from a walk over every range: free bytes beside regions, bytes of empty blocks, the largest hole,
/// bytes moving.
fn walked(scene: &Scene<'_>) -> [u64; 4] {
    let map = scene.must_memory_map();
    let (mut free, mut empty, mut largest, mut moving) = (0, 0, 0, 0);
    for (block, ranges) in map.blocks_with_ranges() {
        let of = |what| ranges.iter().filter(move |range| range.range_use == what);
        let holes = || of(RangeUse::Free).map(|range| range.size);
        moving += of(RangeUse::Spent).map(|range| range.size).sum::<u64>();
        if holes().sum::<u64>() == block.size {
            empty += block.size;
        } else {
            free += holes().sum::<u64>();
        }
        largest = holes().max().unwrap_or(0).max(largest);
    }
    [free, empty, largest, moving]
}

fn check_figures(scene: &Scene<'_>) -> MemoryTotals {
    let total = scene.total();
    let [free, empty, largest, moving] = walked(scene);
    // What is reserved for a move is no region's yet.
    assert_eq!(total.free_bytes_in_use(), free + moving);
    assert_eq!((total.empty_bytes, total.moving_bytes), (empty, moving));
    assert!(
        (largest..=largest + largest / 32).contains(&total.largest_free_bound),
        "{} for {largest}",
        total.largest_free_bound
    );
    total
}

#[test]
fn df2_df12_figures_are_those_of_a_walk_before_during_and_after_on_every_device() {
    everywhere(small_blocks(), |scene| {
        let left = scene.sparse(8, 4);
        let before = check_figures(scene);
        assert_eq!(before.reserved_percent(), Some(400));
        assert_eq!(scene.stats().peak_block_bytes, 8 * MIB);
        let mut run = scene.must_defragment(all_moves());
        each_pass(&mut run, |mut pass| {
            let bytes: u64 = pass.moves().iter().map(|one| one.size()).sum();
            let during = scene.total();
            assert_eq!(during.moving, pass.moves().len() as u64);
            assert_eq!(during.moving_bytes, bytes);
            let [_, _, _, moving] = walked(scene);
            assert_eq!((moving, during.region_bytes), (bytes, before.region_bytes));
            // No region of the map is a reserved place.
            assert_eq!(scene.must_memory_map().leaks().count() as u64, before.regions);
            copy(scene.mock, &mut pass);
            pass.finish(|_, _| ());
        });
        drop(run);
        let after = check_figures(scene);
        assert!(after.block_bytes < before.block_bytes / 2, "{after:?}");
        assert_eq!((after.region_bytes, after.moving), (before.region_bytes, 0));
        let stats = scene.stats();
        assert_eq!(stats.peak_block_bytes, 8 * MIB, "the peak stays");

        // What people and tools read.
        let percent = after.reserved_percent().unwrap();
        let text = stats.to_string();
        assert!(
            text.contains(&format!("reserved: {percent} % of what is in use"))
                && text.contains("moving: 0 (0 B); peak: 8.00 MiB"),
            "{text}"
        );
        let mut json = String::new();
        let map = scene.must_memory_map();
        scene.write_json(&map, &mut json).unwrap();
        drop(map);
        for figure in [
            format!("\"LargestFreeBytes\":{}", after.largest_free_bound),
            "\"MovingBytes\":0".to_owned(),
            format!("\"PeakBlockBytes\":{}", 8 * MIB),
        ] {
            assert!(json.contains(&figure), "{figure}");
        }
        scene.check_and_free(left);
        let empty = scene.total();
        assert_eq!((empty.reserved_percent(), empty.free_bytes_in_use()), (None, 0));
    });
}
