//! Regions in the host's address space.

use gpu_suballoc::error::MapRefusal;
use gpu_suballoc::{GpuError, GpuMisuse, MemoryPreference, PropertyFlags, RegionOptions};
use mock_device::{MockCall, MockProfile};

use super::{AllocatorOptions, any, nvidia, scene};

#[test]
fn what_the_device_wrote_is_read_after_an_invalidate() {
    scene(MockProfile::Tiler, AllocatorOptions::default(), |s| {
        let options = RegionOptions::new()
            .preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
        let region = s.buffer_with(1000, &options);
        let crop = s.gpu.crop(&region, 100, 200, 4).unwrap();
        assert_eq!(
            s.gpu.invalidate(&crop, 0, 200).unwrap_err(),
            GpuMisuse::NotMapped.into()
        );
        let mapping = s.gpu.map(&crop).unwrap();
        assert!(s.mock.fill_buffer(region.buffer().unwrap(), 0, 1000, 5));
        s.gpu.invalidate(&crop, 0, 200).unwrap();
        // SAFETY: mapped, so long, nobody else's.
        let seen = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), mapping.len()) };
        assert!(seen.iter().all(|byte| *byte == 5));
        for (offset, size, rule) in [
            (0, 0, GpuMisuse::ZeroSize),
            (0, 201, GpuMisuse::Outside),
            (200, 1, GpuMisuse::Outside),
            (u64::MAX, 2, GpuMisuse::Outside),
        ] {
            assert_eq!(
                s.gpu.invalidate(&crop, offset, size).unwrap_err(),
                rule.into()
            );
            assert_eq!(s.gpu.flush(&crop, offset, size).unwrap_err(), rule.into());
        }
        drop(mapping);
        s.free(crop);
        s.free(region);
    });
}

#[test]
fn a_region_goes_with_its_last_mapping() {
    nvidia(|s| {
        let region = s.visible_buffer(4096);
        let crop = s.gpu.crop(&region, 64, 64, 1).unwrap();
        let (of_region, of_crop) = (s.gpu.map(&region).unwrap(), s.gpu.map(&crop).unwrap());
        assert_eq!(
            s.gpu
                .free(crop)
                .map_err(|refused| (refused.error, s.gpu.free_when_unused(refused.value).is_ok())),
            Err((GpuMisuse::Mapped.into(), true))
        );
        s.gpu.free_when_unused(region).unwrap();
        let destroyed = || s.mock.calls(MockCall::DestroyBuffer);
        // SAFETY: both are mapped still.
        unsafe { of_crop.as_ptr().write(3) };
        // SAFETY: as above.
        assert_eq!(unsafe { of_region.as_ptr().wrapping_add(64).read() }, 3);
        drop(of_region);
        assert_eq!(destroyed(), 0);
        drop(of_crop);
        assert_eq!(destroyed(), 1);
    });
}

#[test]
fn what_the_host_cannot_see_is_not_mapped() {
    nvidia(|s| {
        let own = MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL)
            .avoiding(PropertyFlags::HOST_VISIBLE);
        let region = s.buffer_with(64, &any().preference(own));
        let crop = s.gpu.crop(&region, 0, 4, 4).unwrap();
        let refused = GpuError::MapUnsupported {
            reason: MapRefusal::NotHostVisible,
        };
        assert_eq!(s.gpu.map(&region).unwrap_err(), refused);
        assert_eq!(s.gpu.map_id(crop.id()).unwrap_err(), refused);
        s.free(crop);
        s.free(region);
    });
}

#[test]
fn a_refused_map_is_not_counted() {
    nvidia(|s| {
        let region = s.visible_buffer(64);
        s.mock
            .plant(mock_device::MockFault::nth(1).of(MockCall::Map));
        assert!(s.gpu.map(&region).is_err());
        assert_eq!(s.gpu.info(region.id()).unwrap().maps(), 0);
        let mapping = s.gpu.map(&region).unwrap();
        assert_eq!(s.gpu.info(region.id()).unwrap().maps(), 1);
        drop(mapping);
        s.free(region);
    });
}
