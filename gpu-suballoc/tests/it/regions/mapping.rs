//! Regions in the host's address space.

use super::*;

#[test]
fn what_the_device_wrote_is_read_after_an_invalidate() {
    scene(MockProfile::Tiler, AllocatorOptions::default(), |s| {
        let region = s.buffer_with(1000, &host());
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
            (0, 201, GpuMisuse::Outside),
            (200, 1, GpuMisuse::Outside),
            (u64::MAX, 2, GpuMisuse::Outside),
            (201, u64::MAX, GpuMisuse::Outside),
            (201, 0, GpuMisuse::Outside),
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

/// `VK_WHOLE_SIZE` reaches to the end of the region, not of its memory object; 0 bytes are none, mapped or not.
#[test]
fn h109_whole_size_is_the_rest_of_the_region_and_0_bytes_are_none() {
    const WHOLE: u64 = u64::MAX;
    for dedicated in [DedicatedPolicy::Never, DedicatedPolicy::Required] {
        scene(MockProfile::Tiler, AllocatorOptions::default(), |s| {
            let options = host().dedicated(dedicated);
            let (region, neighbour) = (s.buffer_with(1000, &options), s.buffer_with(64, &options));
            let calls =
                |s: &Scene<'_>| s.mock.calls(MockCall::Flush) + s.mock.calls(MockCall::Invalidate);
            for offset in [0, 500, 1000] {
                assert_eq!(s.gpu.flush(&region, offset, 0), Ok(()), "not mapped");
                assert_eq!(s.gpu.invalidate(&region, offset, 0), Ok(()));
            }
            assert_eq!(
                s.gpu.flush(&region, 0, WHOLE),
                Err(GpuMisuse::NotMapped.into())
            );
            let crop = s.gpu.crop(&region, 100, 200, 4).unwrap();
            let (mapping, beside) = (s.gpu.map(&crop).unwrap(), s.gpu.map(&neighbour).unwrap());
            assert_eq!(s.gpu.flush(&crop, 200, WHOLE), Ok(()), "nothing is left");
            assert_eq!(calls(&s), 0);
            let buffer = region.buffer().unwrap();
            assert!(s.mock.fill_buffer(buffer, 0, 1000, 5));
            assert!(s.mock.fill_buffer(neighbour.buffer().unwrap(), 0, 64, 5));
            s.gpu.invalidate(&crop, 64, WHOLE).unwrap();
            // SAFETY: mapped, so long, nobody else's.
            let seen = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), mapping.len()) };
            assert!(seen[64..].iter().all(|byte| *byte == 5));
            // SAFETY: within the mapped memory object; nobody writes to it.
            let other = unsafe { beside.as_ptr().read() };
            assert_ne!(other, 5, "a neighbour's bytes are not read again");
            // SAFETY: mapped, so long, and no longer looked at.
            unsafe { mapping.as_ptr().write_bytes(6, mapping.len()) };
            s.gpu.flush_id(crop.id(), 0, WHOLE).unwrap();
            let mut bytes = [0; 200];
            assert!(s.mock.read_buffer(buffer, 100, &mut bytes));
            assert_eq!(bytes, [6; 200]);
            drop((mapping, beside));
            s.free(crop);
            s.free(region);
            s.free(neighbour);
        });
    }
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
        // SAFETY: both are mapped still.
        assert_eq!(unsafe { of_region.as_ptr().wrapping_add(64).read() }, 3);
        drop(of_region);
        assert_eq!(destroyed(), 0);
        drop(of_crop);
        assert_eq!(destroyed(), 1);
    });
}

#[test]
fn a_refused_map_is_not_counted() {
    nvidia(|s| {
        let region = s.visible_buffer(64);
        s.mock.plant(MockFault::nth(1).of(MockCall::Map));
        assert!(s.gpu.map(&region).is_err());
        assert_eq!(s.gpu.info(region.id()).unwrap().maps(), 0);
        let mapping = s.gpu.map(&region).unwrap();
        assert_eq!(s.gpu.info(region.id()).unwrap().maps(), 1);
        drop(mapping);
        s.free(region);
    });
}

#[test]
fn h109_coherent_memory_needs_no_flush() {
    nvidia(|s| {
        let region = s.visible_buffer(64);
        let mapping = s.gpu.map(&region).unwrap();
        s.gpu.flush(&region, 0, 64).unwrap();
        s.gpu.invalidate(&region, 0, 64).unwrap();
        let calls = [MockCall::Flush, MockCall::Invalidate].map(|call| s.mock.calls(call));
        assert_eq!(calls, [0, 0]);
        drop(mapping);
        s.free(region);
    });
}
