//! Regions in the host's address space.

use super::*;

#[test]
fn what_the_device_wrote_is_read_after_an_invalidate() {
    on(Tiler, |s| {
        let region = s.buffer_with(1000, &host());
        let crop = s.must_crop(&region, 100, 200, 4);
        assert_eq!(s.invalidate(&crop, 0, 200), refusal(NotMapped));
        let mapping = s.must_map(&crop);
        assert!(s.mock.fill_buffer(region.buffer().unwrap(), 0, 1000, 5));
        s.invalidate(&crop, 0, 200).unwrap();
        // SAFETY: mapped, so long, nobody else's.
        let seen = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), mapping.len()) };
        assert!(seen.iter().all(|byte| *byte == 5));
        for (offset, size, rule) in
            [(0, 201, Outside), (200, 1, Outside), (u64::MAX, 2, Outside), (201, u64::MAX, Outside), (201, 0, Outside)]
        {
            assert_eq!(s.invalidate(&crop, offset, size), refusal(rule));
            assert_eq!(s.flush(&crop, offset, size), refusal(rule));
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
    for dedicated in [Never, Required] {
        on(Tiler, |s| {
            let options = host().dedicated(dedicated);
            let (region, neighbour) = (s.buffer_with(1000, &options), s.buffer_with(64, &options));
            let calls = |s: &Scene<'_>| s.mock.calls(Flush) + s.mock.calls(Invalidate);
            for offset in [0, 500, 1000] {
                assert_eq!(s.flush(&region, offset, 0), Ok(()), "not mapped");
                assert_eq!(s.invalidate(&region, offset, 0), Ok(()));
            }
            assert_eq!(s.flush(&region, 0, WHOLE), refusal(NotMapped));
            let crop = s.must_crop(&region, 100, 200, 4);
            let (mapping, beside) = (s.must_map(&crop), s.must_map(&neighbour));
            assert_eq!(s.flush(&crop, 200, WHOLE), Ok(()), "nothing is left");
            assert_eq!(calls(&s), 0);
            let buffer = region.buffer().unwrap();
            assert!(s.mock.fill_buffer(buffer, 0, 1000, 5));
            assert!(s.mock.fill_buffer(neighbour.buffer().unwrap(), 0, 64, 5));
            s.invalidate(&crop, 64, WHOLE).unwrap();
            // SAFETY: mapped, so long, nobody else's.
            let seen = unsafe { std::slice::from_raw_parts(mapping.as_ptr(), mapping.len()) };
            assert!(seen[64..].iter().all(|byte| *byte == 5));
            // SAFETY: within the mapped memory object; nobody writes to it.
            let other = unsafe { beside.as_ptr().read() };
            assert_ne!(other, 5, "a neighbour's bytes are not read again");
            // SAFETY: mapped, so long, and no longer looked at.
            unsafe { mapping.as_ptr().write_bytes(6, mapping.len()) };
            s.flush_id(crop.id(), 0, WHOLE).unwrap();
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
        let crop = s.must_crop(&region, 64, 64, 1);
        let (of_region, of_crop) = (s.must_map(&region), s.must_map(&crop));
        assert_eq!(
            s.gpu.free(crop).map_err(|refused| (refused.error, s.free_when_unused(refused.value).is_ok())),
            Err((Mapped.into(), true))
        );
        s.free_when_unused(region).unwrap();
        let destroyed = || s.mock.calls(DestroyBuffer);
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
        s.mock.plant(MockFault::nth(1).of(Map));
        assert!(s.map(&region).is_err());
        assert_eq!(s.must_info(region.id()).maps(), 0);
        let mapping = s.must_map(&region);
        assert_eq!(s.must_info(region.id()).maps(), 1);
        drop(mapping);
        s.free(region);
    });
}

#[test]
fn h109_coherent_memory_needs_no_flush() {
    nvidia(|s| {
        let region = s.visible_buffer(64);
        let mapping = s.must_map(&region);
        s.flush(&region, 0, 64).unwrap();
        s.invalidate(&region, 0, 64).unwrap();
        let calls = [Flush, Invalidate].map(|call| s.mock.calls(call));
        assert_eq!(calls, [0, 0]);
        drop(mapping);
        s.free(region);
    });
}
