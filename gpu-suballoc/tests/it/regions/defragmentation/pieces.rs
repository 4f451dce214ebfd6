//! What a map shows while regions move.

use super::*;
use gpu_suballoc::report::RangeUse;

#[test]
fn df12_places_that_regions_move_to_are_neither_free_nor_regions() {
    small(|scene| {
        let mut left = scene.sparse(4, 16);
        let spent = || {
            let map = scene.gpu.memory_map().unwrap();
            let ranges = map.blocks_with_ranges().flat_map(|(_, ranges)| ranges);
            ranges
                .filter(|range| range.range_use == RangeUse::Spent)
                .map(|range| range.size)
                .collect::<Vec<_>>()
        };
        assert_eq!(spent(), [0; 0]);
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let pass = run.next_pass().unwrap();
        assert_eq!(pass.moves().len(), 3);
        assert_eq!(spent(), [PIECE; 3]);
        drop(pass);
        drop(run);
        assert_eq!(spent(), [0; 0]);
        scene.check(&mut left);
        scene.free_all(left);
    });
}
