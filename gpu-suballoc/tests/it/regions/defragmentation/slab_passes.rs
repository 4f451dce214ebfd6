//! Slabs move as a whole, with each region in them: contents, names, limits, values, what lies there afterwards.

use super::*;
use gpu_suballoc::{GpuMisuse, Lifetime};

/// Bytes of a small buffer.
pub(super) const SMALL: u64 = 256;

fn lasting(options: RegionOptions<'_>) -> RegionOptions<'_> {
    options.lifetime(Lifetime::Persistent)
}

/// What lies in two blocks, the second of which is to be emptied.
pub(super) struct Slabs {
    pub(super) pieces: Vec<(u8, Region)>,
    /// In slabs of the second block.
    pub(super) small: Vec<(u8, Region)>,
    pub(super) options: RegionOptions<'static>,
}

impl Scene<'_> {
    pub(super) fn small_buffer(&self, byte: u8, options: &RegionOptions<'_>) -> Region {
        let info = BufferInfo::new(SMALL, COPIED);
        let region = self
            .gpu
            .create_buffer(&info, &lasting(*options))
            .expect("room");
        let buffer = region.buffer().expect("it has one");
        assert!(self.mock.fill_buffer(buffer, 0, SMALL, byte));
        region
    }

    /// A full block, of which half is freed, and slabs of so many small buffers in a second one.
    pub(super) fn slabs(&self, count: u8, options: RegionOptions<'static>) -> Slabs {
        let first: Vec<_> = (0..16).map(|n| (n, self.piece(n, &options))).collect();
        let small: Vec<_> = (0..count)
            .map(|n| (n, self.small_buffer(n, &options)))
            .collect();
        let second = (0..2).map(|n| (n, self.piece(n, &options)));
        let mut pieces: Vec<_> = second.collect();
        assert_eq!(self.gpu.stats().total.blocks, 2);
        for (number, region) in first {
            if number % 2 == 0 {
                pieces.push((number, region));
            } else {
                self.free(region);
            }
        }
        let home = pieces[0].1.memory();
        assert!(small.iter().all(|(_, region)| region.memory() == home));
        assert!(
            small.iter().all(|(_, one)| one.id().as_raw()[1] >> 29 == 2),
            "in slabs"
        );
        Slabs {
            pieces,
            small,
            options,
        }
    }

    /// Every region that lives has its content, by its value and by its id, at a place that nothing else has.
    pub(super) fn check_slabs(&self, slabs: &mut Slabs) {
        self.check(&mut slabs.pieces);
        let mut places: Vec<_> = Vec::new();
        for (number, region) in &mut slabs.small {
            let id = region.id();
            self.gpu.refresh(region).expect("it lives");
            let now = self.gpu.info(id).expect("it lives");
            assert_eq!((region.memory(), region.offset()), (now.memory, now.offset));
            assert_eq!(
                self.read(region, SMALL as usize),
                vec![*number; SMALL as usize]
            );
            let bound = self.mock.buffer_bound(region.buffer().expect("it has one"));
            assert_eq!(
                bound,
                region.memory().map(|memory| (memory, region.offset()))
            );
            places.push((now.memory, now.offset));
        }
        places.sort_unstable();
        assert!(
            places
                .windows(2)
                .all(|two| two[0].0 != two[1].0 || two[0].1 + SMALL <= two[1].1)
        );
    }

    /// Frees what is left, and finds nothing more.
    pub(super) fn end_slabs(&self, mut slabs: Slabs) {
        self.check_slabs(&mut slabs);
        self.free_all(slabs.pieces);
        self.free_all(slabs.small);
        let total = self.gpu.stats().total;
        assert_eq!((total.regions, total.moving, total.moving_bytes), (0, 0, 0));
        assert_eq!(self.mock.live_counts().buffers, 0);
        self.gpu.trim(u64::MAX);
        assert_eq!(self.gpu.stats().total.blocks, 0, "no slab is left");
    }
}

/// The groups of moves that share an end.
pub(super) fn groups<D: DeviceMemory, A: alloc_core::HostAllocator>(
    pass: &DefragmentationPass<'_, '_, D, A>,
) -> Vec<std::ops::Range<usize>> {
    let (mut groups, mut from) = (Vec::new(), 0);
    for one in pass.moves().chunk_by(|one, other| one.moves_with(other)) {
        groups.push(from..from + one.len());
        from += one.len();
    }
    groups
}

