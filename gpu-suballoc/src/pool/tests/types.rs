//! Which type and heap, and what the driver is told.

use std::collections::BTreeSet;
use std::vec::Vec;

use super::*;
use crate::device::mock::MockCall;
use crate::device::{BufferInfo, BufferUsage, ExternalHandleTypes, ResourceHandle};
use crate::id::PlaceKind;
use crate::property_flags::PropertyFlags as P;
use crate::request::{Lifetime, ResourceKind};

#[test]
fn h108_only_types_that_the_resource_accepts_are_taken() {
    on_every(&MemoryOptions::default(), |bed| {
        let types = bed.mock.properties().types.to_vec();
        let mut taken = 0;
        for (index, memory_type) in (0u32..).zip(&types) {
            let special = P::PROTECTED
                | P::LAZILY_ALLOCATED
                | P::DEVICE_COHERENT_AMD
                | P::DEVICE_UNCACHED_AMD;
            let request = AllocationRequest {
                memory_type_bits: 1 << index,
                ..AllocationRequest::new(KIB, 1)
            };
            match bed.place(&request) {
                Ok(region) => {
                    assert_eq!(
                        (region.memory_type, region.properties),
                        (index, memory_type.properties)
                    );
                    assert_eq!(
                        bed.mock.memory(region.memory).unwrap().request.memory_type,
                        index
                    );
                    assert_eq!(
                        memory_type.properties.without(special),
                        memory_type.properties
                    );
                    taken += 1;
                    bed.free(&region);
                }
                Err(error) => {
                    assert!(matches!(error, GpuError::MemoryType(_)), "{error:?}");
                    assert_ne!(
                        memory_type.properties.without(special),
                        memory_type.properties
                    );
                }
            }
        }
        assert!(taken >= 1);
    });
}

#[test]
fn h108_the_next_type_in_order_is_taken_where_the_heap_is_full() {
    on_every(&MemoryOptions::default(), |bed| {
        let preference = MemoryPreference::default().preferring(P::DEVICE_LOCAL);
        let request = AllocationRequest {
            preference,
            ..shared(MIB)
        };
        let first = bed.place(&request).unwrap();
        let (heap, size) = heap_of(bed, &first);
        bed.free(&first);
        bed.pools.trim(bed.device_and_host(), u64::MAX);
        // Somebody else has taken all of it: the driver refuses, the next heap that is accepted has room.
        bed.mock.use_elsewhere(heap as usize, size);
        let next = bed.place(&request);
        let others = bed.mock.properties().heaps.len() > 1;
        assert_eq!(next.is_ok(), others, "{:?}", next.map(|placed| placed.at));
        if let Ok(next) = bed.place(&request) {
            assert_ne!(heap_of(bed, &next).0, heap, "one full heap vetoes no other");
            bed.free(&next);
        }
        if let Ok(next) = next {
            bed.free(&next);
        }
        // What is required is never given up for room.
        let must = AllocationRequest {
            memory_type_bits: 1 << first.memory_type,
            ..request
        };
        assert!(bed.place(&must).is_err());
        bed.mock.use_elsewhere(heap as usize, 0);
        let again = bed.place(&must).unwrap();
        bed.free(&again);
    });
}

