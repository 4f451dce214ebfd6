//! What the host writes is seen by the device when it should be, and not before.

use gpu_suballoc::BufferUsage;
use gpu_suballoc::device::MemoryRequest;
use mock_device::{MockDevice, MockProfile};
use testkit::RecordingAllocator;

use super::*;

fn device_sees(mock: &Mock<'_>, buffer: BufferHandle, size: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; size];
    assert!(mock.read_buffer(buffer, 0, &mut bytes));
    bytes
}

/// A mapped buffer of one memory object.
fn mapped(mock: &Mock<'_>, kind: u32, size: u64) -> (BufferHandle, MemoryHandle, NonNull<u8>) {
    let (buffer, memory) = (buffer(mock, size), memory(mock, size, kind));
    bind(mock, buffer, memory, 0).expect("in order");
    let first = map(mock, memory, 0, size).expect("in order");
    (buffer, memory, first)
}

#[test]
fn coherent_memory_is_one() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Lavapipe, &witness);
    let (buffer, _, first) = mapped(&mock, 0, 64);
    // SAFETY: mapped, 64 bytes.
    unsafe { first.as_ptr().write_bytes(5, 64) };
    assert_eq!(device_sees(&mock, buffer, 64), [5; 64]);
    assert!(mock.fill_buffer(buffer, 0, 64, 6));
    // SAFETY: mapped.
    assert_eq!(unsafe { first.read() }, 6);
}

#[test]
fn an_unflushed_write_is_not_seen_and_a_flush_carries_its_atoms_alone() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Tiler, &witness);
    let (buffer, memory, first) = mapped(&mock, 1, 192);
    // SAFETY: mapped, 192 bytes.
    unsafe { first.as_ptr().write_bytes(5, 192) };
    assert_eq!(device_sees(&mock, buffer, 192), [0; 192]);
    flush(&mock, memory, 64, 64).expect("in order");
    let bytes = device_sees(&mock, buffer, 192);
    assert!(
        bytes[..64].iter().all(|byte| *byte == 0) && bytes[64..128].iter().all(|byte| *byte == 5)
    );
    assert!(bytes[128..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_read_before_the_invalidate_sees_the_old() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Tiler, &witness);
    let (buffer, memory, first) = mapped(&mock, 1, 128);
    assert!(mock.fill_buffer(buffer, 0, 128, 9));
    // SAFETY: mapped, 128 bytes.
    let read = |at: usize| unsafe { first.as_ptr().wrapping_add(at).read() };
    assert_eq!((read(0), read(64)), (0, 0));
    invalidate(&mock, memory, 64, 64).expect("in order");
    assert_eq!((read(0), read(64)), (0, 9));
}

#[test]
fn unmapping_loses_nothing() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Tiler, &witness);
    let (buffer, memory, first) = mapped(&mock, 1, 64);
    // SAFETY: mapped, 64 bytes.
    unsafe { first.write(3) };
    flush(&mock, memory, 0, 64).expect("in order");
    unmap(&mock, memory);
    assert_eq!(device_sees(&mock, buffer, 1), [3]);
    let again = map(&mock, memory, 0, 64).expect("in order");
    // SAFETY: mapped, 64 bytes.
    assert_eq!(unsafe { again.read() }, 3);
}

#[test]
fn a_map_from_an_offset_points_there() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Nvidia, &witness);
    let (one, block) = (buffer(&mock, 64), memory(&mock, 4096, 2));
    bind(&mock, one, block, 1024).expect("in order");
    let first = map(&mock, block, 1024, 64).expect("in order");
    // SAFETY: mapped, 64 bytes.
    unsafe { first.as_ptr().write_bytes(8, 64) };
    assert_eq!(device_sees(&mock, one, 64), [8; 64]);
    assert_eq!(
        mock.memory(block).and_then(|memory| memory.mapped),
        Some((1024, 64))
    );
    assert_eq!(
        (
            mock.buffer_bound(one),
            mock.buffer(one).map(|info| info.size)
        ),
        (Some((block, 1024)), Some(64))
    );
}

#[test]
fn copies_go_between_memory_that_the_host_does_not_see() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Nvidia, &witness);
    let block = memory(&mock, 4096, 1);
    let (one, two) = (buffer(&mock, 256), buffer(&mock, 256));
    bind(&mock, one, block, 0).expect("in order");
    bind(&mock, two, block, 1024).expect("in order");
    assert!(mock.fill_buffer(one, 0, 256, 4) && mock.copy_buffer(one, 16, two, 32, 100));
    let bytes = device_sees(&mock, two, 256);
    assert!(bytes[32..132].iter().all(|byte| *byte == 4) && bytes[31] == 0 && bytes[132] == 0);
}

#[test]
fn memory_with_addresses_gives_each_buffer_its_own() {
    let witness = RecordingAllocator::system();
    let mock = MockDevice::new(MockProfile::Nvidia, &witness);
    let request = MemoryRequest {
        device_address: true,
        ..MemoryRequest::new(4096, 1)
    };
    let block = allocate(&mock, &request).expect("in order");
    let addressed = BufferInfo::new(64, BufferUsage::SHADER_DEVICE_ADDRESS);
    let addresses: Vec<u64> = (0..2u64)
        .map(|place| {
            let buffer = create(&mock, &addressed).expect("in order");
            bind(&mock, buffer, block, place * 256).expect("in order");
            // SAFETY: live and bound.
            unsafe { mock.buffer_address(buffer) }
                .expect("it has one")
                .get()
        })
        .collect();
    assert_eq!(addresses[1] - addresses[0], 256);
    assert!(mock.violations().is_empty(), "{}", mock.violations());
}
