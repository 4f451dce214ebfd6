//! Parts of regions.

use super::*;

#[test]
fn h51_what_is_no_part_is_no_crop() {
    nvidia(|s| {
        let root = s.buffer(1000);
        let crop = s.gpu.crop(&root, 100, 200, 4).unwrap();
        let refused =
            |of: &Region, offset, size, element| s.gpu.crop(of, offset, size, element).unwrap_err();
        for (offset, size) in [
            (0, 1001),
            (1000, 1),
            (999, 2),
            (u64::MAX, 1),
            (1, u64::MAX),
            (u64::MAX, u64::MAX),
            (1 << 35, 1),
        ] {
            assert_eq!(
                refused(&root, offset, size, 1),
                GpuMisuse::Outside.into(),
                "{offset} {size}"
            );
        }
        assert_eq!(
            refused(&crop, 100, 104, 4),
            GpuMisuse::Outside.into(),
            "within the root is not within the crop"
        );
        assert_eq!(refused(&root, 2, 4, 4), GpuMisuse::Misaligned.into());
        assert_eq!(refused(&root, 4, 6, 4), GpuMisuse::Misaligned.into());
        assert_eq!(refused(&root, 0, 0, 4), GpuMisuse::ZeroSize.into());
        assert_eq!(refused(&root, 0, 4, 0), GpuMisuse::ZeroElement.into());
        assert_eq!(
            s.gpu.info(root.id()).unwrap().crops(),
            1,
            "none of them counts"
        );
        s.free(crop);
        s.free(root);
    });
}

fn destroyed(s: &Scene<'_>) -> u64 {
    s.mock.calls(MockCall::DestroyBuffer)
}

#[test]
fn a_root_with_crops_stays_or_goes_with_the_last() {
    nvidia(|s| {
        let options = RegionOptions::new().name("root");
        let root = s.buffer_with(300, &options);
        let (root_id, place) = (root.id(), (root.memory(), root.offset()));
        let crop = s.gpu.crop(&root, 0, 100, 1).unwrap();
        let root = s.gpu.free(root).unwrap_err();
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
