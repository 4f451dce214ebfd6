//! Names stay, values are refreshed, crops follow.

use super::*;

#[test]
fn df4_a_value_from_before_its_move_is_refused_until_it_is_refreshed() {
    let options = AllocatorOptions { reuse: true, ..small_blocks() };
    scene(IntelUma, options, |scene| {
        let mut left = scene.sparse_with(4, 16, &mappable());
        let crop = scene.must_crop(&left[0].1, 0, 64, 4);
        let other = scene.must_crop(&left[1].1, 0, 64, 4);
        let (_, totals) = defragment(&scene, all_moves());
        assert_eq!(totals.moves, 3);
        let mut moved = 0;
        for (_, region) in &mut left {
            let gpu = scene.gpu;
            let before = (region.memory(), region.offset(), region.buffer());
            let now = gpu.info(region.id()).unwrap();
            if (now.memory, now.offset, now.buffer) == before {
                continue;
            }
            moved += 1;
            let wrong = Moved;
            assert_eq!(gpu.crop(region, 0, 4, 4), refusal(wrong));
            assert_eq!(gpu.map(region).map(drop), refusal(wrong));
            assert_eq!(gpu.flush(region, 0, 4), refusal(wrong));
            assert_eq!(gpu.invalidate(region, 0, 4), refusal(wrong));
            let described = gpu.descriptor(region, 4, DescriptorUse::Storage);
            assert_eq!(described.err(), Some(wrong));
            gpu.refresh(region).unwrap();
            assert_eq!((region.memory(), region.buffer()), (now.memory, now.buffer));
            let mapping = gpu.map(region).unwrap();
            gpu.flush(region, 0, 4).unwrap();
            drop(mapping);
            gpu.descriptor(region, 4, DescriptorUse::Storage).unwrap();
        }
        assert_eq!(moved, 3);
        for mut crop in [crop, other] {
            let old = scene.crop(&crop, 0, 4, 4);
            let has_moved = scene.must_info(crop.id()).offset != crop.offset()
                || scene.must_info(crop.id()).memory != crop.memory();
            assert_eq!(old.as_ref().err().copied(), has_moved.then(|| Moved.into()));
            if let Ok(inner) = old {
                scene.free(inner);
            }
            scene.refresh(&mut crop).unwrap();
            scene.free(scene.must_crop(&crop, 0, 4, 4));
            scene.free(crop);
        }
        // A value that is given back for reuse is not kept as it was.
        let (mut kept, mut freed) = (0, 0);
        scene.check(&mut left);
        for (_, region) in left {
            scene.release(region).unwrap();
            kept += 1;
        }
        freed += scene.total().regions;
        assert_eq!((kept, freed), (4, 4));
        let again = scene.piece(3, &mappable());
        assert_eq!(scene.read(&again, 16), [3; 16]);
        scene.free(again);
        scene.set_reuse(false);
    });
}

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
