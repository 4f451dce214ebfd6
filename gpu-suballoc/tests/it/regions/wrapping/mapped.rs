//! Wrapped buffers whose memory is known.

use super::*;

fn backing(s: &Scene<'_>, foreign: &Foreign<'_>, properties: PropertyFlags) -> Backing {
    let memory_size = s.mock.memory(foreign.memory).unwrap().request.size;
    Backing { memory: foreign.memory, offset: 0, memory_size, properties, mapped: None }
}

#[test]
fn h46_a_wrapped_buffer_is_mapped_only_where_its_memory_is_known() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 2);
        let reason = |info: &WrapInfo<'_>| {
            let region = s.must_wrap(info);
            let crop = s.must_crop(&region, 16, 16, 1);
            let error = s.map(&region).unwrap_err();
            assert_eq!(s.map(&crop).unwrap_err(), error, "as its crops");
            assert_eq!(s.flush(&crop, 0, 1).unwrap_err(), error);
            s.free(crop);
            s.free(region);
            error
        };
        let info = WrapInfo::new(foreign.buffer, 4096);
        let unsupported = |reason| GpuError::MapUnsupported { reason };
        assert_eq!(reason(&info), unsupported(MapRefusal::BackingUnknown));
        let device_local = backing(&s, &foreign, PropertyFlags::DEVICE_LOCAL);
        assert_eq!(reason(&info.backing(device_local)), unsupported(MapRefusal::BackingNotHostVisible));
        assert!(unsupported(MapRefusal::BackingUnknown).to_string().contains("backing"), "the reason says the remedy");

        // Told its memory, two wraps of it share one mapping, and it ends with the last.
        let told = info.backing(backing(&s, &foreign, VISIBLE));
        let (whole, part) = (s.must_wrap(&told), s.must_wrap(&WrapInfo { size: Some(96), ..told.offset(100) }));
        let crop = s.must_crop(&part, 4, 8, 4);
        let offsets = [&whole, &part, &crop].map(Region::offset);
        assert_eq!(offsets, [0, 100, 104], "in its memory");
        let maps = || (s.mock.calls(Map), s.mock.calls(Unmap));
        let before = maps();
        let (one, two, three) = (s.must_map(&whole), s.must_map(&part), s.must_map(&crop));
        assert_eq!(
            (two.as_ptr() as usize - one.as_ptr() as usize, three.as_ptr() as usize - one.as_ptr() as usize),
            (100, 104)
        );
        // SAFETY: mapped, and nobody else uses it.
        unsafe { three.as_ptr().write(42) };
        assert_eq!(s.read(&crop, 1), [42]);
        drop((one, two));
        assert_eq!(maps(), (before.0 + 1, before.1), "mapped once, and still");
        s.flush(&crop, 0, 8).unwrap();
        assert_eq!(s.mock.calls(Flush), 0, "it is coherent");
        drop(three);
        assert_eq!(maps(), (before.0 + 1, before.1 + 1));
        let not_mapped = refusal(NotMapped);
        assert_eq!(s.flush(&crop, 0, 8), not_mapped, "any more");
        s.free_each([crop, part, whole]);
    });
}

#[test]
fn a_mapping_of_the_applications_own_is_used_and_left_alone() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 2);
        // SAFETY: a mock; live, visible, not mapped.
        let start = unsafe { DeviceMemory::map(s.mock, foreign.memory, 0, 4096) }.unwrap();
        let told = Backing { mapped: Some(start), ..backing(&s, &foreign, VISIBLE) };
        let region = s.must_wrap(&WrapInfo::new(foreign.buffer, 64).offset(32).backing(told));
        let calls = s.mock.all_calls();
        let mapping = s.must_map(&region);
        assert_eq!(mapping.as_ptr(), start.as_ptr().wrapping_add(32));
        assert_eq!(
            s.gpu.free(region).map_err(|refused| (refused.error, drop(mapping), s.free(refused.value))),
            Err((Mapped.into(), (), ()))
        );
        assert_eq!(s.mock.all_calls(), calls, "neither mapped nor unmapped");
        assert!(s.mock.memory(foreign.memory).unwrap().mapped.is_some());
        // SAFETY: mapped above.
        unsafe { DeviceMemory::unmap(s.mock, foreign.memory) };
    });
}
