//! What nobody should do, and what others do between two looks: places, names and pools that are not what they were.

use super::*;

fn bare(scene: &Scene<'_>, size: u64, alignment: u64) -> Region {
    let needs = ResourceRequirements::new(size, alignment);
    scene.must_allocate(&needs, &shared())
}

/// How many of these lie in so many bytes of a place.
fn neighbours_in(all: &[Option<Region>], (memory, offset): (Option<MemoryHandle>, u64), size: u64) -> usize {
    let is_apart = |other: &&Region| {
        other.memory() != memory || other.offset() >= offset + size || other.offset() + other.size() <= offset
    };
    all.iter().flatten().filter(|other| !is_apart(other)).count()
}

/// Sizes are rounded up to their alignment where that is small, and are larger than what was asked for.
#[test]
fn what_moves_has_at_its_new_place_all_bytes_that_its_value_says() {
    // In the smaller hole there is room for what was asked for, and none for what the region has.
    for (hole, moves) in [(264 * KIB, 0), (384 * KIB, 1)] {
        small(|scene| {
            let rest = (MIB - hole) / (8 * KIB);
            let hole = bare(&scene, hole, 256);
            let mut pieces = Vec::from_iter((0..rest).map(|_| Some(bare(&scene, 8 * KIB, 256))));
            let mut source = bare(&scene, 256 * KIB + 256, 64 * KIB);
            assert_eq!(scene.total().blocks, 2);
            let reserved = scene.must_info(source.id()).reserved;
            assert_eq!((source.size(), reserved), (256 * KIB + 256, 320 * KIB));
            let tail = scene.crop(&source, 256 * KIB, 256, 4);
            let mut tail = tail.unwrap();
            scene.free(hole);
            for piece in pieces.iter_mut().skip(1).step_by(2).take(20) {
                scene.free(piece.take().unwrap());
            }
            let options = all_moves().move_bare_regions();
            let mut run = scene.must_defragment(options);
            let pass = run.next_pass().unwrap();
            assert_eq!(pass.moves().len(), moves);
            for one in pass.moves() {
                let to = (Some(one.to().memory), one.to().offset);
                assert_eq!(neighbours_in(&pieces, to, one.size()), 0, "the copy");
            }
            all_moved(pass);
            drop(run);
            scene.refresh(&mut source).expect("ours");
            scene.refresh(&mut tail).expect("ours");
            // What of it was not asked for is known as before.
            let map = scene.must_memory_map();
            let mut ranges = ranges_of(&map);
            let range = ranges.find(|range| range.id == Some(source.id()));
            assert_eq!(range.map(|range| range.padding), Some(64 * KIB - 256));
            let of_tail = neighbours_in(&pieces, (tail.memory(), tail.offset()), tail.size());
            scene.free(tail);
            scene.free(source);
            scene.free_each(pieces.into_iter().flatten());
            assert_eq!(of_tail, 0, "the crop");
        });
    }
}

/// The number of a record is another region's by the time it is looked at.
#[test]
fn df7_a_record_that_is_another_regions_by_now_moves_nothing_of_another_pool() {
    small(|scene| {
        let pool = scene.pool_of(MIB, 1);
        let within = shared().pool(pool);
        let mut inside = times(32, || Some(scene.piece(1, &within)));
        // The default pool: two blocks with room in both.
        let mut outside = times(32, || Some(scene.piece(1, &shared())));
        for index in (0..32).filter(|index| index % 4 != 0) {
            scene.free(inside[index].take().unwrap());
            if index > 4 {
                scene.free(outside[index].take().unwrap());
            }
        }
        let state = Mutex::new((false, None, None, Vec::new()));
        let filter = |id: RegionId, _| {
            let mut state = state.lock().unwrap();
            state.3.push(id);
            if state.0 && state.1.is_none() {
                // As another thread might: one of the pool's goes, a buffer of another pool comes.
                let victim = inside
                    .iter()
                    .flatten()
                    .find(|region| region.id() != id && region.memory() == scene.must_info(id).memory);
                let victim = victim.unwrap().id();
                scene.free_id(victim).unwrap();
                state.1 = Some(victim);
                state.2 = Some(scene.piece(1, &shared()));
            }
            true
        };
        let options = all_moves().pool(pool).filter(&filter);
        let mut run = scene.must_defragment(options);
        state.lock().unwrap().0 = true;
        let pass = run.next_pass().unwrap();
        let newcomer = state.lock().unwrap().2.as_ref().unwrap().id();
        let moves = Vec::from_iter(pass.moves().iter().map(|one| one.region()));
        drop(pass);
        drop(run);
        let (_, victim, newborn, seen) = state.into_inner().unwrap();
        scene.free(newborn.unwrap());
        for region in inside.into_iter().chain(outside).flatten() {
            if Some(region.id()) != victim {
                scene.free(region);
            }
        }
        scene.must_destroy_pool(pool);
        assert!(!seen.contains(&newcomer), "the filter is asked of a region of another pool");
        assert!(!moves.contains(&newcomer), "a region of another pool is to be moved");
    });
}

/// A region is moved twice, on a driver that gives handles again; the second time its buffer has the handle that it had
/// in the beginning. Its value was not refreshed: to give it back wants no place.
#[test]
fn df13_a_kept_buffer_lies_where_it_was_moved_to() {
    let options = AllocatorOptions { reuse: true, max_reusable_buffers: 4, ..small_blocks() };
    let mock = Mock::new(Nvidia);
    mock.give_buffer_handles_again();
    scene_on(&mock, options, |s| {
        let piece = || s.buffer_with(PIECE, &shared());
        let move_all = || {
            let mut run = s.must_defragment(all_moves());
            let mut pass = run.next_pass().unwrap();
            assert_eq!(pass.moves().len(), 1);
            let image = ImageInfo::new_2d(37, 8, 8, ImageUsage::TRANSFER_DST);
            assert_eq!(pass.make_image(0, &image), refusal(NoImage));
            let new = pass.make_buffer(0);
            all_moved(pass);
            new.ok()
        };
        let mut first = times(16, &piece);
        let mut second = times(16, &piece);
        let region = first.remove(0);
        s.free_each(first);
        s.free_each(second.drain(12..));
        move_all();
        // The first of these has the handle; it goes last.
        let mut third = times(16, &piece);
        s.free_each(second);
        s.free_each(third.drain(12..));
        s.free_each(third.drain(..3).rev());
        assert_eq!(move_all(), region.buffer());
        s.release(region).unwrap();
        let again = piece();
        let bound = s.mock.buffer_bound(again.buffer().unwrap());
        assert_eq!(bound, again.memory().map(|memory| (memory, again.offset())));
        s.free(s.must_crop(&again, 0, 64, 4));
        s.free(again);
        s.free_each(third);
    });
}

/// It would lie over the next region of its block.
#[test]
fn df7_a_second_buffer_that_needs_more_than_its_region_has_is_not_bound() {
    small(|scene| {
        let left = scene.sparse(2, 4);
        let mut run = scene.must_defragment(all_moves());
        let mut pass = run.next_pass().unwrap();
        let count = pass.moves().len();
        let before = scene.mock.live_counts().buffers;
        scene.mock.require_more(1);
        for index in 0..count {
            let made = pass.make_buffer(index);
            assert_eq!(made, refusal(WrongPlace), "move {index}");
        }
        assert_eq!(scene.mock.live_counts().buffers, before);
        scene.mock.require_more(0);
        assert!((0..count).all(|index| pass.make_buffer(index).is_ok()));
        pass.finish(|_, result| assert_eq!(result, MoveResult::Stayed));
        drop(run);
        scene.check_and_free(left);
    });
}
