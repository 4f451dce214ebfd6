//! Ids: stale, foreign, made up.

use super::*;

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
/// another. That it is of one allocator is in `id.rs`.
#[test]
fn di12_a_key_of_one_number_leads_back_to_the_id() {
    nvidia(|s| {
        let mut keys = HashSet::new();
        for _ in 0..100 {
            let regions = [512, 64].map(|size| s.take(size, &any()));
            let ids = regions.each_ref().map(Region::id);
            for id in ids {
                assert!(keys.insert(id.slot_key()), "no key is issued again");
                assert_eq!(s.id_of_key(id.slot_key()), id);
            }
            s.free_each(regions);
            assert_eq!(s.info(s.id_of_key(ids[0].slot_key())).unwrap_err(), Stale);
        }
    });
}
