//! What was true a moment ago: regions that went meanwhile, by their ids or on other threads.

use std::sync::atomic::Ordering;

use super::*;

/// The tiler's memory that the host sees and has to flush.
const NON_COHERENT: u32 = 1;

fn told(foreign: &Foreign<'_>, mapped: Option<NonNull<u8>>) -> Backing {
    let memory_size = foreign.size.next_multiple_of(4096);
    Backing { memory: foreign.memory, offset: 0, memory_size, properties: PropertyFlags::HOST_VISIBLE, mapped }
}

fn tiler(body: impl FnOnce(Scene<'_>)) {
    on(Tiler, body);
}

#[test]
fn a_wrapped_buffer_that_was_forgotten_is_not_flushed_as_the_next_one() {
    tiler(|s| {
        let (large, small) = (s.foreign(1 << 20, NON_COHERENT), s.foreign(64, NON_COHERENT));
        let start = |of: &Foreign<'_>, size| {
            // SAFETY: a mock; live, visible, not mapped.
            unsafe { DeviceMemory::map(s.mock, of.memory, 0, size) }.unwrap()
        };
        let (of_large, of_small) = (start(&large, 1 << 20), start(&small, 4096));
        let first = s.must_wrap(&WrapInfo::new(large.buffer, 1 << 20).backing(told(&large, Some(of_large))));
        s.flush(&first, 512 << 10, 4096).expect("while it lives");
        s.free_id(first.id()).unwrap();
        // The same record, another buffer: far smaller than what the old region says of itself.
        let second = s.must_wrap(&WrapInfo::new(small.buffer, 64).backing(told(&small, Some(of_small))));
        assert_eq!(second.id().as_raw()[1], first.id().as_raw()[1], "it has the slot");
        let calls = s.mock.all_calls();
        assert_eq!(s.flush(&first, 512 << 10, 4096), refusal(Stale));
        assert_eq!(s.invalidate(&first, 0, 64), refusal(Stale));
        assert_eq!(s.mock.all_calls(), calls);
        s.free(second);
        for foreign in [&large, &small] {
            // SAFETY: mapped above.
            unsafe { DeviceMemory::unmap(s.mock, foreign.memory) };
        }
    });
}

#[test]
fn a_wrapped_buffer_stays_mapped_while_it_is_flushed() {
    tiler(|s| {
        let foreign = s.foreign(1 << 16, NON_COHERENT);
        let region = s.must_wrap(&WrapInfo::new(foreign.buffer, 1 << 16).backing(told(&foreign, None)));
        let (crop, over) = (s.must_crop(&region, 4096, 8192, 4), AtomicBool::new(false));
        let (mut answers, mut flushed) = (Vec::new(), 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    drop((s.must_map(&region), s.must_map(&crop)));
                }
            });
            while flushed < 20_000 && answers.len() < 1_000_000 {
                let [of_region, of_crop] = [&region, &crop].map(|region| s.flush(region, 0, 8192));
                flushed += u32::from(of_region.is_ok()) + u32::from(of_crop.is_ok());
                answers.extend([of_region, of_crop]);
            }
            over.store(true, Ordering::Release);
        });
        let answered = |answer: &Result<(), GpuError>| answer.map_or_else(|error| error == NotMapped.into(), |()| true);
        assert!(answers.iter().all(answered), "a flush of what is not mapped reached the device");
        assert!(flushed > 0, "none was mapped when it was flushed");
        // That no flush was of unmapped memory the scene sees at its end.
        s.free(crop);
        s.free(region);
    });
}

#[test]
fn a_memory_object_of_its_own_waits_for_the_flush_that_is_under_way() {
    tiler(|s| {
        let options = host().dedicated(Required);
        let (ids, freed) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                for id in freed {
                    s.unmap_id(id).unwrap();
                    s.free_id(id).unwrap();
                }
            });
            let ids = ids;
            for _ in 0..300 {
                let region = s.must_allocate(&bytes(1 << 16), &options);
                s.map_id(region.id()).unwrap();
                s.flush(&region, 0, 1 << 16).unwrap();
                ids.send(region.id()).unwrap();
                let last = loop {
                    if let Err(error) = s.flush(&region, 0, 1 << 16) {
                        break error;
                    }
                };
                assert!(matches!(last, GpuError::Misuse(NotMapped | Stale)), "{last}");
            }
        });
        assert_eq!(s.total().regions, 0);
    });
}

#[test]
fn a_mapping_is_not_undone_by_id() {
    nvidia(|s| {
        let mut foreign = Vec::new();
        let mut regions: Vec<Region> = vec![s.visible_buffer(4096)];
        regions.push(s.must_crop(&regions[0], 256, 256, 1));
        foreign.push(s.foreign(4096, 2));
        let properties = PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT;
        let backing = Backing { properties, ..told(&foreign[0], None) };
        regions.push(s.must_wrap(&WrapInfo::new(foreign[0].buffer, 4096).backing(backing)));
        for region in &regions {
            let mapping = s.must_map(region);
            assert_eq!(s.unmap_id(region.id()), refusal(NotMapped), "it is somebody's value");
            // One by id beside it: that one goes, once.
            assert_eq!(s.map_id(region.id()).unwrap().as_ptr(), mapping.as_ptr());
            assert_eq!(s.must_info(region.id()).maps(), 2);
            s.unmap_id(region.id()).unwrap();
            assert_eq!(s.unmap_id(region.id()), refusal(NotMapped));
            // SAFETY: mapped still, and nobody else's.
            unsafe { mapping.as_ptr().write(1) };
            drop(mapping);
            assert_eq!(s.must_info(region.id()).maps(), 0);
        }
        regions.into_iter().rev().for_each(|region| s.free(region));
    });
}

#[test]
fn what_waits_for_a_mapping_goes_with_it() {
    nvidia(|s| {
        let root = s.visible_buffer(4096);
        let crop = s.must_crop(&root, 0, 64, 4);
        let bare = s.take(4096, &visible());
        let (mapping, ids) = (s.must_map(&bare), [crop.id(), root.id()]);
        for id in ids {
            s.map_id(id).unwrap();
            s.flush_id(id, 0, 64).unwrap();
            s.invalidate_id(id, 0, 64).unwrap();
        }
        assert_eq!([Flush, Invalidate].map(|call| s.mock.calls(call)), [0, 0], "it is coherent");
        [crop, root, bare].into_iter().for_each(|region| s.free_when_unused(region).unwrap());
        assert_eq!(s.total().regions, 2);
        drop(mapping);
        assert_eq!(s.total().regions, 1);
        for id in ids {
            assert_eq!(s.info(id).unwrap_err(), Stale);
            s.unmap_id(id).expect("it waited for this");
            assert_eq!(s.unmap_id(id), refusal(Stale));
        }
        assert_eq!(s.total().regions, 0);
    });
}
