//! Every kind of breach is provoked once and seen as itself.

use super::*;

/// Does one wrong thing to a fresh device: what is then seen.
fn provoke(profile: MockProfile, wrong: impl FnOnce(&Mock)) -> Vec<Breach> {
    let mock = MockDevice::new(profile);
    wrong(&mock);
    seen(&mock)
}

fn refused<T>(result: Result<T, DeviceError>) {
    assert!(result.is_err(), "a breach is answered with an error where there can be one");
}

/// The breach, on which device, and how.
type Row = (Breach, MockProfile, fn(&Mock));

const ROWS: &[Row] = &[
    (StateLockHeld, Lavapipe, |mock| {
        let lock = alloc_core::support::StateLock::new();
        let held = lock.lock();
        let types = mock.properties().types.len();
        drop(held);
        assert_eq!(types, 1);
    }),
    (UnknownHandle, Lavapipe, |mock| free(mock, MemoryHandle::from_raw(12).unwrap())),
    (UnknownHandle, Lavapipe, |mock| {
        // A buffer's number is no memory object's.
        let buffer = buffer(mock, 64);
        let _ = memory(mock, 64, 0);
        free(mock, MemoryHandle::from_raw(buffer.as_raw()).unwrap());
    }),
    (StaleHandle, Lavapipe, |mock| {
        let memory = memory(mock, 64, 0);
        free(mock, memory);
        free(mock, memory);
    }),
    (StaleHandle, Lavapipe, |mock| {
        let old = buffer(mock, 64);
        destroy(mock, old);
        let _same_place = buffer(mock, 64);
        needs(mock, old);
    }),
    (SizeZero, Lavapipe, |mock| refused(allocate(mock, &MemoryRequest::new(0, 0)))),
    (NoSuchMemoryType, Lavapipe, |mock| refused(allocate(mock, &MemoryRequest::new(64, 1)))),
    (OverHeap, Nvidia, |mock| refused(allocate(mock, &MemoryRequest::new(247 << 20, 4)))),
    (OverMaxAllocationCount, MoltenVk, |mock| {
        for _ in 0..30 {
            let _ = memory(mock, 64, 1);
        }
        assert_eq!(allocate(mock, &MemoryRequest::new(64, 1)), Err(TooManyObjects));
    }),
    (FeatureNotEnabled, Lavapipe, |mock| {
        refused(allocate(mock, &MemoryRequest { priority: Some(0.5), ..MemoryRequest::new(64, 0) }));
    }),
    // A memory type of VK_AMD_device_coherent_memory without the feature.
    (FeatureNotEnabled, AmdSmallBar, |mock| refused(allocate(mock, &MemoryRequest::new(64, 4)))),
    (PriorityOutOfRange, Nvidia, |mock| {
        refused(allocate(mock, &MemoryRequest { priority: Some(1.5), ..MemoryRequest::new(64, 0) }));
    }),
    // Not the size that the buffer asked for.
    (DedicatedMismatch, Nvidia, |mock| {
        let buffer = buffer(mock, 64);
        let request = MemoryRequest { dedicated: Some(ResourceHandle::Buffer(buffer)), ..MemoryRequest::new(128, 1) };
        refused(allocate(mock, &request));
    }),
    // The memory of another buffer.
    (DedicatedMismatch, Nvidia, |mock| {
        let (mine, other) = (buffer(mock, 64), buffer(mock, 64));
        let request = MemoryRequest { dedicated: Some(ResourceHandle::Buffer(mine)), ..MemoryRequest::new(64, 1) };
        let memory = allocate(mock, &request).unwrap();
        refused(bind(mock, other, memory, 0));
    }),
    (NotDedicated, Nvidia, |mock| {
        let info = BufferInfo { external: ExternalHandleTypes::OPAQUE_FD, ..BufferInfo::new(64, COPIED) };
        let shared = create(mock, &info).unwrap();
        assert!(needs(mock, shared).requires_dedicated);
        refused(bind(mock, shared, memory(mock, 64, 1), 0));
    }),
    (FreedUnderResource, Lavapipe, |mock| {
        let (buffer, memory) = (buffer(mock, 64), memory(mock, 64, 0));
        bind(mock, buffer, memory, 0).unwrap();
        free(mock, memory);
        destroy(mock, buffer);
    }),
    (NotLazilyAllocated, Tiler, |mock| {
        let memory = memory(mock, 64, 0);
        // SAFETY: the mock says what is wrong.
        assert_eq!(unsafe { mock.commitment(memory) }, None);
    }),
    (NotHostVisible, Nvidia, |mock| refused(map(mock, memory(mock, 64, 1), 0, 64))),
    (AlreadyMapped, Lavapipe, |mock| {
        let memory = memory(mock, 128, 0);
        map(mock, memory, 0, 64).unwrap();
        refused(map(mock, memory, 64, 64));
    }),
    (Breach::NotMapped, Lavapipe, |mock| unmap(mock, memory(mock, 64, 0))),
    (Breach::NotMapped, Lavapipe, |mock| refused(flush(mock, memory(mock, 64, 0), 0, 64))),
    (MapOutOfRange, Lavapipe, |mock| refused(map(mock, memory(mock, 64, 0), 1, 64))),
    (MapOutOfRange, Lavapipe, |mock| refused(map(mock, memory(mock, 64, 0), 0, 0))),
    (MapOutOfRange, Lavapipe, |mock| refused(map(mock, memory(mock, 64, 0), u64::MAX, 2))),
    (RangeOutsideMapping, Tiler, |mock| {
        let memory = memory(mock, 256, 1);
        map(mock, memory, 64, 64).unwrap();
        refused(invalidate(mock, memory, 64, 128));
    }),
    (RangeMisaligned, Tiler, |mock| {
        let memory = memory(mock, 256, 1);
        map(mock, memory, 0, 256).unwrap();
        refused(flush(mock, memory, 32, 64));
    }),
    (RangeMisaligned, Tiler, |mock| {
        let memory = memory(mock, 200, 1);
        map(mock, memory, 0, 200).unwrap();
        // The last atom may be cut short by the end of the memory object, and by nothing else.
        flush(mock, memory, 128, 72).unwrap();
        refused(flush(mock, memory, 128, 71));
    }),
    (BadCreateInfo, Lavapipe, |mock| refused(create(mock, &BufferInfo::new(0, COPIED)))),
    (BadCreateInfo, Lavapipe, |mock| refused(create(mock, &BufferInfo::new(64, BufferUsage::default())))),
    (BadCreateInfo, Lavapipe, |mock| refused(image(mock, &sampled(0, 16)))),
    (OverMaxBufferSize, Tiler, |mock| refused(create(mock, &BufferInfo::new((1 << 30) + 1, COPIED)))),
    (AlreadyBound, Lavapipe, |mock| {
        let (buffer, memory) = (buffer(mock, 64), memory(mock, 128, 0));
        bind(mock, buffer, memory, 0).unwrap();
        refused(bind(mock, buffer, memory, 64));
    }),
    (BindMisaligned, Lavapipe, |mock| refused(bind(mock, buffer(mock, 64), memory(mock, 256, 0), 32))),
    (BindOutOfRange, Lavapipe, |mock| refused(bind(mock, buffer(mock, 65), memory(mock, 127, 0), 0))),
    (BindWrongType, Nvidia, |mock| {
        let texture = image(mock, &sampled(4, 4)).unwrap();
        refused(bind_image(mock, texture, memory(mock, 4096, 2), 0));
    }),
    (Overlap, Lavapipe, |mock| {
        let memory = memory(mock, 256, 0);
        bind(mock, buffer(mock, 100), memory, 0).unwrap();
        bind(mock, buffer(mock, 64), memory, 64).expect("Vulkan allows it");
    }),
    (GranularityConflict, Tiler, |mock| {
        let memory = memory(mock, 1 << 18, 0);
        bind(mock, buffer(mock, 65_536 + 1), memory, 0).unwrap();
        let linear = ImageInfo { tiling: ImageTiling::Linear, ..sampled(16, 16) };
        // A linear image is the buffer's kind; an optimal one a page further is far enough.
        bind_image(mock, image(mock, &linear).unwrap(), memory, 65_536 + 4096).unwrap();
        bind_image(mock, image(mock, &sampled(16, 16)).unwrap(), memory, 2 * 65_536).unwrap();
        assert!(mock.violations().is_empty(), "{}", mock.violations());
        bind_image(mock, image(mock, &sampled(16, 16)).unwrap(), memory, 65_536 + 8192).expect("Vulkan allows it");
    }),
    (NoDeviceAddress, Nvidia, |mock| {
        let addressed = create(mock, &BufferInfo::new(64, BufferUsage::SHADER_DEVICE_ADDRESS)).unwrap();
        refused(bind(mock, addressed, memory(mock, 64, 1), 0));
    }),
    (NoDeviceAddress, Nvidia, |mock| {
        // SAFETY: a mock.
        assert_eq!(unsafe { mock.buffer_address(buffer(mock, 64)) }, None);
    }),
    (ExternalMismatch, Nvidia, |mock| {
        let request = MemoryRequest { export: ExternalHandleTypes::OPAQUE_FD, ..MemoryRequest::new(64, 1) };
        let memory = allocate(mock, &request).unwrap();
        refused(bind(mock, buffer(mock, 64), memory, 0));
    }),
    (QueueMisuse, Lavapipe, |mock| {
        let (one, two, memory) = (buffer(mock, 64), buffer(mock, 64), memory(mock, 64, 0));
        bind(mock, one, memory, 0).unwrap();
        assert!(!mock.copy_buffer(one, 0, two, 0, 64), "the second is not bound");
    }),
    (QueueMisuse, Lavapipe, |mock| {
        let (one, memory) = (buffer(mock, 64), memory(mock, 64, 0));
        bind(mock, one, memory, 0).unwrap();
        assert!(!mock.fill_buffer(one, 60, 5, 1), "past the end");
    }),
];

#[test]
fn each_breach_is_seen_once_and_as_itself() {
    for (row, (breach, profile, wrong)) in ROWS.iter().enumerate() {
        assert_eq!(provoke(*profile, wrong), [*breach], "row {row}");
    }
}

#[test]
fn no_kind_of_breach_is_without_a_row() {
    for breach in Breach::ALL {
        // Needs two threads: `threads.rs`.
        let elsewhere = *breach == ConcurrentUse;
        assert!(elsewhere || ROWS.iter().any(|(of, ..)| of == breach), "{breach:?} is never provoked");
    }
}

#[test]
fn another_devices_handle_is_unknown() {
    let (one, two) = (MockDevice::new(Lavapipe), MockDevice::new(Lavapipe));
    let (mine, _theirs) = (memory(&one, 64, 0), memory(&two, 64, 0));
    free(&two, mine);
    assert_eq!(seen(&two), [UnknownHandle]);
    assert_eq!((one.live_counts().memory, two.live_counts().memory), (1, 1));
}