#[test]
fn a_heap_within_its_budget_is_preferred_and_none_is_no_refusal() {
    on_every(&MemoryOptions::default(), |bed| {
        let properties = bed.mock.properties();
        if !properties.features.memory_budget {
            println!("no VK_EXT_memory_budget");
            return;
        }
        let first = bed.place(&shared(KIB)).unwrap();
        let (heap, _) = heap_of(bed, &first);
        bed.mock.set_budget(heap as usize, Some(1));
        assert!(bed.pools.set_frame(bed.device_and_host(), 1));
        let calls = bed.mock.calls(MockCall::Budget);
        let large = bed.place(&shared(32 * MIB)).unwrap();
        assert_eq!(
            heap_of(bed, &large).0 == heap,
            properties.heaps.len() == 1,
            "another heap has room"
        );
        for heap in 0..properties.heaps.len() {
            bed.mock.set_budget(heap, Some(1));
        }
        assert!(bed.pools.set_frame(bed.device_and_host(), 2));
        assert!(
            !bed.pools.set_frame(bed.device_and_host(), 2),
            "once a frame"
        );
        let over = bed.place(&shared(32 * MIB)).unwrap();
        assert_eq!(
            heap_of(bed, &over).0,
            heap,
            "over every budget: the best type after all"
        );
        let strict = AllocationRequest {
            within_budget: true,
            ..shared(64 * MIB)
        };
        assert!(matches!(bed.place(&strict), Err(GpuError::Limit(_))));
        let more: Vec<_> = (0..200).map(|_| bed.place(&shared(KIB)).unwrap()).collect();
        assert_eq!(
            bed.mock.calls(MockCall::Budget),
            calls + 1,
            "budgets are asked for once a frame, not for each region"
        );
        [first, large, over]
            .iter()
            .chain(&more)
            .for_each(|region| bed.free(region));
    });
}

#[test]
fn h78_a_request_that_asks_for_nothing_poisons_nothing() {
    on_every(&MemoryOptions::default(), |bed| {
        let any = bed.place(&shared(KIB)).unwrap();
        // Exactly what that memory can do, asked for by name: the rest of the block is as good as it was.
        let exact = AllocationRequest {
            preference: MemoryPreference::requiring(any.properties),
            memory_type_bits: 1 << any.memory_type,
            ..shared(KIB)
        };
        let named = bed.place(&exact).unwrap();
        assert_eq!((named.memory, bed.native().0), (any.memory, 1));
        bed.free(&any);
        bed.free(&named);
    });
}

#[test]
fn dedicated_requirements_go_through() {
    on_every(&MemoryOptions::default(), |bed| {
        let features = bed.mock.properties().features;
        let info = BufferInfo::new(5000, BufferUsage::STORAGE_BUFFER);
        // SAFETY: valid on every profile.
        let buffer = unsafe { bed.mock.create_buffer(&info) }.unwrap();
        // SAFETY: live.
        let needs = unsafe { bed.mock.buffer_requirements(buffer) };
        let request = AllocationRequest {
            memory_type_bits: needs.memory_type_bits,
            resource: Some(ResourceHandle::Buffer(buffer)),
            ..AllocationRequest::new(needs.size, needs.alignment)
        };
        for (alone, request) in [
            (
                true,
                AllocationRequest {
                    requires_dedicated: true,
                    dedicated: DedicatedPolicy::Never,
                    ..request
                },
            ),
            (
                true,
                AllocationRequest {
                    prefers_dedicated: true,
                    ..request
                },
            ),
            (
                true,
                AllocationRequest {
                    dedicated: DedicatedPolicy::Required,
                    ..request
                },
            ),
            (
                true,
                AllocationRequest {
                    dedicated: DedicatedPolicy::Preferred,
                    ..request
                },
            ),
            (
                false,
                AllocationRequest {
                    prefers_dedicated: true,
                    dedicated: DedicatedPolicy::Never,
                    ..request
                },
            ),
            (false, request),
        ] {
            let region = bed.place(&request).unwrap();
            assert_eq!(region.at.kind() == PlaceKind::Dedicated, alone);
            let request = bed.mock.memory(region.memory).unwrap().request;
            let named =
                (alone && features.dedicated_allocation).then_some(ResourceHandle::Buffer(buffer));
            assert_eq!(request.dedicated, named);
            assert!(!alone || (request.size == needs.size && region.offset == 0));
            bed.free(&region);
        }
        // SAFETY: live, never bound.
        unsafe { bed.mock.destroy_buffer(buffer) };
        // The large are alone by themselves.
        let region = bed.place(&AllocationRequest::new(200 * MIB, 1)).unwrap();
        assert_eq!(region.at.kind(), PlaceKind::Dedicated);
        bed.free(&region);
    });
}

