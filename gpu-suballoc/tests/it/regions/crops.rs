//! Parts of regions.

use super::*;

fn destroyed(s: &Scene<'_>) -> u64 {
    s.mock.calls(DestroyBuffer)
}

#[test]
fn a_root_with_crops_stays_or_goes_with_the_last() {
    nvidia(|s| {
        let root = s.buffer(300);
        let root_id = root.id();
        let crop = s.must_crop(&root, 0, 100, 1);
        let root = s.gpu.free(root).unwrap_err();
        assert_eq!(root.error, HasCrops.into());
        let root = s.release(root.value).unwrap_err();
        assert_eq!(root.error, HasCrops.into());
        assert_eq!(destroyed(&s), 0);
        s.free_when_unused(root.value).unwrap();
        assert_eq!(destroyed(&s), 0, "the crop lives");
        assert_eq!(s.free_id(root_id), refusal(Stale), "its owner has let go");
        let deeper = s.must_crop(&crop, 50, 50, 1);
        assert_eq!(deeper.copy_offset(), 50, "crops of crops of it can still be made");
        s.free(crop);
        s.free(deeper);
        assert_eq!(destroyed(&s), 1, "and now it is gone");
    });
}

#[test]
fn h54_a_buffer_that_is_large_enough_is_used_again() {
    nvidia(|s| {
        let info = |size| copied(size);
        let ensure = |region, size| s.ensure_buffer(region, &info(size), &any());
        let region = s.buffer(1000);
        let id = region.id();
        let region = ensure(region, 1000).unwrap();
        let region = ensure(region, 10).unwrap();
        assert_eq!((region.id(), region.size()), (id, 1000));
        let larger = ensure(region, 1001).unwrap();
        assert_eq!(larger.size(), 1001);
        assert_eq!(s.info(id).unwrap_err(), Stale, "the small one is given back");

        // Not under its crops, nor through one, nor when mapped.
        let crop = s.must_crop(&larger, 0, 8, 8);
        let refused = ensure(larger, 2000).unwrap_err();
        assert_eq!(refused.error, HasCrops.into());
        let larger = refused.value;
        let refused = ensure(crop, 4).unwrap_err();
        assert_eq!(refused.error, IsCrop.into());
        s.free(refused.value);
        s.free(larger);
        let mapped = s.visible_buffer(64);
        s.map_id(mapped.id()).unwrap();
        let refused = ensure(mapped, 65).unwrap_err();
        assert_eq!(refused.error, Mapped.into());
        s.unmap_id(refused.value.id()).unwrap();
        s.free(refused.value);

        // External memory is never reallocated.
        let foreign = s.foreign(4096, 1);
        let wrapped = s.must_wrap(&WrapInfo::new(foreign.buffer, 4096));
        let wrapped = ensure(wrapped, 4096).unwrap();
        let refused = ensure(wrapped, 4097).unwrap_err();
        assert_eq!(refused.error, IsWrapped.into());
        s.free(refused.value);

        // A refusal by the device leaves the old one.
        let region = s.buffer(64);
        s.mock.plant(MockFault::always().of(CreateBuffer));
        let refused = ensure(region, 128).unwrap_err();
        s.mock.clear_faults();
        assert_eq!(s.must_info(refused.value.id()).size, 64);
        s.free(refused.value);
    });
}
