//! Ids: stale, foreign, made up.

use super::*;

#[test]
fn h98_an_id_of_another_allocator_is_refused() {
    nvidia(|s| {
        // SAFETY: as in `scene`.
        let other = over(s.mock, s.host.clone());
        let (mine, mut theirs) = (
            s.take(512, &any()),
            other.allocate(&bytes(512), &any()).unwrap(),
        );
        assert_eq!(
            mine.id().as_raw()[1..],
            theirs.id().as_raw()[1..],
            "the same slot, in two allocators"
        );
        let (mine_id, theirs_id) = (mine.id(), theirs.id());
        for _ in 0..2 {
            assert_eq!(
                s.gpu.free_id(theirs_id),
                Err(GpuMisuse::OtherAllocator.into())
            );
            assert_eq!(
                other.free_id(mine_id),
                Err(GpuMisuse::OtherAllocator.into())
            );
            assert_eq!(
                s.gpu.info(theirs_id).unwrap_err(),
                GpuMisuse::OtherAllocator
            );
            assert_eq!(
                other.map_id(mine_id).unwrap_err(),
                GpuMisuse::OtherAllocator.into()
            );
            assert_eq!(
                s.gpu.crop_id(theirs_id, 0, 1, 1).unwrap_err(),
                GpuMisuse::OtherAllocator.into()
            );
        }
        assert_eq!(
            s.gpu.crop(&theirs, 0, 1, 1).unwrap_err(),
            GpuMisuse::OtherAllocator.into()
        );
        assert_eq!(
            s.gpu.map(&theirs).unwrap_err(),
            GpuMisuse::OtherAllocator.into()
        );
        assert_eq!(
            s.gpu.flush(&theirs, 0, 1).unwrap_err(),
            GpuMisuse::OtherAllocator.into()
        );
        assert_eq!(
            s.gpu.refresh(&mut theirs),
            Err(GpuMisuse::OtherAllocator.into())
        );
        let theirs = s.gpu.free(theirs).unwrap_err();
        assert_eq!(theirs.error, GpuMisuse::OtherAllocator.into());
        let theirs = s.gpu.release(theirs.value).unwrap_err();
        let theirs = s.gpu.detach(theirs.value).unwrap_err();
        let theirs = s.gpu.free_when_unused(theirs.value).unwrap_err();
        other.free(theirs.value).unwrap();
        s.free(mine);
        other.close().unwrap();
    });
}

#[test]
fn h99_a_made_up_id_names_nothing() {
    nvidia(|s| {
        let region = s.take(512, &any());
        let [tag, slot, generation, rest] = region.id().as_raw();
        let mut rng = Rng::new(99);
        let mut ids = Vec::new();
        for slot in [0, 1, 2, 63, 64, 127, 128, 1 << 20, u32::MAX] {
            for generation in [0, 1, 2, 3, (1 << 24) - 1, u32::MAX] {
                ids.extend([0, 1, 1 << 31, u32::MAX].map(|rest| [tag, slot, generation, rest]));
            }
        }
        ids.extend(
            (0..10_000).map(|_| [tag, rng.next() as u32, rng.next() as u32, rng.next() as u32]),
        );
        ids.extend([
            [tag, slot + 1, generation, rest],
            [tag, slot, generation + 1, rest],
            [tag, slot, generation, rest + 1],
        ]);
        for raw in ids.into_iter().filter(|raw| *raw != region.id().as_raw()) {
            let id = RegionId::from_raw(raw);
            assert!(
                s.gpu.info(id).is_err() && s.gpu.free_id(id).is_err(),
                "{id}"
            );
            assert!(
                s.gpu.crop_id(id, 0, 1, 1).is_err()
                    && s.gpu.map_id(id).is_err()
                    && s.gpu.unmap_id(id).is_err(),
                "{id}"
            );
        }
        assert!(s.gpu.info(region.id()).is_ok(), "the real one is as it was");
        s.free(region);
    });
}

