//! Functions that ask nobody: memory types, numbers of errors, sums.

use super::*;

use std::fmt::Write;

pub const CALLS: &str = "choose_memory_type";

pub fn words<S: Stage>(stage: &S, _: usize) {
    stage.attempt_plainly(|| {
        let type_of = |properties, heap_index| MemoryType { properties, heap_index };
        let types = [type_of(PropertyFlags::DEVICE_LOCAL, 0), type_of(PropertyFlags::HOST_VISIBLE, 1)];
        let wish = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE);
        assert_eq!(choose_memory_type(&types, 0b11, wish), Ok(1));
        let error = choose_memory_type(&types, 0b01, wish).expect_err("the one that is visible is not allowed");
        let mut sink = Sink::default();
        write!(sink, "{error} {error:?} {wish:?} {:?}", types[1].properties).expect("the sink takes all");
        for error in [
            GpuError::Device(DeviceError::DeviceLost),
            GpuError::AfterAllocation(DeviceError::DeviceLost),
            GpuMisuse::Stale.into(),
            Limit::Pools.into(),
            GpuError::TooLarge { bytes: 1, limit: 0 },
        ] {
            write!(sink, "{error} {error:?}").expect("the sink takes all");
            assert!(error.as_vk_result() < 0);
            assert_eq!(error.driver_owns_import(), matches!(error, GpuError::AfterAllocation(_)));
        }
        assert_eq!(MemoryTotals::default().reserved_percent(), None);
        assert!(sink.bytes > 100);
    });
}