#[test]
fn df9_a_slab_moves_with_all_its_regions_on_every_device() {
    for profile in MockProfile::ALL {
        scene(profile, small_blocks(), |scene| {
            let mut slabs = scene.slabs(40, shared());
            let home = slabs.small[0].1.memory();
            let ids: Vec<_> = slabs.small.iter().map(|(_, one)| one.id()).collect();
            let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
            let mut pass = run.next_pass().unwrap();
            assert_eq!(pass.moves().len(), 42, "each region is a move");
            let groups = groups(&pass);
            let large: Vec<_> = groups.iter().filter(|group| group.len() > 1).collect();
            assert!(
                large.len() >= 2 && groups.len() == large.len() + 2,
                "{groups:?}"
            );
            for group in large {
                // As far from one another at the new place as at the old one.
                let first = pass.moves()[group.start];
                for one in &pass.moves()[group.clone()] {
                    let apart = |place: fn(&_) -> gpu_suballoc::allocator::MovePlace| {
                        place(one).offset.wrapping_sub(place(&first).offset)
                    };
                    assert_eq!(apart(|one| one.from()), apart(|one| one.to()));
                    assert_eq!(one.to().memory, first.to().memory);
                }
            }
            assert_eq!(
                scene.gpu.stats().total.moving,
                groups.len() as u64,
                "a place each"
            );
            copy(scene.mock, &mut pass);
            pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
            assert_eq!((run.totals().moves, run.totals().freed_blocks), (42, 1));
            drop(run);
            assert_eq!(scene.gpu.stats().total.blocks, 1);
            scene.check_slabs(&mut slabs);
            assert!(
                slabs
                    .small
                    .iter()
                    .zip(&ids)
                    .all(|((_, one), id)| one.id() == *id)
            );
            assert!(slabs.small.iter().all(|(_, one)| one.memory() != home));
            // Freed seats are issued again, at the new place.
            for _ in 0..10 {
                scene.free(slabs.small.swap_remove(3).1);
            }
            let options = slabs.options;
            slabs
                .small
                .extend((50..70).map(|n| (n, scene.small_buffer(n, &options))));
            scene.end_slabs(slabs);
        });
    }
}

#[test]
fn df1_a_limit_cuts_no_slab_in_two() {
    small(|scene| {
        for options in [
            DefragmentationOptions::new().max_moves_per_pass(1),
            DefragmentationOptions::new().max_moves_per_pass(9),
            DefragmentationOptions::new().max_bytes_per_pass(1),
            DefragmentationOptions::new().max_bytes_per_pass(10 * SMALL),
        ] {
            let mut slabs = scene.slabs(40, shared());
            let mut run = scene.gpu.defragment(options).unwrap();
            let (mut passes, mut moves) = (0, 0);
            loop {
                let mut pass = run.next_pass().unwrap();
                if pass.is_empty() {
                    break;
                }
                passes += 1;
                moves += pass.moves().len();
                let groups = groups(&pass);
                assert!(groups.len() == 1 || pass.moves().len() <= 9, "{groups:?}");
                copy(scene.mock, &mut pass);
                pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
            }
            assert!(passes >= 3 && moves == 42, "{passes} passes, {moves} moves");
            drop(run);
            assert_eq!(scene.gpu.stats().total.blocks, 1);
            scene.check_slabs(&mut slabs);
            scene.end_slabs(slabs);
        }
    });
}

#[test]
fn df4_a_value_of_a_slabs_region_is_refused_until_it_is_refreshed() {
    scene(MockProfile::IntelUma, small_blocks(), |scene| {
        let mut slabs = scene.slabs(8, mappable());
        let crop = scene.gpu.crop(&slabs.small[3].1, 64, 64, 4).unwrap();
        let mut inner = scene.gpu.crop(&crop, 16, 16, 4).unwrap();
        let (_, totals) = defragment(&scene, DefragmentationOptions::new());
        assert_eq!(totals.moves, 10);
        let moved = Some(GpuMisuse::Moved.into());
        for (_, region) in &mut slabs.small {
            assert_eq!(scene.gpu.map(region).err(), moved);
            assert_eq!(scene.gpu.crop(region, 0, 4, 4).err(), moved);
            assert_eq!(scene.gpu.flush(region, 0, 4).err(), moved);
            scene.gpu.refresh(region).unwrap();
            drop(scene.gpu.map(region).unwrap());
        }
        assert_eq!(scene.gpu.crop(&inner, 0, 4, 4).err(), moved);
        scene.gpu.refresh(&mut inner).unwrap();
        assert_eq!(
            (inner.copy_offset(), inner.offset()),
            (80, slabs.small[3].1.offset() + 80)
        );
        assert_eq!(scene.read(&inner, 16), [3; 16]);
        scene.free(inner);
        scene.free(crop);
        scene.end_slabs(slabs);
    });
}

/// The room that a slab's range leaves, and the one that it takes, are counted as those of a region are.
#[test]
fn df12_what_a_moving_slab_reserves_is_in_the_statistics() {
    small(|scene| {
        let slabs = scene.slabs(40, shared());
        let before = scene.gpu.stats().total;
        let mut run = scene.gpu.defragment(DefragmentationOptions::new()).unwrap();
        let mut pass = run.next_pass().unwrap();
        let during = scene.gpu.stats().total;
        let bytes: u64 = pass.moves().iter().map(|one| one.size()).sum();
        // A slab has seats that are free.
        assert!(during.moving_bytes >= bytes && during.moving_bytes < bytes + 64 * SMALL);
        assert_eq!(
            (during.regions, during.region_bytes),
            (before.regions, before.region_bytes)
        );
        copy(scene.mock, &mut pass);
        pass.finish(|_, _| ());
        drop(run);
        let after = scene.gpu.stats().total;
        assert_eq!(
            (after.regions, after.region_bytes),
            (before.regions, before.region_bytes)
        );
        assert_eq!((after.moving, after.moving_bytes), (0, 0));
        scene.end_slabs(slabs);
    });
}
