//! Ids: stale, foreign, made up.

use super::*;

#[test]
fn h98_an_id_of_another_allocator_is_refused() {
    nvidia(|s| {
        // SAFETY: as in `scene`.
        let other = over(s.mock, s.host.clone());
        let (mine, mut theirs) = (s.take(512, &any()), other.allocate(&bytes(512), &any()).unwrap());
        assert_eq!(mine.id().as_raw()[1..], theirs.id().as_raw()[1..], "the same slot, in two allocators");
        let (mine_id, theirs_id) = (mine.id(), theirs.id());
        let wrong: GpuError = OtherAllocator.into();
        for _ in 0..2 {
            assert_eq!(s.free_id(theirs_id), Err(wrong));
            assert_eq!(other.free_id(mine_id), Err(wrong));
            assert_eq!(s.info(theirs_id).unwrap_err(), OtherAllocator);
            assert_eq!(other.map_id(mine_id).unwrap_err(), wrong);
            assert_eq!(s.crop_id(theirs_id, 0, 1, 1).unwrap_err(), wrong);
        }
        assert_eq!(s.crop(&theirs, 0, 1, 1).unwrap_err(), wrong);
        assert_eq!(s.map(&theirs).unwrap_err(), wrong);
        assert_eq!(s.flush(&theirs, 0, 1).unwrap_err(), wrong);
        assert_eq!(s.refresh(&mut theirs), Err(wrong));
        let theirs = s.gpu.free(theirs).unwrap_err();
        assert_eq!(theirs.error, wrong);
        let theirs = s.release(theirs.value).unwrap_err();
        let theirs = s.detach(theirs.value).unwrap_err();
        let theirs = s.free_when_unused(theirs.value).unwrap_err();
        other.free(theirs.value).unwrap();
        s.free(mine);
        other.close().unwrap();
    });
}

fn assert_names_nothing(s: &Scene<'_>, id: RegionId) {
    let tried = [
        s.info(id).map(drop).map_err(GpuError::from),
        s.crop_id(id, 0, 1, 1).map(drop),
        s.map_id(id).map(drop),
        s.unmap_id(id),
        s.free_id(id),
    ];
    assert!(tried.iter().all(Result::is_err), "{id}: {tried:?}");
}

#[test]
fn h99_h105_ge8_every_bit_of_an_id_is_compared() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let pool = ring_options(1 << 20, 1);
        let pool = s.must_create_pool(&pool);
        let general = s.take(512, &visible());
        let root = s.visible_buffer(512);
        let regions = [
            s.take(512, &any().lifetime(Transient)),
            s.take(512, &any().lifetime(Persistent)),
            s.take(512, &alone()),
            s.take(512, &any().pool(pool)),
            s.must_wrap(&WrapInfo::new(foreign.buffer, 64)),
            s.must_crop(&root, 0, 64, 1),
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
                assert_names_nothing(&s, other);
            }
        }
        for (region, id) in regions.into_iter().zip(ids) {
            assert!(s.info(id).is_ok(), "{id} is as it was");
            s.free(region);
        }
        s.must_destroy_pool(pool);
    });
}

/// One number for an id, for tables without room for more: it leads back to the id, and a slot that is used again has
/// another.
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
            assert_eq!(s.id_of_key(key), region.id());
            assert_ne!(other.id_of_key(key), region.id());
            // A quarter of the tag is in the key.
            let theirs = other.id_of_key(key);
            if theirs.tag() != their_tag {
                assert_eq!(other.info(theirs).unwrap_err(), OtherAllocator);
            }
            keys.extend([key, beside.id().slot_key()]);
            s.free(region);
            assert_eq!(s.info(s.id_of_key(key)).unwrap_err(), Stale);
            s.free(beside);
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 200, "no key is issued again");
        for made_up in [1, 1 << 24, 1 << 32, u64::MAX - 1, u64::MAX] {
            let id = s.id_of_key(made_up.try_into().unwrap());
            assert!(s.info(id).is_err());
        }
        other.close().unwrap();
    });
}
