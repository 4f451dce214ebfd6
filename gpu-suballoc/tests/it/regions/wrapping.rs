//! Buffers that the application made.

mod mapped;

use super::*;

#[test]
fn h36_a_wrap_that_is_refused_leaves_no_tables_for_other_calls_to_fill() {
    let bytes_of_many = |is_refused: bool| {
        let mock = Mock::new(Nvidia);
        let host = FailingAllocator::new(RecordingAllocator::system(), Fault::Never);
        let gpu = over(&mock, &host);
        let foreign = Foreign::new(&mock, 4096, 1);
        let mut live = vec![gpu.allocate(&bytes(64), &any()).unwrap()];
        if is_refused {
            host.arm(Fault::From(0));
            let refused = gpu.wrap(&WrapInfo::new(foreign.buffer, 4096));
            assert!(matches!(refused, Err(GpuError::Host(_))), "{refused:?}");
            host.disarm();
        }
        // More than the slots that are there, so that tables are filled.
        live.extend((0..200).map(|_| gpu.allocate(&bytes(64), &any()).unwrap()));
        let bytes = gpu.host_bytes();
        live.into_iter().for_each(|region| gpu.free(region).unwrap());
        bytes
    };
    assert_eq!(bytes_of_many(true), bytes_of_many(false));
    nvidia(|s| {
        let (owned, foreign) = (s.buffer(256), s.foreign(4096, 1));
        let before = s.host_bytes();
        let wrapped = s.must_wrap(&WrapInfo::new(foreign.buffer, 64));
        assert!(s.host_bytes() > before, "who wraps nothing pays nothing");
        s.free_each([wrapped, owned]);
    });
}

#[test]
fn h37_what_is_known_of_a_buffers_size_is_a_bound() {
    nvidia(|s| {
        let foreign = s.foreign(4096, 1);
        let known = WrapInfo { buffer_size: Some(foreign.size), size: None, ..WrapInfo::new(foreign.buffer, 0) };
        let rest = s.must_wrap(&known.offset(4000));
        assert_eq!(rest.size(), 96);
        s.free(rest);
        for (offset, size) in [(0, 4097), (4096, 1), (4095, 2), (u64::MAX, 1), (u64::MAX, u64::MAX), (1, u64::MAX)] {
            let info = WrapInfo { size: Some(size), ..known.offset(offset) };
            assert_eq!(s.wrap(&info), refusal(Outside), "{offset} {size}");
        }
        assert_eq!(s.wrap(&known.offset(5000)), refusal(Outside));
        assert_eq!(s.wrap(&known.offset(4096)), refusal(ZeroSize));
        // What is known of its memory is one too.
        let backed = |memory_size| WrapInfo {
            backing: Some(Backing {
                memory: foreign.memory,
                offset: 1024,
                memory_size,
                properties: PropertyFlags::DEVICE_LOCAL,
                mapped: None,
            }),
            ..known
        };
        let wrapped = s.must_wrap(&backed(1024 + 4096));
        s.free(wrapped);
        for memory_size in [0, 4096, 1024 + 4095] {
            let refused = s.wrap(&backed(memory_size)).unwrap_err();
            assert_eq!(refused, Outside.into(), "{memory_size}");
        }
        // Unknown sizes are believed, overflow is not.
        let unknown = WrapInfo::new(foreign.buffer, 1 << 40);
        s.free(s.must_wrap(&unknown));
        assert_eq!(s.wrap(&unknown.offset(u64::MAX)), refusal(Outside));
        assert_eq!(s.wrap(&WrapInfo { size: None, ..unknown }), refusal(ZeroSize));
    });
}

#[test]
fn h44_an_offset_of_no_whole_elements_has_no_descriptor() {
    for profile in MockProfile::ALL {
        on(profile, |s| {
            let foreign = s.foreign(4096, 0);
            let odd = s.must_wrap(&WrapInfo::new(foreign.buffer, 512).offset(1));
            assert_eq!(s.descriptor(&odd, 4, DescriptorUse::Uniform), Err(NoDescriptorOffset));
            assert_eq!(s.descriptor(&odd, 0, DescriptorUse::Texel), Err(ZeroElement));
            assert_eq!(s.descriptor(&odd, 1, DescriptorUse::Texel).unwrap().index, 1);
            s.free(odd);
        });
    }
}

