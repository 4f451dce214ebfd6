//! Which error a caller gets, which calls are not made, and what a map says of bytes that no request can have.

use gpu_suballoc::device::DeviceError;
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::report::{RangePlacement, RangeUse};
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{AllocatorOptions, BlockAlgorithm, GpuAllocator, GpuError, PoolOptions};
use mock_device::{MockCall, MockFault, MockProfile};
use testkit::RecordingAllocator;

use super::{Mock, any, bytes, nvidia, scene, with_memory};

#[test]
fn a_refusal_that_no_other_object_avoids_is_not_tried_again() {
    nvidia(|s| {
        let lost = MockFault::nth(1)
            .times(u64::MAX)
            .with(DeviceError::DeviceLost);
        assert!(s.mock.plant(lost));
        let (before, totals) = (s.mock.calls(MockCall::Allocate), s.gpu.stats().total);
        let refused = s.gpu.allocate(&bytes(64), &any()).unwrap_err();
        assert_eq!(refused, GpuError::Device(DeviceError::DeviceLost));
        assert_eq!(s.mock.calls(MockCall::Allocate) - before, 1);
        assert_eq!(s.gpu.stats().total, totals, "nothing stays counted");
        s.mock.clear_faults();
    });
}

#[test]
fn of_a_preferred_object_and_a_block_the_first_refusal_is_reported() {
    nvidia(|s| {
        let first = MockFault::nth(1).with(DeviceError::OutOfHostMemory);
        let others = MockFault::nth(2)
            .times(u64::MAX)
            .with(DeviceError::OutOfDeviceMemory);
        assert!(s.mock.plant(first) && s.mock.plant(others));
        let preferred = any().dedicated(DedicatedPolicy::Preferred);
        let refused = s.gpu.allocate(&bytes(64), &preferred).unwrap_err();
        assert_eq!(refused, GpuError::Device(DeviceError::OutOfHostMemory));
        s.mock.clear_faults();
    });
}

#[test]
fn an_abandoned_allocator_calls_no_device() {
    let mock = Mock::new(MockProfile::Nvidia, RecordingAllocator::system());
    let host = RecordingAllocator::system();
    // SAFETY: no resource is involved, and nothing runs on the device.
    let gpu = unsafe { GpuAllocator::new(&mock, host.clone(), AllocatorOptions::default()) }
        .expect("the options are sound");
    let region = gpu.allocate(&bytes(64), &any()).expect("room");
    let before = mock.all_calls();
    let _ = gpu.abandon();
    assert!(before > 0 && region.size() >= 64);
    assert_eq!(mock.all_calls(), before);
    host.assert_empty("by the allocator");
}

#[test]
fn bytes_that_no_request_can_have_are_spent() {
    let memory = MemoryOptions {
        first_block: Some(4096),
        nearest_multiple: 1000,
        ..MemoryOptions::default()
    };
    scene(MockProfile::Nvidia, with_memory(memory), |s| {
        let ring = PoolOptions {
            algorithm: BlockAlgorithm::Ring,
            block_size: Some(1 << 16),
            ..PoolOptions::new(0)
        };
        let ring = s.gpu.create_pool(&ring).expect("room");
        let take = |options| s.gpu.allocate(&bytes(256), &options).expect("room");
        let [oldest, next] = [(); 2].map(|()| take(any().pool(ring)));
        s.free(oldest);
        // In a block of 5000 bytes.
        let shared = take(any());
        let map = s.gpu.memory_map().expect("memory");
        let spent: Vec<_> = map
            .blocks_with_ranges()
            .flat_map(|(_, ranges)| ranges)
            .filter(|range| range.range_use == RangeUse::Spent)
            .map(|range| (range.offset, range.size, range.placement))
            .collect();
        let (general, linear) = (RangePlacement::General, RangePlacement::Linear);
        let behind = (512, (1 << 16) - 512, linear);
        assert_eq!(spent, [(4864, 136, general), (0, 256, linear), behind]);
        drop(map);
        s.free(shared);
        s.free(next);
        s.gpu.destroy_pool(ring).expect("empty");
    });
}
