//! Fences, a device that is lost, and mappings outside of memory.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ash::vk;

use crate::application::Running;
use crate::recording::Commands;

/// A wait ends when a submit of another thread signals, and not before its timeout is over.
#[test]
fn a_fence_is_waited_for_until_another_thread_signals_it_or_the_timeout_is_over() {
    let running = Running::new(None);
    let device = &running.device;
    // SAFETY: a plain fence.
    let fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }.expect("memory");
    // SAFETY: a live fence, here and below.
    let wait = |timeout: u64| unsafe { device.wait_for_fences(&[fence], true, timeout) };
    assert_eq!(wait(0), Err(vk::Result::TIMEOUT));
    let (begun, timeout) = (Instant::now(), Duration::from_millis(2));
    assert_eq!(wait(timeout.as_nanos() as u64), Err(vk::Result::TIMEOUT));
    assert!(begun.elapsed() >= timeout, "it did not wait");
    let meet = Barrier::new(2);
    // SAFETY: the one queue.
    let queue = unsafe { device.get_device_queue(0, 0) };
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            meet.wait();
            wait(u64::MAX)
        });
        meet.wait();
        // SAFETY: nobody else uses the queue, and the fence is not signalled.
        unsafe { device.queue_submit(queue, &[], fence) }.expect("nothing fails");
        assert_eq!(waiter.join().expect("no panic"), Ok(()));
    });
    // SAFETY: not used any more.
    unsafe { device.destroy_fence(fence, None) };
}

/// Nothing will signal what is waited for: the wait ends, however long its timeout.
#[test]
fn a_device_that_was_lost_says_so_to_who_waits_and_to_the_next_submit() {
    let running = Running::new(None);
    let device = &running.device;
    // SAFETY: a plain fence.
    let fence = unsafe { device.create_fence(&vk::FenceCreateInfo::default(), None) }.expect("memory");
    let commands = Commands::new(device, None);
    // SAFETY: recording. Without a pipeline it is no valid usage: the driver's way to lose the device.
    let lost = commands.record(|buffer| unsafe { device.cmd_dispatch(buffer, 1, 1, 1) });
    assert_eq!(lost, Ok(()));
    let answer = Err(vk::Result::ERROR_DEVICE_LOST);
    assert_eq!(commands.submit(fence), answer);
    // SAFETY: a live fence.
    let waited = unsafe { device.wait_for_fences(&[fence], true, u64::MAX) };
    assert_eq!(waited, answer);
    assert_eq!(commands.record(|_| ()), Ok(()));
    assert_eq!(commands.submit(fence), answer, "no more work");
    commands.end();
    // SAFETY: not used any more.
    unsafe { device.destroy_fence(fence, None) };
}

#[test]
fn what_lies_outside_of_memory_is_not_mapped() {
    let running = Running::new(None);
    let device = &running.device;
    let info = vk::MemoryAllocateInfo::default().allocation_size(256);
    // SAFETY: the one type of memory.
    let memory = unsafe { device.allocate_memory(&info, None) }.expect("memory");
    let map = |offset, size| {
        // SAFETY: live memory; the driver looks at the numbers.
        unsafe { device.map_memory(memory, offset, size, vk::MemoryMapFlags::empty()) }
    };
    let refused = Err(vk::Result::ERROR_MEMORY_MAP_FAILED);
    for (offset, size) in [(257, 1), (256, vk::WHOLE_SIZE), (128, 129), (u64::MAX, 1)] {
        assert_eq!(map(offset, size), refused, "{size} from {offset}");
    }
    let whole = map(0, vk::WHOLE_SIZE).expect("inside");
    assert_eq!(map(255, 1), Ok(whole.wrapping_byte_add(255)));
    // SAFETY: not used any more.
    unsafe { device.free_memory(memory, None) };
}
