//! Mapping, flushing, invalidating.

use std::sync::Barrier;
use std::thread;
use std::vec::Vec;

use super::*;
use crate::device::{DeviceError, Fault, MockCall};
use crate::error::{MapRefusal, Misuse};
use crate::pool::MapPolicy;
use crate::property_flags::PropertyFlags as P;
use crate::request::Lifetime;

const POLICIES: [MapPolicy; 2] = [MapPolicy::Persistent, MapPolicy::Counted];

fn options(maps: MapPolicy) -> MemoryOptions {
    MemoryOptions { maps, ..MemoryOptions::default() }
}

#[test]
fn h113_two_regions_of_one_block_are_mapped_at_once_from_two_threads() {
    for maps in POLICIES {
        on_every(&options(maps), |bed| {
            let regions = [(); 2].map(|()| bed.place(&visible(4096)).unwrap());
            assert_eq!(regions[0].memory, regions[1].memory);
            // The mock sees two threads at one memory object.
            bed.mock.set_linger(50);
            let (places, offsets) = (regions.map(|region| region.at), regions.map(|region| region.offset));
            let barrier = Barrier::new(2);
            thread::scope(|scope| {
                for (turn, (at, offset)) in places.into_iter().zip(offsets).enumerate() {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        for round in 0..30u8 {
                            barrier.wait();
                            let first = bed.pools.map(bed.env(), at).unwrap();
                            let byte = round ^ (turn as u8) << 7;
                            // SAFETY: 4096 bytes of this region's own, mapped until `unmap`.
                            unsafe { first.as_ptr().write_bytes(byte, 4096) };
                            // SAFETY: as above, just written.
                            assert_eq!(unsafe { first.as_ptr().wrapping_add(4095).read() }, byte);
                            assert_eq!(bed.pools.find(at).map(|found| found.offset), Ok(offset));
                            bed.pools.flush(bed.env(), at, 0, 4096).unwrap();
                            bed.pools.unmap(bed.env(), at).unwrap();
                        }
                    });
                }
            });
            bed.mock.set_linger(0);
            let calls = (bed.mock.calls(MockCall::Map), bed.mock.calls(MockCall::Unmap));
            match maps {
                MapPolicy::Persistent => assert_eq!(calls, (1, 0), "mapped once, for good"),
                MapPolicy::Counted => assert_eq!(calls.0, calls.1),
            }
            assert_eq!(bed.pools.unmap(bed.env(), places[0]), Err(Misuse::NotMapped));
            regions.iter().for_each(|region| bed.give(region));
        });
    }
}

#[test]
fn h113_maps_are_counted() {
    on_every(&options(MapPolicy::Counted), |bed| {
        for lifetime in [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent] {
            let region = bed.place(&Ask { lifetime, ..visible(KIB) }).unwrap();
            let mapped = || bed.mock.memory(region.memory).unwrap().mapped.is_some();
            let first = bed.pools.map(bed.env(), region.at).unwrap();
            assert_eq!(bed.pools.map(bed.env(), region.at), Ok(first));
            bed.pools.unmap(bed.env(), region.at).unwrap();
            assert!(mapped());
            bed.pools.unmap(bed.env(), region.at).unwrap();
            assert!(!mapped());
            bed.give(&region);
            assert_eq!(bed.pools.map(bed.env(), region.at), Err(Misuse::Stale.into()));
        }
        let alone = bed.place(&Ask { dedicated: DedicatedPolicy::Required, ..visible(KIB) }).unwrap();
        bed.pools.map(bed.env(), alone.at).unwrap();
        assert_eq!(bed.pools.give(bed.env(), alone.at), Err(Misuse::Mapped));
        bed.pools.unmap(bed.env(), alone.at).unwrap();
        bed.give(&alone);
    });
}

#[test]
fn a_refused_map_leaves_it_unmapped() {
    on_every(&MemoryOptions::default(), |bed| {
        let region = bed.place(&visible(KIB)).unwrap();
        bed.mock.plant(Fault::nth(1).of(MockCall::Map));
        assert_eq!(bed.pools.map(bed.env(), region.at), Err(GpuError::Device(DeviceError::MapFailed)));
        assert_eq!(bed.pools.unmap(bed.env(), region.at), Err(Misuse::NotMapped));
        bed.pools.map(bed.env(), region.at).unwrap();
        bed.pools.unmap(bed.env(), region.at).unwrap();
        bed.give(&region);
    });
}

