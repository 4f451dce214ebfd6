//! Regions in the host's address space.

use super::*;

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
            for (offset, size) in [(0, 201), (200, 1), (u64::MAX, 2), (201, WHOLE), (201, 0)] {
                assert_eq!(s.invalidate(&crop, offset, size), refusal(Outside));
                assert_eq!(s.flush(&crop, offset, size), refusal(Outside));
            }
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