/// The sizes are the application's word: they may be anything, and their sum is kept in 64 bits.
#[test]
fn wrapped_bytes_overflow_is_refused_and_nothing_is_left() {
    nvidia(|s| {
        let buffer = BufferHandle::from_raw(7).unwrap();
        let all = s.must_wrap(&WrapInfo::new(buffer, u64::MAX - 100));
        let (before, host) = (s.stats(), s.host.total().live_blocks);
        let backing = Backing {
            memory: s.foreign(64, 1).memory,
            offset: 0,
            memory_size: u64::MAX,
            properties: VISIBLE,
            mapped: None,
        };
        // Often enough that a slot lost with each would be missed.
        for size in [101, 1 << 63, u64::MAX].into_iter().cycle().take(300) {
            let info = WrapInfo::new(buffer, size).backing(backing).name("too much").tag(1);
            let short_by = size - 100;
            assert_eq!(s.wrap(&info).unwrap_err(), Limit::WrappedBytes { short_by }.into());
            assert_eq!((s.stats(), s.host.total().live_blocks), (before, host), "as it was");
        }
        let rest = s.must_wrap(&WrapInfo::new(buffer, 100));
        assert_eq!(s.total().wrapped_bytes, u64::MAX);
        s.free(all);
        assert_eq!((s.total().wrapped, s.total().wrapped_bytes), (1, 100));
        let again = s.must_wrap(&WrapInfo::new(buffer, u64::MAX - 100));
        s.free(again);
        s.free(rest);
        assert_eq!((s.total().wrapped, s.total().wrapped_bytes), (0, 0));
    });
}

/// No memory object may be mapped twice (VUID-vkMapMemory-memory-00678), and of its own the allocator knows.
#[test]
fn a_wrap_that_names_the_allocators_own_memory_is_refused_with_the_remedy() {
    nvidia(|s| {
        let dedicated = visible().dedicated(Required);
        for options in [visible(), visible().lifetime(Transient), dedicated] {
            let region = s.take(4096, &options);
            // SAFETY: a mock; the info is valid.
            let buffer = unsafe { s.mock.create_buffer(&copied(4096)) }.unwrap();
            let memory = region.memory().unwrap();
            // SAFETY: the region is for it.
            unsafe { s.mock.bind_buffer(buffer, memory, region.offset()) }.unwrap();
            let memory_size = s.mock.memory(memory).unwrap().request.size;
            let mapping = s.must_map(&region);
            for mapped in [None, NonNull::new(mapping.as_ptr())] {
                let backing = Backing { memory, offset: region.offset(), memory_size, properties: VISIBLE, mapped };
                let wrapped = s.wrap(&WrapInfo::new(buffer, 4096).backing(backing)).map(|wrapped| {
                    // What it led to.
                    drop(s.map(&wrapped));
                    s.free(wrapped);
                });
                assert_eq!(wrapped, refusal(OwnMemory));
            }
            // Said not to be visible it is never mapped, and so not twice.
            let backing =
                Backing { memory, offset: region.offset(), memory_size, properties: PropertyFlags::NONE, mapped: None };
            let wrapped = s.must_wrap(&WrapInfo::new(buffer, 4096).backing(backing));
            assert!(s.map(&wrapped).is_err());
            s.free(wrapped);
            drop(mapping);
            // As the error says: without it, and the region is what is mapped.
            let wrapped = s.must_wrap(&WrapInfo::new(buffer, 4096));
            drop(s.must_map(&region));
            s.free(wrapped);
            // SAFETY: made above, and used by nobody.
            unsafe { s.mock.destroy_buffer(buffer) };
            s.free(region);
        }
        // Another allocator's memory is the application's here.
        let foreign = s.foreign(4096, 2);
        let backing =
            Backing { memory: foreign.memory, offset: 0, memory_size: 4096, properties: VISIBLE, mapped: None };
        let wrapped = s.must_wrap(&WrapInfo::new(foreign.buffer, 4096).backing(backing));
        drop(s.must_map(&wrapped));
        s.free(wrapped);
    });
}
