//! What the driver decides: how much lives in a heap, objects above soft limits, and what its errors mean.

use super::*;

const GIB: u64 = 1 << 30;

/// A twelfth of the heap is a piece; a driver that pages has room for any number.
#[test]
fn di5_the_driver_decides_how_much_lives_in_a_heap() {
    for profile in MockProfile::ALL {
        for oversubscribed in [true, false] {
            let mock = Mock::new(profile);
            mock.oversubscribe(oversubscribed);
            let heap = mock.properties().heaps[0].size;
            let types = (0u32..).zip(mock.properties().types);
            let bits = types.filter(|(_, kind)| kind.heap_index == 0).fold(0, |bits, (index, _)| bits | 1 << index);
            let piece = bytes((heap / 12) & !0xffff).memory_types(bits);
            on_mock(&mock, |s| {
                let mut regions = Vec::new();
                let refused = (0..24).find_map(|_| match s.allocate(&piece, &alone()) {
                    Ok(region) => {
                        regions.push(region);
                        None
                    }
                    Err(error) => Some(error),
                });
                let full = (!oversubscribed).then_some(OutOfDeviceMemory.into());
                assert_eq!(refused, full, "{profile:?}: {} pieces", regions.len());
                let stats = s.stats();
                assert_eq!(stats.heaps[0].block_bytes, regions.len() as u64 * piece.size);
                // Reports and budgets count what is there.
                let map = s.must_memory_map();
                let mut json = String::new();
                s.write_json(&map, &mut json).unwrap();
                assert!(json.contains("BudgetBytes") && !stats.to_string().is_empty());
                drop(map);
                s.set_frame(1);
                let strict = s.allocate(&piece, &alone().within_budget());
                assert!(
                    matches!(strict, Err(GpuError::Limit(Limit::Budget { heap: 0, .. }))),
                    "{profile:?}: {strict:?}"
                );
                s.free_each(regions);
            });
        }
    }
}

#[test]
fn di5_a_limit_of_the_options_holds() {
    let mut memory = MemoryOptions::default();
    memory.heap_limits[0] = GIB;
    let mock = Mock::new(Lavapipe);
    mock.oversubscribe(true);
    scene_on(&mock, with_memory(memory), |s| {
        let regions = Vec::from_iter((0..40).map_while(|_| s.allocate(&bytes(120 * MIB), &alone()).ok()));
        assert_eq!(regions.len(), 8);
        assert_eq!(s.made(), 8, "the driver is not asked");
        s.free_each(regions);
    });
}

/// VUID-vkAllocateMemory-pAllocateInfo-01713: the scene sees a breach.
#[test]
fn di5_one_object_larger_than_its_heap_lies_in_another_or_nowhere() {
    let mock = Mock::new(Nvidia);
    on_mock(&mock, |s| {
        let wish = MemoryPreference::ANY.preferring(PropertyFlags::DEVICE_LOCAL);
        let options = any().preference(wish);
        let region = s.take(10 * GIB, &options);
        assert_eq!(region.memory_type(), Some(0), "of 16 GiB");
        let calls = s.made();
        let refused = s.allocate(&bytes(16 * GIB + 1), &options);
        let limit = 16 * GIB;
        assert_eq!(refused.unwrap_err(), GpuError::TooLarge { bytes: limit + 1, limit });
        assert_eq!(s.made(), calls);
        // What is full is not too small.
        let refused = s.allocate(&bytes(10 * GIB), &options);
        assert_eq!(refused, refusal(OutOfDeviceMemory));
        s.free(region);
    });
}

#[test]
fn u119_a_heap_of_0_bytes_has_no_pool_and_serves_nothing() {
    let visible = PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT;
    let of = |heap_index, properties| MemoryType { properties, heap_index };
    let types =
        [of(0, PropertyFlags::DEVICE_LOCAL), of(1, visible), of(2, visible), of(2, visible | PropertyFlags::PROTECTED)];
    let heap = |size| MemoryHeap::new(size, HeapFlags::NONE);
    let heaps = [heap(0), heap(100), heap(GIB)];
    let config = Nvidia.config().with_memory(&types, &heaps);
    let mock = Mock::with_config(config);
    on_mock(&mock, |s| {
        let region = s.take(1000, &any());
        assert_eq!(region.memory_type(), Some(2));
        s.free(region);
        let none = GpuError::MemoryType(MemoryTypeError::NoneAccepted { memory_type_bits: 1 });
        let calls = s.mock.all_calls();
        let refused = s.create_pool(&PoolOptions::new(0)).unwrap_err();
        assert_eq!(refused, none);
        assert!(refused.to_string().contains("0 bytes"));
        assert_eq!(s.allocate(&bytes(1).memory_types(1), &any()).unwrap_err(), none);
        // Less than a granule: a dedicated object at most.
        let small = |size| s.allocate(&bytes(size).memory_types(2), &any());
        let limit = 100;
        assert_eq!(small(101).unwrap_err(), GpuError::TooLarge { bytes: 101, limit });
        assert_eq!(s.mock.all_calls(), calls);
        s.free(small(100).expect("dedicated"));
        // A protected buffer accepts protected memory alone.
        let protected = s.allocate(&bytes(1000).memory_types(8), &any());
        s.free(protected.expect("the mask is the wish"));
    });
}

