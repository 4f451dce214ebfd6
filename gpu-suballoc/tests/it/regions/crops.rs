//! Parts of regions.

use super::*;

fn destroyed(s: &Scene<'_>) -> u64 {
    s.mock.calls(MockCall::DestroyBuffer)
}

#[test]
fn a_root_with_crops_stays_or_goes_with_the_last() {
    nvidia(|s| {
        let options = any().name("root");
        let root = s.buffer_with(300, &options);
        let (root_id, place) = (root.id(), (root.memory(), root.offset()));
        let crop = s.gpu.crop(&root, 0, 100, 1).unwrap();
        let root = s.gpu.free(root).unwrap_err();
        assert_eq!(root.error, GpuMisuse::HasCrops.into());
        let root = s.gpu.release(root.value).unwrap_err();
        assert_eq!(root.error, GpuMisuse::HasCrops.into());
        assert_eq!(destroyed(&s), 0);
        s.gpu.free_when_unused(root.value).unwrap();
        assert_eq!(destroyed(&s), 0, "the crop lives");
        assert_eq!(
            s.gpu.free_id(root_id),
            Err(GpuMisuse::Stale.into()),
            "its owner has let go"
        );
        let deeper = s.gpu.crop(&crop, 50, 50, 1).unwrap();
        assert_eq!(
            deeper.copy_offset(),
            50,
            "crops of crops of it can still be made"
        );
        s.free(crop);
        // Its memory is nobody else's yet.
        let others: Vec<Region> = (0..50).map(|_| s.buffer_with(300, &options)).collect();
        assert!(
            others
                .iter()
                .all(|other| (other.memory(), other.offset()) != place)
        );
        s.free_each(others);
        assert_eq!(destroyed(&s), 50);
        s.free(deeper);
        assert_eq!(destroyed(&s), 51, "and now it is gone");
    });
}

#[test]
fn h54_a_buffer_that_is_large_enough_is_used_again() {
    nvidia(|s| {
        let info = |size| BufferInfo::new(size, COPIED);
        let ensure = |region, size| s.gpu.ensure_buffer(region, &info(size), &any());
        let region = s.buffer(1000);
        let id = region.id();
        let region = ensure(region, 1000).unwrap();
        let region = ensure(region, 10).unwrap();
        assert_eq!((region.id(), region.size()), (id, 1000));
        let larger = ensure(region, 1001).unwrap();
        assert_eq!(larger.size(), 1001);
        assert_eq!(
            s.gpu.info(id).unwrap_err(),
            GpuMisuse::Stale,
            "the small one is given back"
        );

        // Not under its crops, nor through one, nor when mapped.
        let crop = s.gpu.crop(&larger, 0, 8, 8).unwrap();
        let refused = ensure(larger, 2000).unwrap_err();
        assert_eq!(refused.error, GpuMisuse::HasCrops.into());
        let larger = refused.value;
        let refused = ensure(crop, 4).unwrap_err();
        assert_eq!(refused.error, GpuMisuse::IsCrop.into());
        s.free(refused.value);
        s.free(larger);
        let mapped = s.visible_buffer(64);
        s.gpu.map_id(mapped.id()).unwrap();
        let refused = ensure(mapped, 65).unwrap_err();
        assert_eq!(refused.error, GpuMisuse::Mapped.into());
        s.gpu.unmap_id(refused.value.id()).unwrap();
        s.free(refused.value);

        // External memory is never reallocated.
        let foreign = s.foreign(4096, 1);
        let wrapped = s.gpu.wrap(&WrapInfo::new(foreign.buffer, 4096)).unwrap();
        let wrapped = ensure(wrapped, 4096).unwrap();
        let refused = ensure(wrapped, 4097).unwrap_err();
        assert_eq!(refused.error, GpuMisuse::IsWrapped.into());
        s.free(refused.value);

        // A refusal by the device leaves the old one.
        let region = s.buffer(64);
        s.mock.plant(MockFault::always().of(MockCall::CreateBuffer));
        let refused = ensure(region, 128).unwrap_err();
        s.mock.clear_faults();
        assert_eq!(s.gpu.info(refused.value.id()).unwrap().size, 64);
        s.free(refused.value);
    });
}
