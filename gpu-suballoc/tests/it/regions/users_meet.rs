//! What users meet: refusals that were dropped, statements of the documentation.

use super::*;

/// Memory alone: no buffers, no images, no addresses, no budgets.
struct BareMemory {
    mock: Mock,
}

// SAFETY: what is answered is the mock's own.
unsafe impl DeviceMemory for BareMemory {
    fn properties(&self) -> DeviceProperties<'_> {
        self.mock.properties()
    }
    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
        // SAFETY: as the caller promises.
        unsafe { self.mock.allocate(request) }
    }
    unsafe fn free(&self, memory: MemoryHandle) {
        // SAFETY: as the caller promises.
        unsafe { self.mock.free(memory) }
    }
    unsafe fn map(&self, memory: MemoryHandle, offset: u64, size: u64) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: as the caller promises.
        unsafe { self.mock.map(memory, offset, size) }
    }
    unsafe fn unmap(&self, memory: MemoryHandle) {
        // SAFETY: as the caller promises.
        unsafe { self.mock.unmap(memory) }
    }
    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        unsafe { self.mock.flush(ranges) }
    }
    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        unsafe { self.mock.invalidate(ranges) }
    }
}

#[test]
fn ge13_a_device_of_memory_alone_writes_seven_methods_and_is_kept_by_an_arc() {
    let mock = Mock::new(Nvidia);
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