#[test]
fn u103_a_soft_limit_is_the_drivers_to_refuse() {
    for refuses in [false, true] {
        let mut config = Nvidia.config();
        config.limits.max_buffer_size = 1 << 40;
        let mock = Mock::with_config(config);
        if refuses {
            mock.refuse_from(config.limits.max_memory_allocation_size + 1);
        }
        on_mock(&mock, |s| {
            for policy in [Required, Allowed] {
                let info = copied(5 * GIB);
                match s.create_buffer(&info, &any().dedicated(policy)) {
                    Ok(region) => {
                        assert_eq!(s.total().dedicated, 1);
                        s.free(region);
                    }
                    Err(error) => {
                        assert_eq!(error, OutOfDeviceMemory.into());
                        assert!(refuses);
                    }
                }
            }
            assert!(s.made() >= 2);
        });
    }
}

const AVOIDABLE: [DeviceError; 6] =
    [OutOfDeviceMemory, OutOfHostMemory, TooManyObjects, MapFailed, Other(-13), Other(-1_000_011_001)];

#[test]
fn u104_an_error_that_another_object_avoids_is_no_refusal() {
    for profile in MockProfile::ALL {
        for error in AVOIDABLE {
            for policy in [Preferred, Allowed, Never] {
                let mock = Mock::new(profile);
                let fault = MockFault::nth(1).of(Allocate).with(error);
                assert!(mock.plant(fault));
                on_mock(&mock, |s| {
                    let answer = s.create_buffer(&copied(MIB), &any().dedicated(policy));
                    let other_types = s.mock.properties().types.len() > 1;
                    let smaller = error != TooManyObjects;
                    match answer {
                        Ok(region) => s.free(region),
                        Err(refused) => {
                            assert!(!other_types && !smaller, "{profile:?} {policy:?}");
                            assert_eq!(refused, error.into());
                        }
                    }
                });
            }
        }
    }
}

#[test]
fn u104_the_first_error_is_reported_and_a_final_one_ends_the_search() {
    let last = OutOfDeviceMemory;
    for policy in [Preferred, Allowed, Never, Required] {
        for first in AVOIDABLE {
            let mock = Mock::new(AmdSmallBar);
            on_mock(&mock, |s| {
                let faults = MockFault::always().of(Allocate);
                assert!(mock.plant(faults.times(1).with(first)) && mock.plant(faults.with(last)));
                let before = s.total();
                let refused = s.allocate(&bytes(MIB), &any().dedicated(policy));
                assert_eq!(refused, refusal(first), "{policy:?}");
                assert_eq!(s.total(), before);
                assert!(s.made() >= 4, "each type was tried");
            });
        }
        let ends = [DeviceLost, InvalidExternalHandle];
        for (end, others) in ends.into_iter().flat_map(|end| [(end, 0), (end, 1)]) {
            let mock = Mock::new(AmdSmallBar);
            on_mock(&mock, |s| {
                let faults = MockFault::always().of(Allocate);
                assert!(others == 0 || mock.plant(faults.times(others)));
                assert!(mock.plant(faults.with(end)));
                let refused = s.allocate(&bytes(MIB), &any().dedicated(policy));
                assert_eq!(refused, refusal(end), "{policy:?}");
                assert_eq!(s.made(), others + 1);
            });
        }
    }
}

/// Few objects or many, and sizes that are rounded up: the first blocks are equal, so what fits by the first one fits.
#[test]
fn u119_the_first_blocks_of_a_pool_are_equal() {
    for (max_allocations, nearest_multiple, blocks, size) in
        [(100, 1, 4, 8 * MIB), (4000, 1, 40, 8 * MIB), (4000, 5 * MIB, 3, 10 * MIB)]
    {
        let memory = MemoryOptions { max_allocations, nearest_multiple, ..MemoryOptions::default() };
        scene(Nvidia, with_memory(memory), |s| {
            let sized = |max_bytes, min_blocks| PoolOptions { max_bytes, min_blocks, ..PoolOptions::new(0) };
            let bytes = size * u64::from(blocks);
            let refused = s.create_pool(&sized(bytes + 2 * MIB, blocks + 1));
            let short_by = size - 2 * MIB;
            assert_eq!(refused.unwrap_err(), Limit::Bytes { short_by }.into());
            assert_eq!(s.made(), 0);
            let pool = s.must_create_pool(&sized(bytes, blocks));
            assert_eq!(s.total().block_bytes, bytes);
            s.must_destroy_pool(pool);
            s.mock.plant(MockFault::always().of(Allocate));
            let before = s.made();
            assert!(s.create_pool(&sized(bytes, blocks)).is_err());
            assert_eq!(s.made(), before + 1);
            s.mock.clear_faults();
            s.mock.plant(MockFault::nth(2).of(Allocate));
            assert!(s.create_pool(&sized(bytes, blocks)).is_err());
            assert_eq!(s.total().block_bytes, 0, "the first one is gone");
        });
    }
}