#[test]
fn h105_a_place_used_again_a_million_times_never_answers_to_its_first_id() {
    nvidia(|s| {
        let options = any();
        let first = s.take(700, &options);
        let id = first.id();
        s.free(first);
        let turns = if cfg!(debug_assertions) {
            20_000
        } else {
            1_000_000
        };
        for _ in 0..turns {
            let again = s.take(700, &options);
            assert_ne!(again.id(), id);
            s.free(again);
        }
        assert_eq!(s.gpu.free_id(id), Err(GpuMisuse::Stale.into()));
    });
}

#[test]
fn ids_of_a_closed_allocator_are_not_the_next_ones() {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let mut seen = HashSet::new();
    for _ in 0..50 {
        let gpu = over(&mock, RecordingAllocator::system());
        let region = gpu.allocate(&bytes(64), &visible()).unwrap();
        assert!(seen.insert(region.id()));
        gpu.free(region).unwrap();
        gpu.close().unwrap();
    }
}

#[test]
fn ge8_every_bit_of_an_id_is_compared() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let pool = PoolOptions {
            algorithm: BlockAlgorithm::Ring,
            block_size: Some(1 << 20),
            ..PoolOptions::new(1)
        };
        let pool = s.gpu.create_pool(&pool).unwrap();
        let general = s.take(512, &visible());
        let root = s.visible_buffer(512);
        let regions = [
            s.take(512, &any().lifetime(Lifetime::Transient)),
            s.take(512, &any().lifetime(Lifetime::Persistent)),
            s.take(
                512,
                &RegionOptions {
                    dedicated: DedicatedPolicy::Required,
                    ..any()
                },
            ),
            s.take(512, &any().pool(pool)),
            s.gpu.wrap(&WrapInfo::new(foreign.buffer, 64)).unwrap(),
            s.gpu.crop(&root, 0, 64, 1).unwrap(),
            general,
            root,
        ];
        let ids: Vec<RegionId> = regions.iter().map(Region::id).collect();
        for id in &ids {
            for bit in 0..128u32 {
                let mut raw = id.as_raw();
                raw[bit as usize / 32] ^= 1 << (bit % 32);
                let other = RegionId::from_raw(raw);
                if ids.contains(&other) {
                    continue;
                }
                assert!(s.gpu.info(other).is_err(), "{id} answers to {other}");
                assert!(
                    s.gpu.crop_id(other, 0, 1, 1).is_err(),
                    "{id} is cropped by {other}"
                );
                assert!(
                    s.gpu.map_id(other).is_err() && s.gpu.unmap_id(other).is_err(),
                    "{id} is mapped by {other}"
                );
                assert!(s.gpu.free_id(other).is_err(), "{id} is freed by {other}");
            }
        }
        for (region, id) in regions.into_iter().zip(ids) {
            assert!(s.gpu.info(id).is_ok(), "{id} is as it was");
            s.free(region);
        }
        s.gpu.destroy_pool(pool).unwrap();
    });
}

/// One number for an id, for tables without room for more: it leads back to the id, and a slot that is used again has another.
#[test]
fn di12_a_key_of_one_number_leads_back_to_the_id() {
    nvidia(|s| {
        // SAFETY: as in `scene`.
        let other = over(s.mock, s.host.clone());
        let one = other.allocate(&bytes(64), &any()).unwrap();
        let their_tag = one.id().tag();
        other.free(one).unwrap();
        let mut keys = Vec::new();
        for _ in 0..100 {
            let (region, beside) = (s.take(512, &any()), s.take(64, &any()));
            let key = region.id().slot_key();
            assert_eq!(s.gpu.id_of_key(key), region.id());
            assert_ne!(other.id_of_key(key), region.id());
            // A quarter of the tag is in the key.
            let theirs = other.id_of_key(key);
            if theirs.tag() != their_tag {
                assert_eq!(other.info(theirs).unwrap_err(), GpuMisuse::OtherAllocator);
            }
            keys.extend([key, beside.id().slot_key()]);
            s.free(region);
            assert_eq!(
                s.gpu.info(s.gpu.id_of_key(key)).unwrap_err(),
                GpuMisuse::Stale
            );
            s.free(beside);
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 200, "no key is issued again");
        for made_up in [1, 1 << 24, 1 << 32, u64::MAX - 1, u64::MAX] {
            let id = s.gpu.id_of_key(made_up.try_into().unwrap());
            assert!(s.gpu.info(id).is_err());
        }
        other.close().unwrap();
    });
}
