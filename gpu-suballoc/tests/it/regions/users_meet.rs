//! What users meet: refusals that were dropped, statements of the documentation.

use super::*;

/// Memory that the host sees, coherent or not, as every profile has some.
/// Memory alone: no buffers, no images, no addresses, no budgets.
struct BareMemory {
    mock: Mock,
}

// SAFETY: what is answered is the mock's own.
unsafe impl DeviceMemory for BareMemory {
    forward_memory!(mock);
}

#[test]
fn ge13_a_device_of_memory_alone_writes_seven_methods_and_is_kept_by_an_arc() {
    let mock = mock_of(Nvidia);
    let device = Arc::new(BareMemory { mock });
    for boxed in [false, true] {
        let shared: Box<dyn DeviceMemory> =
            if boxed { Box::new(Arc::clone(&device)) } else { Box::new(Box::new(Arc::clone(&device))) };
        let gpu = over(shared, FromGlobalAlloc::SYSTEM);
        let region = gpu.allocate(&bytes(4096), &visible()).unwrap();
        drop(gpu.map(&region).unwrap());
        let info = copied(64);
        let refused = gpu.create_buffer(&info, &any()).expect_err("it has no buffers");
        assert_eq!(refused, Other(-8).into(), "VK_ERROR_FEATURE_NOT_PRESENT");
        assert!(!gpu.set_frame(1), "no budget");
        gpu.free(region).unwrap();
        end(gpu);
    }
    assert!(device.mock.violations().is_empty(), "{}", device.mock.violations());
    assert_eq!(device.mock.live_counts().memory, 0);
}

#[test]
fn ge14_flush_needs_a_mapped_memory_object_and_not_a_mapped_region() {
    for policy in [MapPolicy::Persistent, MapPolicy::Counted] {
        let options = with_memory(MemoryOptions { map_policy: policy, ..MemoryOptions::default() });
        everywhere(options, |s| {
            let [one, two] = each(|| s.take(4096, &host()));
            assert_eq!(one.memory(), two.memory(), "one block");
            assert_eq!(s.flush(&one, 0, 64), refusal(NotMapped));
            let mapping = s.must_map(&two);
            assert_eq!(s.flush(&one, 0, 64), Ok(()), "the neighbour has it mapped");
            drop(mapping);
            assert_eq!(s.flush(&one, 0, 64), refusal(NotMapped));
            s.free(one);
            s.free(two);
        });
    }
}

#[test]
fn ge14_region_bytes_are_granules_in_blocks_and_exact_in_objects_of_their_own() {
    nvidia(|s| {
        let shared = s.must_allocate(&ResourceRequirements::new(1000, 1), &any());
        assert_eq!(s.total().region_bytes, 1024, "granules of 256");
        let dedicated = alone();
        let own = s.must_allocate(&ResourceRequirements::new(1001, 1), &dedicated);
        assert_eq!(s.total().region_bytes, 1024 + 1001);
        s.free(shared);
        s.free(own);
    });
}