#[test]
fn what_the_host_cannot_see_is_not_mapped() {
    on_every(&MemoryOptions::default(), |bed| {
        let hidden = Ask { wish: Wish::default().avoiding(P::HOST_VISIBLE), ..shared(KIB) };
        let region = bed.place(&hidden).unwrap();
        let refused = bed.pools.map(bed.env(), region.at);
        if region.properties.contains(P::HOST_VISIBLE) {
            println!("every type is HOST_VISIBLE");
            bed.pools.unmap(bed.env(), region.at).unwrap();
        } else {
            assert_eq!(refused, Err(GpuError::MapUnsupported { reason: MapRefusal::NotHostVisible }));
            assert_eq!(bed.mock.calls(MockCall::Map), 0);
        }
        bed.give(&region);
    });
}

#[test]
fn h109_a_flush_names_whole_atoms_of_its_own_region() {
    for atom in [1u64, 64, 256] {
        let change = |mut facts: MockFacts| {
            facts.limits.non_coherent_atom_size = atom;
            facts
        };
        on_every_changed(&MemoryOptions::default(), change, |bed| {
            let visible = |size| Ask { wish: Wish::requiring(P::HOST_VISIBLE).avoiding(P::HOST_COHERENT), ..shared(size) };
            let regions: Vec<_> = (1..20u64).map(|size| bed.place(&visible(size * 77)).unwrap()).collect();
            for (index, region) in regions.iter().enumerate() {
                let size = (index as u64 + 1) * 77;
                assert_eq!((region.offset % atom, region.size % atom), (0, 0));
                let before = bed.mock.calls(MockCall::Flush) + bed.mock.calls(MockCall::Invalidate);
                assert_eq!(bed.pools.flush(bed.env(), region.at, 0, size), Err(Misuse::NotMapped.into()));
                bed.pools.map(bed.env(), region.at).unwrap();
                bed.pools.flush(bed.env(), region.at, 0, size).unwrap();
                bed.pools.flush(bed.env(), region.at, size - 1, 1).unwrap();
                bed.pools.invalidate(bed.env(), region.at, size / 2, size / 2).unwrap();
                for (offset, bytes) in [(0, region.size + 1), (region.size, 1), (u64::MAX, 2), (1, u64::MAX)] {
                    assert_eq!(bed.pools.flush(bed.env(), region.at, offset, bytes), Err(Misuse::Outside.into()));
                }
                bed.pools.unmap(bed.env(), region.at).unwrap();
                let asked = bed.mock.calls(MockCall::Flush) + bed.mock.calls(MockCall::Invalidate) - before;
                let coherent = region.properties.contains(P::HOST_COHERENT);
                assert_eq!(asked, if coherent { 0 } else { 3 }, "coherent memory needs none");
            }
            regions.iter().for_each(|region| bed.give(region));
            // A memory object of its own may end within an atom: so may the range.
            let alone = bed.place(&Ask { dedicated: DedicatedPolicy::Required, ..visible(1001) }).unwrap();
            bed.pools.map(bed.env(), alone.at).unwrap();
            bed.pools.flush(bed.env(), alone.at, 999, 2).unwrap();
            bed.pools.unmap(bed.env(), alone.at).unwrap();
            bed.give(&alone);
        });
    }
}

#[test]
fn memory_stays_while_it_is_mapped() {
    on_every(&MemoryOptions { keep_empty: Some(0), ..options(MapPolicy::Counted) }, |bed| {
        let region = bed.place(&visible(KIB)).unwrap();
        bed.pools.map(bed.env(), region.at).unwrap();
        // Freed under its mapping by somebody who knows no better: the block outlives that.
        bed.give(&region);
        assert_eq!((bed.native().0, bed.pools.trim(bed.env(), u64::MAX)), (1, 0));
        assert_eq!(bed.pools.unmap(bed.env(), region.at), Err(Misuse::Stale));
    });
}
