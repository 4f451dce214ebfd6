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

/// A driver that gives the handle of a buffer that was destroyed to another one, as drivers do.
struct Reusing<'m> {
    inner: &'m Mock,
    live: Mutex<HashMap<u64, BufferHandle>>,
    next: Mutex<(u64, Option<u64>)>,
}

impl Reusing<'_> {
    fn of(&self, buffer: BufferHandle) -> BufferHandle {
        self.live.lock().unwrap()[&buffer.as_raw()]
    }
}

// SAFETY: all is handed on; names are exchanged one to one.
unsafe impl DeviceMemory for Reusing<'_> {
    forward_memory!(inner);
    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        // SAFETY: as the caller promises.
        let made = unsafe { self.inner.create_buffer(info) }?;
        let mut next = self.next.lock().unwrap();
        next.0 += 1;
        let raw = next.1.take().unwrap_or(next.0);
        assert!(self.live.lock().unwrap().insert(raw, made).is_none());
        Ok(BufferHandle::from_raw(raw).unwrap())
    }
    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        let inner = self.live.lock().unwrap().remove(&buffer.as_raw()).unwrap();
        // SAFETY: as the caller promises.
        unsafe { self.inner.destroy_buffer(inner) }
    }
    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        // SAFETY: as the caller promises.
        unsafe { self.inner.buffer_requirements(self.of(buffer)) }
    }
    unsafe fn bind_buffer(&self, buffer: BufferHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner.bind_buffer(self.of(buffer), memory, offset) }
    }
    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        // SAFETY: as the caller promises.
        unsafe { self.inner.buffer_address(self.of(buffer)) }
    }
}

/// A region is moved twice; the second time its buffer has the handle that it had in the beginning. Its value was not
/// refreshed: to give it back wants no place.
#[test]
fn df13_a_kept_buffer_lies_where_it_was_moved_to() {
    let mock = mock_of(Nvidia);
    let device = Reusing { inner: &mock, live: Mutex::default(), next: Mutex::default() };
    let options = AllocatorOptions { reuse: true, max_reusable_buffers: 4, ..small_blocks() };
    let gpu = over_with(&device, FromGlobalAlloc::SYSTEM, options);
    let info = copied(64 * KIB);
    let piece = || gpu.create_buffer(&info, &shared()).unwrap();
    let move_all = |force: Option<u64>| {
        let mut run = gpu.defragment(all_moves()).unwrap();
        let mut pass = run.next_pass().unwrap();
        assert_eq!(pass.moves().len(), 1);
        let image = ImageInfo::new_2d(37, 8, 8, ImageUsage::TRANSFER_DST);
        assert_eq!(pass.make_image(0, &image), refusal(NoImage));
        device.next.lock().unwrap().1 = force;
        pass.make_buffer(0).unwrap();
        all_moved(pass);
    };
    let free = |region| gpu.free(region).unwrap();
    let mut first = times(16, &piece);
    let mut second = times(16, &piece);
    let region = first.remove(0);
    first.into_iter().for_each(free);
    second.drain(12..).for_each(free);
    let handle = region.buffer().unwrap().as_raw();
    move_all(None);
    let mut third = times(16, &piece);
    second.into_iter().for_each(free);
    third.drain(..3).for_each(free);
    third.drain(12..).for_each(free);
    move_all(Some(handle));
    gpu.release(region).unwrap();
    let again = piece();
    let bound = mock.buffer_bound(device.of(again.buffer().unwrap()));
    let says = again.memory().map(|memory| (memory, again.offset()));
    let crop = gpu.crop(&again, 0, 64, 4).map(|crop| gpu.free(crop).unwrap());
    free(again);
    third.into_iter().for_each(free);
    end(gpu);
    assert_eq!((says, crop), (bound, Ok(())), "a buffer made a moment ago");
}

/// Places are reserved in it.
#[test]
fn df4_a_pool_that_is_being_defragmented_is_not_destroyed() {
    small(|scene| {
        let options = PoolOptions { keep_empty: Some(4 * MIB), ..pool_options(MIB, 0) };
        let pool = scene.must_create_pool(&options);
        let left = scene.sparse_with(2, 4, &shared().pool(pool));
        let run = all_moves().pool(pool).max_moves_per_pass(1);
        let mut run = scene.must_defragment(run);
        let pass = run.next_pass().unwrap();
        assert_eq!(pass.moves().len(), 1);
        drop(pass);
        scene.free_all(left);
        assert_eq!(scene.destroy_pool(pool), refusal(Defragmenting));
        drop(run);
        assert_eq!(scene.destroy_pool(pool), Ok(()));
        assert_eq!(scene.objects(), 0);
    });
}

/// A memory object of its own stays where it is, so a crop of its region does.
#[test]
fn df13_a_crop_of_what_stays_is_refreshed() {
    small(|scene| {
        let left = scene.sparse(2, 4);
        let own = alone();
        let needs = ResourceRequirements::new(256, 256);
        let region = scene.must_allocate(&needs, &own);
        let mut crop = scene.must_crop(&region, 0, 64, 4);
        let place = (crop.memory(), crop.offset());
        let run = scene.defragment(all_moves());
        let mut run = run.unwrap();
        let mut pass = run.next_pass().unwrap();
        assert!(!pass.is_empty());
        copy(scene.mock, &mut pass);
        pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
        drop(run);
        assert_eq!(scene.refresh(&mut crop), Ok(()));
        assert_eq!((crop.memory(), crop.offset()), place);
        scene.free(crop);
        scene.free(region);
        scene.free_all(left);
    });
}

/// It would lie over the next region of its block.
#[test]
fn df7_a_second_buffer_that_needs_more_than_its_region_has_is_not_bound() {
    small(|scene| {
        let lasting = shared().lifetime(Persistent);
        let buffer = |size, options: &RegionOptions<'_>| {
            let info = copied(size);
            scene.must_create_buffer(&info, options)
        };
        let mut first = times(16, || buffer(PIECE, &shared()));
        let mut second = times(8, || buffer(256, &lasting));
        second.push(buffer(PIECE, &shared()));
        first.drain(8..).for_each(|region| scene.free(region));
        let mut run = scene.must_defragment(all_moves());
        let mut pass = run.next_pass().unwrap();
        assert_eq!(pass.moves().len(), 9);
        let before = scene.mock.live_counts().buffers;
        scene.mock.require_more(1);
        for index in 0..9 {
            let made = pass.make_buffer(index);
            assert_eq!(made, refusal(WrongPlace), "move {index}");
        }
        assert_eq!(scene.mock.live_counts().buffers, before);
        scene.mock.require_more(0);
        assert!((0..9).all(|index| pass.make_buffer(index).is_ok()));
        pass.finish(|_, result| assert_eq!(result, MoveResult::Stayed));
        drop(run);
        scene.free_each(first.into_iter().chain(second));
    });
}
