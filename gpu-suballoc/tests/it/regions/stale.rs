//! What was true a moment ago: regions that went meanwhile, by their ids or on other threads.

use std::sync::atomic::Ordering;

use super::*;

/// The tiler's memory that the host sees and has to flush.
const NON_COHERENT: u32 = 1;

fn told(foreign: &Foreign<'_>, mapped: Option<NonNull<u8>>) -> Backing {
    let memory_size = foreign.size.next_multiple_of(4096);
    Backing {
        memory: foreign.memory,
        offset: 0,
        memory_size,
        properties: PropertyFlags::HOST_VISIBLE,
        mapped,
    }
}

fn tiler(body: impl FnOnce(Scene<'_>)) {
    scene(MockProfile::Tiler, AllocatorOptions::default(), body);
}

#[test]
fn a_wrapped_buffer_that_was_forgotten_is_not_flushed_as_the_next_one() {
    tiler(|s| {
        let (large, small) = (
            s.foreign(1 << 20, NON_COHERENT),
            s.foreign(64, NON_COHERENT),
        );
        let start = |of: &Foreign<'_>, size| {
            // SAFETY: a mock; live, visible, not mapped.
            unsafe { DeviceMemory::map(s.mock, of.memory, 0, size) }.unwrap()
        };
        let (of_large, of_small) = (start(&large, 1 << 20), start(&small, 4096));
        let first = s
            .gpu
            .wrap(&WrapInfo::new(large.buffer, 1 << 20).backing(told(&large, Some(of_large))))
            .unwrap();
        s.gpu
            .flush(&first, 512 << 10, 4096)
            .expect("while it lives");
        s.gpu.free_id(first.id()).unwrap();
        // The same record, another buffer: far smaller than what the old region says of itself.
        let second = s
            .gpu
            .wrap(&WrapInfo::new(small.buffer, 64).backing(told(&small, Some(of_small))))
            .unwrap();
        assert_eq!(
            second.id().as_raw()[1],
            first.id().as_raw()[1],
            "it has the slot"
        );
        let calls = s.mock.all_calls();
        assert_eq!(
            s.gpu.flush(&first, 512 << 10, 4096),
            Err(GpuMisuse::Stale.into())
        );
        assert_eq!(
            s.gpu.invalidate(&first, 0, 64),
            Err(GpuMisuse::Stale.into())
        );
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
        let region = s
            .gpu
            .wrap(&WrapInfo::new(foreign.buffer, 1 << 16).backing(told(&foreign, None)))
            .unwrap();
        let (crop, over) = (
            s.gpu.crop(&region, 4096, 8192, 4).unwrap(),
            AtomicBool::new(false),
        );
        let (mut answers, mut flushed) = (Vec::new(), 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    drop((s.gpu.map(&region).unwrap(), s.gpu.map(&crop).unwrap()));
                }
            });
            while flushed < 20_000 && answers.len() < 1_000_000 {
                let [of_region, of_crop] =
                    [&region, &crop].map(|region| s.gpu.flush(region, 0, 8192));
                flushed += u32::from(of_region.is_ok()) + u32::from(of_crop.is_ok());
                answers.extend([of_region, of_crop]);
            }
            over.store(true, Ordering::Release);
        });
        let answered = |answer: &Result<(), GpuError>| {
            answer.map_or_else(|error| error == GpuMisuse::NotMapped.into(), |()| true)
        };
        assert!(
            answers.iter().all(answered),
            "a flush of what is not mapped reached the device"
        );
        assert!(flushed > 0, "none was mapped when it was flushed");
        // That no flush was of unmapped memory the scene sees at its end.
        s.free(crop);
        s.free(region);
    });
}

#[test]
fn a_memory_object_of_its_own_waits_for_the_flush_that_is_under_way() {
    tiler(|s| {
        let options = host().dedicated(DedicatedPolicy::Required);
        let (ids, freed) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                for id in freed {
                    s.gpu.unmap_id(id).unwrap();
                    s.gpu.free_id(id).unwrap();
                }
            });
            let ids = ids;
            for _ in 0..300 {
                let region = s.gpu.allocate(&bytes(1 << 16), &options).unwrap();
                s.gpu.map_id(region.id()).unwrap();
                s.gpu.flush(&region, 0, 1 << 16).unwrap();
                ids.send(region.id()).unwrap();
                let last = loop {
                    if let Err(error) = s.gpu.flush(&region, 0, 1 << 16) {
                        break error;
                    }
                };
                assert!(
                    matches!(
                        last,
                        GpuError::Misuse(GpuMisuse::NotMapped | GpuMisuse::Stale)
                    ),
                    "{last}"
                );
            }
        });
        assert_eq!(s.gpu.stats().total.regions, 0);
    });
}

#[test]
fn a_mapping_is_not_undone_by_id() {
    nvidia(|s| {
        let mut foreign = Vec::new();
        let mut regions: Vec<Region> = vec![s.visible_buffer(4096)];
        regions.push(s.gpu.crop(&regions[0], 256, 256, 1).unwrap());
        foreign.push(s.foreign(4096, 2));
        let properties = PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT;
        let backing = Backing {
            properties,
            ..told(&foreign[0], None)
        };
        regions.push(
            s.gpu
                .wrap(&WrapInfo::new(foreign[0].buffer, 4096).backing(backing))
                .unwrap(),
        );
        for region in &regions {
            let mapping = s.gpu.map(region).unwrap();
            assert_eq!(
                s.gpu.unmap_id(region.id()),
                Err(GpuMisuse::NotMapped.into()),
                "it is somebody's value"
            );
            // One by id beside it: that one goes, once.
            assert_eq!(
                s.gpu.map_id(region.id()).unwrap().as_ptr(),
                mapping.as_ptr()
            );
            assert_eq!(s.gpu.info(region.id()).unwrap().maps(), 2);
            s.gpu.unmap_id(region.id()).unwrap();
            assert_eq!(
                s.gpu.unmap_id(region.id()),
                Err(GpuMisuse::NotMapped.into())
            );
            // SAFETY: mapped still, and nobody else's.
            unsafe { mapping.as_ptr().write(1) };
            drop(mapping);
            assert_eq!(s.gpu.info(region.id()).unwrap().maps(), 0);
        }
        regions.into_iter().rev().for_each(|region| s.free(region));
    });
}

#[test]
fn what_waits_for_a_mapping_by_id_goes_when_that_is_undone() {
    nvidia(|s| {
        let root = s.visible_buffer(4096);
        let crop = s.gpu.crop(&root, 0, 64, 4).unwrap();
        let bare = s.take(4096, &visible());
        let ids = [crop.id(), root.id(), bare.id()];
        for id in ids {
            s.gpu.map_id(id).unwrap();
        }
        [crop, root, bare]
            .into_iter()
            .for_each(|region| s.gpu.free_when_unused(region).unwrap());
        assert_eq!(s.gpu.stats().total.regions, 2);
        for id in ids {
            assert_eq!(s.gpu.info(id).unwrap_err(), GpuMisuse::Stale);
            s.gpu.unmap_id(id).expect("it waited for this");
            assert_eq!(s.gpu.unmap_id(id), Err(GpuMisuse::Stale.into()));
        }
        assert_eq!(s.gpu.stats().total.regions, 0);
    });
}
