//! Options that are out of range.

use gpu_suballoc::AllocatorOptions;

#[test]
fn options_out_of_range_give_device_and_memory_back() {
    let mock = super::Mock::new(
        mock_device::MockProfile::Nvidia,
        testkit::RecordingAllocator::system(),
    );
    let mut bad = [AllocatorOptions::default(); 2];
    bad[0].memory.granule = 100;
    bad[1].memory.first_block = Some(0);
    for options in bad {
        // SAFETY: as in `scene`.
        let refused = unsafe {
            gpu_suballoc::GpuAllocator::new(&mock, testkit::RecordingAllocator::system(), options)
        }
        .unwrap_err();
        assert_eq!(refused.error, gpu_suballoc::GpuMisuse::BadOptions.into());
        let (device, memory) = refused.into_value();
        memory.assert_empty("by a refused allocator");
        assert_eq!(device.all_calls(), 0);
    }
}
