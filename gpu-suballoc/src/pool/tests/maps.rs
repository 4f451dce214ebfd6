//! Mapping, flushing, invalidating.

use std::sync::mpsc::channel;
use std::thread;
use std::vec::Vec;

use super::*;
use crate::device::DeviceError;
use crate::device::mock::{MockCall, MockFault};
use crate::error::{GpuMisuse, MapRefusal};
use crate::pool::MapPolicy;
use crate::property_flags::PropertyFlags as P;
use crate::request::Lifetime;

const POLICIES: [MapPolicy; 2] = [MapPolicy::Persistent, MapPolicy::Counted];

fn options(maps: MapPolicy) -> MemoryOptions {
    MemoryOptions {
        map_policy: maps,
        ..MemoryOptions::default()
    }
}

#[test]
fn h113_two_regions_of_one_block_are_mapped_at_once_from_two_threads() {
    for maps in POLICIES {
        on_every(&options(maps), |bed| {
            let regions = [(); 2].map(|()| bed.place(&visible(4096)).unwrap());
            assert_eq!(regions[0].memory, regions[1].memory);
            // The mock sees two threads at one memory object.
            bed.mock.set_linger(50);
            let (places, offsets) = (
                regions.map(|region| region.at),
                regions.map(|region| region.offset),
            );
            // They meet before each round: by channels, which end when the other thread does, and not by a barrier, which waits on.
            let ((to_one, from_other), (to_other, from_one)) = (channel(), channel());
            thread::scope(|scope| {
                let ends = [(to_other, from_other), (to_one, from_one)];
                for (turn, ((at, offset), (to, from))) in
                    places.into_iter().zip(offsets).zip(ends).enumerate()
                {
                    scope.spawn(move || {
                        for round in 0..30u8 {
                            to.send(()).expect("the other thread is there");
                            from.recv().expect("the other thread is there");
                            let first = bed.pools.map(bed.device_and_host(), at).unwrap();
                            let byte = round ^ (turn as u8) << 7;
                            // SAFETY: 4096 bytes of this region's own, mapped until `unmap`.
                            unsafe { first.as_ptr().write_bytes(byte, 4096) };
                            // SAFETY: as above, just written.
                            assert_eq!(unsafe { first.as_ptr().wrapping_add(4095).read() }, byte);
                            assert_eq!(bed.pools.find(at).map(|found| found.offset), Ok(offset));
                            bed.pools.flush(bed.device_and_host(), at, 0, 4096).unwrap();
                            bed.pools.unmap(bed.device_and_host(), at).unwrap();
                        }
                    });
                }
            });
            bed.mock.set_linger(0);
            let calls = (
                bed.mock.calls(MockCall::Map),
                bed.mock.calls(MockCall::Unmap),
            );
            match maps {
                MapPolicy::Persistent => assert_eq!(calls, (1, 0), "mapped once, for good"),
                MapPolicy::Counted => assert_eq!(calls.0, calls.1),
            }
            assert_eq!(
                bed.pools.unmap(bed.device_and_host(), places[0]),
                Err(GpuMisuse::NotMapped)
            );
            regions.iter().for_each(|region| bed.free(region));
        });
    }
}

#[test]
fn h113_maps_are_counted() {
    on_every(&options(MapPolicy::Counted), |bed| {
        for lifetime in [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent] {
            let region = bed
                .place(&AllocationRequest {
                    lifetime,
                    ..visible(KIB)
                })
                .unwrap();
            let mapped = || bed.mock.memory(region.memory).unwrap().mapped.is_some();
            let first = bed.pools.map(bed.device_and_host(), region.at).unwrap();
            assert_eq!(bed.pools.map(bed.device_and_host(), region.at), Ok(first));
            bed.pools.unmap(bed.device_and_host(), region.at).unwrap();
            assert!(mapped());
            bed.pools.unmap(bed.device_and_host(), region.at).unwrap();
            assert!(!mapped());
            bed.free(&region);
            assert_eq!(
                bed.pools.map(bed.device_and_host(), region.at),
                Err(GpuMisuse::Stale.into())
            );
        }
        let alone = bed
            .place(&AllocationRequest {
                dedicated: DedicatedPolicy::Required,
                ..visible(KIB)
            })
            .unwrap();
        bed.pools.map(bed.device_and_host(), alone.at).unwrap();
        bed.pools.unmap(bed.device_and_host(), alone.at).unwrap();
        bed.free(&alone);
    });
}

#[test]
fn a_refused_map_leaves_it_unmapped() {
    on_every(&MemoryOptions::default(), |bed| {
        let region = bed.place(&visible(KIB)).unwrap();
        bed.mock.plant(MockFault::nth(1).of(MockCall::Map));
        assert_eq!(
            bed.pools.map(bed.device_and_host(), region.at),
            Err(GpuError::Device(DeviceError::MapFailed))
        );
        assert_eq!(
            bed.pools.unmap(bed.device_and_host(), region.at),
            Err(GpuMisuse::NotMapped)
        );
        bed.pools.map(bed.device_and_host(), region.at).unwrap();
        bed.pools.unmap(bed.device_and_host(), region.at).unwrap();
        bed.free(&region);
    });
}

