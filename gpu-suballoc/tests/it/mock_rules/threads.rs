//! Two threads on an object that Vulkan wants externally synchronised are seen; on two objects they are not.

use std::sync::Barrier;

use mock_device::{Breach, MockDevice, MockProfile};
use testkit::RecordingAllocator;

use super::*;

fn meet(mock: &Mock<'_>, objects: [MemoryHandle; 2]) {
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for memory in objects {
            let barrier = &barrier;
            scope.spawn(move || {
                for _ in 0..20 {
                    barrier.wait();
                    // Whether it is mapped is the other test's: only who else is there counts here.
                    let _ = map(mock, memory, 0, 64);
                    unmap(mock, memory);
                }
            });
        }
    });
}

#[test]
fn two_threads_on_one_memory_object_are_seen() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Lavapipe, &witness);
    let one = memory(&mock, 64, 0);
    mock.set_linger(100_000);
    meet(&mock, [one, one]);
    assert!(seen(&mock).contains(&Breach::ConcurrentUse));
}

#[test]
fn two_threads_on_two_memory_objects_are_not() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Lavapipe, &witness);
    let (one, two) = (memory(&mock, 64, 0), memory(&mock, 64, 0));
    mock.set_linger(100_000);
    meet(&mock, [one, two]);
    assert_eq!(seen(&mock), []);
}
