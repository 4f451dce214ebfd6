//! All devices that the loader shows, as one group: how each can use memory and semaphores of each other one.
//!
//! Vulkan does not say how devices are linked: a program that knows more refines the edges.
//!
//! `cargo run -p gpu-suballoc --example device_group`; prints `SKIPPED` where there is no driver.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::CStr;

use alloc_core::{FromGlobalAlloc, Scope, Scoped, TryVec};
use ash::vk;
use gpu_suballoc::DeviceGroup;
use gpu_suballoc::ash::physical_device_capabilities;
use gpu_suballoc::group::{DeviceCapabilities, GroupDevice, MembershipCell};

static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

const VERSION: u32 = vk::API_VERSION_1_1;

/// Extensions by which devices share memory and semaphores, or say what they are.
const EXTENSIONS: [&CStr; 5] = [
    vk::KHR_EXTERNAL_MEMORY_FD_NAME,
    vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME,
    vk::EXT_EXTERNAL_MEMORY_HOST_NAME,
    vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME,
    vk::KHR_DRIVER_PROPERTIES_NAME,
];

/// A program would have its `VkDevice` here.
struct Hardware {
    name: String,
    capabilities: DeviceCapabilities,
    membership: MembershipCell,
}

impl GroupDevice for Hardware {
    type Error = Infallible;

    fn membership_cell(&self) -> &MembershipCell {
        &self.membership
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, Infallible> {
        Ok(self.capabilities)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // SAFETY: opening the loader runs its initialisers, which is what a Vulkan program asks for.
    let entry = match unsafe { ash::Entry::load() } {
        Ok(entry) => entry,
        Err(error) => {
            println!("SKIPPED: no Vulkan loader: {error}");
            return Ok(());
        }
    };
    let application = vk::ApplicationInfo::default().api_version(VERSION);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: a valid info; destroyed below.
    let instance = match unsafe { entry.create_instance(&info, None) } {
        Ok(instance) => instance,
        Err(result) => {
            println!("SKIPPED: no Vulkan driver: {result:?}");
            return Ok(());
        }
    };
    let shown = show(&instance);
    // SAFETY: nothing was made of it.
    unsafe { instance.destroy_instance(None) };
    shown
}

fn show(instance: &ash::Instance) -> Result<(), Box<dyn Error>> {
    let mut devices = TryVec::new_in(Scoped::new(&SYSTEM, Scope::Device));
    // SAFETY: a live instance.
    for physical in unsafe { instance.enumerate_physical_devices() }.unwrap_or_default() {
        devices.try_push(listed(instance, physical)).map_err(|refused| refused.error)?;
    }
    if devices.is_empty() {
        println!("SKIPPED: no Vulkan device");
        return Ok(());
    }
    let group = DeviceGroup::new(devices).map_err(|refused| refused.error.to_string())?;
    let devices = group.devices();
    println!("a group of {}:", devices.len());
    for (number, device) in devices.iter().enumerate() {
        let can = &device.capabilities;
        println!("device {number}: {}", device.name);
        println!("  memory in: {:?}, out: {:?}", can.buffer_import, can.buffer_export);
        println!("  semaphores in: {:?}, out: {:?}", can.semaphore_import, can.semaphore_export);
    }
    for from in 0..devices.len() {
        for to in (0..devices.len()).filter(|to| *to != from) {
            match group.edge_between(from, to) {
                Some(edge) => println!(
                    "{from} uses memory of {to}: {:?}; waits for its semaphores: {:?}; link: {:?}",
                    edge.read, edge.wait, edge.link
                ),
                None => println!("{from} reaches nothing of {to}"),
            }
        }
    }
    Ok(())
}

fn listed(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Hardware {
    // SAFETY: a device of the instance.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    // SAFETY: as above.
    let there = unsafe { instance.enumerate_device_extension_properties(physical) };
    let there = there.unwrap_or_default();
    let is_there = |name: &&CStr| {
        let mut names = there.iter().map(vk::ExtensionProperties::extension_name_as_c_str);
        names.any(|there| there == Ok(*name))
    };
    let extensions: Vec<_> = EXTENSIONS.into_iter().filter(is_there).collect();
    let version = VERSION.min(properties.api_version);
    // SAFETY: the version is the lesser of both, and the device has the extensions.
    let capabilities = unsafe { physical_device_capabilities(instance, physical, version, &extensions) };
    let name = properties.device_name_as_c_str().unwrap_or_default();
    Hardware { name: name.to_string_lossy().into_owned(), capabilities, membership: MembershipCell::new() }
}
