//! Two threads on an object that Vulkan wants externally synchronised are seen; on two objects they are not.

use super::*;

fn meet(mock: &Mock, objects: [MemoryHandle; 2]) {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
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
    let mock = MockDevice::new(Lavapipe);
    let one = memory(&mock, 64, 0);
    mock.set_linger(100_000);
    meet(&mock, [one, one]);
    assert!(seen(&mock).contains(&ConcurrentUse));
}