#[test]
fn priority_export_and_addresses_are_passed_on_where_they_are_enabled() {
    on_every(&MemoryOptions::default(), |bed| {
        let features = bed.mock.properties().features;
        let shared_one = bed.place(&shared(KIB)).unwrap();
        let request = bed.mock.memory(shared_one.memory).unwrap().request;
        assert_eq!(request.device_address, features.buffer_device_address);
        assert_eq!(request.priority, None);
        let request = AllocationRequest {
            priority: Some(0.75),
            dedicated: DedicatedPolicy::Required,
            ..AllocationRequest::new(KIB, 1)
        };
        let alone = bed.place(&request).unwrap();
        assert_eq!(
            bed.mock.memory(alone.memory).unwrap().request.priority,
            features.memory_priority.then_some(0.75)
        );
        let export = ExternalHandleTypes::OPAQUE_FD;
        let exported = bed.place(&AllocationRequest {
            export,
            ..AllocationRequest::new(KIB, 1)
        });
        assert_eq!(exported.is_ok(), features.external_memory);
        if let Ok(exported) = exported {
            assert_eq!(exported.at.kind(), PlaceKind::Dedicated);
            assert_eq!(
                bed.mock.memory(exported.memory).unwrap().request.export,
                export
            );
            bed.free(&exported);
        }
        bed.free(&shared_one);
        bed.free(&alone);
    });
    on_every(
        &MemoryOptions {
            device_address: false,
            ..MemoryOptions::default()
        },
        |bed| {
            let region = bed.place(&shared(KIB)).unwrap();
            assert!(
                !bed.mock
                    .memory(region.memory)
                    .unwrap()
                    .request
                    .device_address
            );
            bed.free(&region);
        },
    );
}

#[test]
fn linear_and_optimal_resources_never_share_a_granularity_page() {
    for granularity in [None, Some(1), Some(1024), Some(131_072)] {
        let change = |mut config: MockConfig| {
            config.limits.buffer_image_granularity =
                granularity.unwrap_or(config.limits.buffer_image_granularity);
            config
        };
        on_every_changed(&MemoryOptions::default(), change, |bed| {
            let page = bed.mock.properties().limits.buffer_image_granularity;
            let kinds = [
                ResourceKind::Linear,
                ResourceKind::Optimal,
                ResourceKind::Unknown,
            ];
            let mut regions = Vec::new();
            for turn in 0..90u64 {
                let kind = kinds[turn as usize % 3];
                let lifetime = [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent]
                    [turn as usize / 3 % 3];
                let size = 1 + turn * 977 % 9000;
                let region = bed
                    .place(&AllocationRequest {
                        kind,
                        lifetime,
                        ..shared(size)
                    })
                    .unwrap();
                assert!(region.size >= size);
                regions.push((kind, region));
            }
            let mut pages: BTreeSet<(u64, u64, &str)> = BTreeSet::new();
            for (kind, region) in &regions {
                let unknown = *kind == ResourceKind::Unknown;
                if unknown && page > 256 {
                    assert_eq!(
                        (region.offset % page, region.size % page),
                        (0, 0),
                        "padded at both ends"
                    );
                }
                for name in ["linear", "optimal"] {
                    let is = match kind {
                        ResourceKind::Linear => name == "linear",
                        ResourceKind::Optimal => name == "optimal",
                        ResourceKind::Unknown => true,
                    };
                    for at in region.offset / page..=(region.offset + region.size - 1) / page {
                        if is && page > 256 && !unknown {
                            pages.insert((region.memory.as_raw(), at, name));
                        } else if unknown && page > 256 {
                            assert!(
                                pages.insert((region.memory.as_raw(), at, name)),
                                "a page of its own"
                            );
                        }
                    }
                }
            }
            for (memory, at, name) in &pages {
                let both = pages.contains(&(*memory, *at, "linear"))
                    && pages.contains(&(*memory, *at, "optimal"));
                let unknown = regions.iter().any(|(kind, region)| {
                    *kind == ResourceKind::Unknown
                        && region.memory.as_raw() == *memory
                        && (region.offset / page..=(region.offset + region.size - 1) / page)
                            .contains(at)
                });
                assert!(!both || unknown, "page {at} has both, seen at {name}");
            }
            bed.check();
            regions.iter().for_each(|(_, region)| bed.free(region));
        });
    }
}
