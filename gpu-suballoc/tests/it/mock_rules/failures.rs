//! Failures come when they are planted, and leave the device as it was.

use debug_guard::{FailingAllocator, Fault as Refuse};
use gpu_suballoc::PropertyFlags;
use gpu_suballoc::device::{HeapBudget, HeapFlags, MemoryHeap, MemoryRequest};
use gpu_suballoc::memory_type::MemoryType;
use mock_device::{MockCall, MockDevice, MockFault, MockProfile};
use testkit::RecordingAllocator;

use super::*;

#[test]
fn the_nth_call_fails_and_the_others_do_not() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Lavapipe, &witness);
    assert!(
        mock.plant(MockFault::nth(3))
            && mock.plant(
                MockFault::nth(2)
                    .of(MockCall::CreateBuffer)
                    .with(DeviceError::OutOfHostMemory)
            )
    );
    assert!(allocate(&mock, &MemoryRequest::new(64, 0)).is_ok());
    assert!(create(&mock, &BufferInfo::new(64, COPIED)).is_ok());
    assert_eq!(
        allocate(&mock, &MemoryRequest::new(64, 0)),
        Err(DeviceError::OutOfDeviceMemory)
    );
    assert_eq!(
        create(&mock, &BufferInfo::new(64, COPIED)),
        Err(DeviceError::OutOfHostMemory)
    );
    assert!(
        create(&mock, &BufferInfo::new(64, COPIED)).is_ok()
            && allocate(&mock, &MemoryRequest::new(64, 0)).is_ok()
    );
    assert_eq!(mock.calls_that_can_fail(), 6);
    assert_eq!(
        (
            mock.calls(MockCall::Allocate),
            mock.calls(MockCall::CreateBuffer),
            mock.all_calls()
        ),
        (3, 3, 6)
    );
    assert!(mock.violations().is_empty(), "a refusal is no breach");
}

#[test]
fn a_full_heap_refuses_and_the_others_do_not() {
    let witness = RecordingAllocator::system();
    let heaps = [
        MemoryHeap::new(1000, HeapFlags::DEVICE_LOCAL),
        MemoryHeap::new(1000, HeapFlags::NONE),
    ];
    let kind = |heap_index| MemoryType {
        properties: PropertyFlags::NONE,
        heap_index,
    };
    let mock = MockDevice::with_config(
        MockProfile::Nvidia
            .config()
            .with_memory(&[kind(0), kind(1)], &heaps),
        &witness,
    );
    let first = memory(&mock, 600, 0);
    assert_eq!(
        allocate(&mock, &MemoryRequest::new(401, 0)),
        Err(DeviceError::OutOfDeviceMemory)
    );
    assert!(allocate(&mock, &MemoryRequest::new(400, 0)).is_ok());
    mock.use_elsewhere(1, 300);
    assert!(
        allocate(&mock, &MemoryRequest::new(701, 1)).is_err()
            && allocate(&mock, &MemoryRequest::new(700, 1)).is_ok()
    );
    let mut told = [HeapBudget::default(); 3];
    assert!(mock.budget(&mut told));
    assert_eq!(
        told.map(|heap| (heap.usage, heap.budget)),
        [(1000, 1000), (700, 700), (0, 0)]
    );
    mock.set_budget(0, Some(50));
    assert!(mock.budget(&mut told) && told[0].budget == 50);
    free(&mock, first);
    assert_eq!(
        (mock.heap(0), mock.heap(1), mock.live_counts().bytes),
        ((400, 1000), (700, 700), 1100)
    );
    assert!(mock.violations().is_empty(), "{}", mock.violations());
}

#[test]
fn a_lost_device_gives_nothing_and_takes_everything_back() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Lavapipe, &witness);
    let (buffer, memory) = (buffer(&mock, 64), memory(&mock, 64, 0));
    bind(&mock, buffer, memory, 0).expect("in order");
    mock.lose_device();
    let lost = Err(DeviceError::DeviceLost);
    assert_eq!(allocate(&mock, &MemoryRequest::new(64, 0)), lost);
    assert_eq!(
        create(&mock, &BufferInfo::new(64, COPIED)),
        Err(DeviceError::DeviceLost)
    );
    assert_eq!(map(&mock, memory, 0, 64), Err(DeviceError::DeviceLost));
    destroy(&mock, buffer);
    free(&mock, memory);
    assert!(mock.violations().is_empty() && mock.live_counts().memory == 0);
}

/// Law 2 for the mock itself: it is a driver that may find no host memory.
#[test]
fn without_host_memory_it_says_so_and_goes_on() {
    let mut refused = 0;
    for n in 0.. {
        let host = FailingAllocator::new(RecordingAllocator::system(), Refuse::Nth(n));
        let mock = MockDevice::new(MockProfile::Tiler, &host);
        let run = || {
            let buffer = create(&mock, &BufferInfo::new(64, COPIED))?;
            let memory = allocate(&mock, &MemoryRequest::new(64, 1))?;
            bind(&mock, buffer, memory, 0)?;
            map(&mock, memory, 0, 64)?;
            flush(&mock, memory, 0, 64)
        };
        let Err(error) = run() else { break };
        assert_eq!(error, DeviceError::OutOfHostMemory, "request {n}");
        assert_eq!(run(), Ok(()), "the next try");
        assert!(mock.violations().is_empty(), "{}", mock.violations());
        refused += 1;
    }
    assert_eq!(refused, 4, "two tables, and both copies of the bytes");
}
