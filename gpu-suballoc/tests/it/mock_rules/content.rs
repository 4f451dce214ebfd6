//! What the host writes is seen by the device when it should be, and not before.

use super::*;

fn device_sees(mock: &Mock, buffer: BufferHandle, size: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; size];
    assert!(mock.read_buffer(buffer, 0, &mut bytes));
    bytes
}

/// A mapped buffer of one memory object.
fn mapped(mock: &Mock, kind: u32, size: u64) -> (BufferHandle, MemoryHandle, NonNull<u8>) {
    let (buffer, memory) = (buffer(mock, size), memory(mock, size, kind));
    bind(mock, buffer, memory, 0).unwrap();
    let first = map(mock, memory, 0, size).unwrap();
    (buffer, memory, first)
}

#[test]
fn an_unflushed_write_is_not_seen_and_a_flush_carries_its_atoms_alone() {
    let mock = MockDevice::new(Tiler);
    let (buffer, memory, first) = mapped(&mock, 1, 192);
    // SAFETY: mapped, 192 bytes.
    unsafe { first.as_ptr().write_bytes(5, 192) };
    assert_eq!(device_sees(&mock, buffer, 192), [0; 192]);
    flush(&mock, memory, 64, 64).unwrap();
    let bytes = device_sees(&mock, buffer, 192);
    assert!(bytes[..64].iter().all(|byte| *byte == 0) && bytes[64..128].iter().all(|byte| *byte == 5));
    assert!(bytes[128..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_read_before_the_invalidate_sees_the_old() {
    let mock = MockDevice::new(Tiler);
    let (buffer, memory, first) = mapped(&mock, 1, 128);
    assert!(mock.fill_buffer(buffer, 0, 128, 9));
    // SAFETY: mapped, 128 bytes.
    let read = |at: usize| unsafe { first.as_ptr().wrapping_add(at).read() };
    assert_eq!((read(0), read(64)), (0, 0));
    invalidate(&mock, memory, 64, 64).unwrap();
    assert_eq!((read(0), read(64)), (0, 9));
}
