//! The device through ash's function tables, over functions of this process instead of a driver's.

use ash::vk;
use gpu_suballoc::AshDevice;
use gpu_suballoc::ash::{AshOptions, physical_device_capabilities};
use testkit::{MemoryUse, Stage};

use super::devices::everything;
use super::{GpuOperation, operation};
use crate::fake_vulkan::{Fake, set, vulkan};

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![operation(
        &[
            "AshDevice::new",
            "AshOptions::new",
            "AshOptions::with_callbacks",
            "physical_device_capabilities",
        ],
        "over a fake driver",
        MemoryUse::Nothing("what the device says is kept in the device"),
        |stage| {
            set(Fake::NEW);
            let (entry, instance, device) = vulkan();
            stage.attempt_plainly(|| {
                let options = AshOptions::new(vk::API_VERSION_1_0)
                    .with_callbacks(&vk::AllocationCallbacks::default());
                // SAFETY: the fake looks at no handle.
                let ours = unsafe {
                    AshDevice::new(
                        &entry,
                        &instance,
                        vk::PhysicalDevice::null(),
                        &device,
                        options,
                    )
                };
                everything(&ours).expect("the fake agrees");
                // SAFETY: as above; of 1.0 nothing is asked.
                let says = unsafe {
                    physical_device_capabilities(
                        &instance,
                        vk::PhysicalDevice::null(),
                        vk::API_VERSION_1_0,
                        &[],
                    )
                };
                assert_eq!(says, gpu_suballoc::group::DeviceCapabilities::default());
            });
        },
    )]
}
