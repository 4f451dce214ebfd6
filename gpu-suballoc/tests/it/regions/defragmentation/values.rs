//! Names stay, values are refreshed, crops follow.

use super::*;

/// A value from before a move has a buffer that is destroyed: it is refused, or answered as it is now.
#[test]
fn df4_ensure_buffer_answers_no_buffer_that_is_destroyed() {
    small(|scene| {
        let info = copied(PIECE);
        let left = scene.sparse(2, 8);
        let (_, totals) = defragment(&scene, all_moves());
        assert!(totals.moves > 0);
        let mut moved = 0;
        for (number, region) in left {
            let region = match scene.ensure_buffer(region, &info, &shared()) {
                Ok(region) => region,
                Err(refused) => {
                    assert_eq!(refused.error, Moved.into());
                    moved += 1;
                    let mut region = refused.value;
                    scene.refresh(&mut region).unwrap();
                    let ensured = scene.ensure_buffer(region, &info, &shared());
                    ensured.expect("refreshed, and large enough")
                }
            };
            assert!(scene.mock.buffer(region.buffer().unwrap()).is_some());
            let mut one = [(number, region)];
            scene.check(&mut one);
            scene.free_all(one.into());
        }
        assert_eq!(moved, totals.moves);
    });
}