#[test]
fn what_the_host_cannot_see_is_not_mapped() {
    on_every(&MemoryOptions::default(), |bed| {
        let hidden = AllocationRequest {
            preference: MemoryPreference::default().avoiding(P::HOST_VISIBLE),
            ..shared(KIB)
        };
        let region = bed.place(&hidden).unwrap();
        let refused = bed.pools.map(bed.device_and_host(), region.at);
        if region.properties.contains(P::HOST_VISIBLE) {
            println!("every type is HOST_VISIBLE");
            bed.pools.unmap(bed.device_and_host(), region.at).unwrap();
        } else {
            assert_eq!(
                refused,
                Err(GpuError::MapUnsupported {
                    reason: MapRefusal::NotHostVisible
                })
            );
            assert_eq!(bed.mock.calls(MockCall::Map), 0);
        }
        bed.free(&region);
    });
}

#[test]
fn h109_a_flush_names_whole_atoms_of_its_own_region() {
    for atom in [1u64, 64, 256] {
        let change = |mut config: MockConfig| {
            config.limits.non_coherent_atom_size = atom;
            config
        };
        on_every_changed(&MemoryOptions::default(), change, |bed| {
            let visible = |size| AllocationRequest {
                preference: MemoryPreference::requiring(P::HOST_VISIBLE).avoiding(P::HOST_COHERENT),
                ..shared(size)
            };
            let regions: Vec<_> = (1..20u64)
                .map(|size| bed.place(&visible(size * 77)).unwrap())
                .collect();
            for (index, region) in regions.iter().enumerate() {
                let size = (index as u64 + 1) * 77;
                assert_eq!((region.offset % atom, region.size % atom), (0, 0));
                let before = bed.mock.calls(MockCall::Flush) + bed.mock.calls(MockCall::Invalidate);
                assert_eq!(
                    bed.pools.flush(bed.device_and_host(), region.at, 0, size),
                    Err(GpuMisuse::NotMapped.into())
                );
                bed.pools.map(bed.device_and_host(), region.at).unwrap();
                bed.pools
                    .flush(bed.device_and_host(), region.at, 0, size)
                    .unwrap();
                bed.pools
                    .flush(bed.device_and_host(), region.at, size - 1, 1)
                    .unwrap();
                bed.pools
                    .invalidate(bed.device_and_host(), region.at, size / 2, size / 2)
                    .unwrap();
                for (offset, bytes) in [
                    (0, region.size + 1),
                    (region.size, 1),
                    (u64::MAX, 2),
                    (1, u64::MAX),
                ] {
                    assert_eq!(
                        bed.pools
                            .flush(bed.device_and_host(), region.at, offset, bytes),
                        Err(GpuMisuse::Outside.into())
                    );
                }
                bed.pools.unmap(bed.device_and_host(), region.at).unwrap();
                let asked =
                    bed.mock.calls(MockCall::Flush) + bed.mock.calls(MockCall::Invalidate) - before;
                let coherent = region.properties.contains(P::HOST_COHERENT);
                assert_eq!(
                    asked,
                    if coherent { 0 } else { 3 },
                    "coherent memory needs none"
                );
            }
            regions.iter().for_each(|region| bed.free(region));
            // A memory object of its own may end within an atom: so may the range.
            let alone = bed
                .place(&AllocationRequest {
                    dedicated: DedicatedPolicy::Required,
                    ..visible(1001)
                })
                .unwrap();
            bed.pools.map(bed.device_and_host(), alone.at).unwrap();
            bed.pools
                .flush(bed.device_and_host(), alone.at, 999, 2)
                .unwrap();
            bed.pools.unmap(bed.device_and_host(), alone.at).unwrap();
            bed.free(&alone);
        });
    }
}

#[test]
fn memory_stays_while_it_is_mapped() {
    on_every(
        &MemoryOptions {
            keep_empty: Some(0),
            ..options(MapPolicy::Counted)
        },
        |bed| {
            let region = bed.place(&visible(KIB)).unwrap();
            bed.pools.map(bed.device_and_host(), region.at).unwrap();
            // Freed under its mapping by somebody who knows no better: the block outlives that.
            bed.free(&region);
            assert_eq!(
                (
                    bed.native().0,
                    bed.pools.trim(bed.device_and_host(), u64::MAX)
                ),
                (1, 0)
            );
            assert_eq!(
                bed.pools.unmap(bed.device_and_host(), region.at),
                Err(GpuMisuse::Stale)
            );
        },
    );
}

/// What the records let go may still be flushed by somebody: it is nobody's at once, and goes when that is over.
#[test]
fn memory_of_its_own_that_is_freed_while_it_is_flushed_goes_with_the_flush() {
    on_every(&options(MapPolicy::Counted), |bed| {
        let alone = bed
            .place(&AllocationRequest {
                dedicated: DedicatedPolicy::Required,
                ..visible(KIB)
            })
            .unwrap();
        // As a flush counts it.
        bed.pools.map(bed.device_and_host(), alone.at).unwrap();
        let (objects, regions) = (bed.native().0, bed.pools.live_regions());
        bed.free(&alone);
        assert_eq!(bed.pools.find(alone.at).err(), Some(GpuMisuse::Stale));
        assert_eq!(
            bed.pools.free(bed.device_and_host(), alone.at),
            Err(GpuMisuse::Stale),
            "once"
        );
        assert_eq!(
            bed.pools.map(bed.device_and_host(), alone.at),
            Err(GpuMisuse::Stale.into())
        );
        assert_eq!(
            (bed.native().0, bed.pools.live_regions()),
            (objects, regions - 1),
            "the driver has it back deferred"
        );
        bed.check();
        bed.pools
            .unmap_object(bed.device_and_host(), alone.at.block)
            .unwrap();
        assert_eq!(bed.native().0, objects - 1);
    });
}
