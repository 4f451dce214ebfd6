//! What the subject answers, in the words of the programs.

use super::*;

/// Calls of a driver that Vulkan knows.
pub(super) fn calls(mock: &Mock) -> u64 {
    mock.all_calls() - mock.calls(MockCall::Properties)
}

pub(super) const fn values([instance, physical_device, device]: HandleValues) -> VulkanHandles {
    VulkanHandles {
        instance,
        physical_device,
        device,
    }
}

pub(super) const fn which(handle: ContextHandle) -> usize {
    match handle {
        ContextHandle::Instance => 0,
        ContextHandle::PhysicalDevice => 1,
        ContextHandle::Device => 2,
    }
}

pub(super) fn left(outstanding: ContextOutstanding) -> ContextRemains {
    assert_eq!(outstanding.wrapped, 0, "nothing was wrapped");
    ContextRemains {
        regions: outstanding.regions,
        crops: outstanding.crops,
        shaders: outstanding.shaders,
    }
}

pub(super) const fn gone(released: ReleaseReport, left: ContextRemains) -> ReleaseOutcome {
    ReleaseOutcome {
        shaders: released.shaders,
        held: released.held,
        lost: released.device_lost,
        remains: left,
    }
}

/// What the handler refuses with.
pub(super) const REFUSES: ContextError = ContextError::TooManyContexts;

pub(super) fn denied(error: ContextError) -> Denied {
    match error {
        ContextError::NullHandle(handle) => Denied::Null(which(handle)),
        ContextError::OtherHandle(handle) => Denied::Other(which(handle)),
        ContextError::MissingCommand { .. } => Denied::Missing,
        ContextError::Host(_) => Denied::Host,
        ContextError::Gpu(error) => refused(error),
        ContextError::Released => Denied::Released,
        ContextError::InUse => Denied::InUse,
        ContextError::Outstanding(outstanding) => Denied::Outstanding(left(outstanding)),
        ContextError::NoContext => Denied::NoContext,
        ContextError::HandlersInUse => Denied::HandlersInUse,
        REFUSES => Denied::Handler,
        error => panic!("{error}"),
    }
}

pub(super) fn refused(error: GpuError) -> Denied {
    match error {
        GpuError::Host(_) => Denied::Host,
        GpuError::Device(DeviceError::DeviceLost) => Denied::Lost,
        GpuError::Device(_) => Denied::Device,
        GpuError::Misuse(GpuMisuse::OtherAllocator) => Denied::Foreign,
        GpuError::Misuse(GpuMisuse::HasCrops) => Denied::HasCrops,
        GpuError::Misuse(GpuMisuse::Mapped) => Denied::Mapped,
        GpuError::Misuse(GpuMisuse::NotMapped) => Denied::NotMapped,
        error => panic!("{error}"),
    }
}
