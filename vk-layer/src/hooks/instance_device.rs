use std::ffi::CStr;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use vk_callbacks::Owners;
use vk_callbacks::commands::CommandLevel;

use super::bracket::{Finished, Passed, created, ended, run, undo};
use super::fence::caught;
use super::{CREATE_DEVICE, CREATE_INSTANCE, Callbacks, DESTROY_DEVICE, DESTROY_INSTANCE, Handle, Info};
use crate::accounts;
use crate::chain::{
    ERROR_INITIALIZATION_FAILED, ERROR_OUT_OF_HOST_MEMORY, LOADER_DEVICE, LOADER_INSTANCE, VoidFunction, advance_link,
};
use crate::commands::row;
use crate::coverage;
use crate::description::{DeviceDescription, note_surroundings};
use crate::device_memory::MemoryBlocks;
use crate::fork;
use crate::growth;
use crate::handle_map::HandleMap;
use crate::leaks;
use crate::memory_report::{ReportingDevice, enables, reporting_device};
use crate::os;
use crate::parent::{CommandName, DEVICES, INSTANCES, Parent, dispatch_key};
use crate::physical_device::PhysicalDeviceCommands;
use crate::record::{free_record, new_record};
use crate::report;
use crate::settings::{self, settings};
use crate::state;
use crate::timeline::{self, begin_phase};

const MEMORY_BUDGET: &CStr = c"VK_EXT_memory_budget";

type Destroy = unsafe extern "system" fn(Handle, Callbacks);

/// A forked child starts with 0.
pub(super) static LIVE_INSTANCES: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn has_live_instance() -> bool {
    LIVE_INSTANCES.load(Ordering::Acquire) != 0
}

pub(super) unsafe extern "system" fn create_instance(info: Info, allocator: Callbacks, instance: *mut Handle) -> i32 {
    type Function = unsafe extern "system" fn(Info, Callbacks, *mut Handle) -> i32;
    // SAFETY: the loader passes a create info with its own chain.
    let Some(below) = (unsafe { advance_link(info, LOADER_INSTANCE) }) else {
        return ERROR_INITIALIZATION_FAILED;
    };
    let name = CommandName::of(CREATE_INSTANCE);
    let look_up = below.get_instance_proc_addr;
    // SAFETY: a global command, which is looked up with NULL.
    let Some(function) = (unsafe { look_up(ptr::null_mut(), name.as_ptr()) }) else {
        return ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the command has this signature.
    let function = unsafe { transmute::<VoidFunction, Function>(function) };
    caught(os::stay_loaded);
    // SAFETY: Vulkan requires the command's create info.
    caught(|| unsafe { settings::load(info) });
    // Before anything exists that a child of a fork must not have.
    if !settings().passes_through {
        caught(fork::watch);
        // Before the first stack, which lies in it.
        caught(state::open);
    }
    let Some(accounts) = caught(accounts::for_instance).flatten() else {
        return ERROR_OUT_OF_HOST_MEMORY;
    };
    if !settings().passes_through {
        caught(report::at_exit);
        caught(leaks::start);
        caught(report::listen);
        caught(coverage::start);
        caught(timeline::start);
        caught(growth::start);
        // SAFETY: Vulkan requires the command's create info.
        caught(|| unsafe { note_surroundings(info, look_up) });
    }
    let finished = run(CREATE_INSTANCE, accounts, Owners::default(), Passed::ByProgram(allocator, None), |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the instance.
        unsafe { function(info, allocator, instance) }
    });
    if finished.result < 0 {
        accounts.release();
        return finished.finish(CREATE_INSTANCE);
    }
    // SAFETY: the command has written it.
    let handle = unsafe { *instance };
    // SAFETY: the layer's below, for its own instance.
    let mut parent = unsafe { Parent::new(CommandLevel::Instance, handle, look_up, accounts, finished.owner) };
    if !settings().passes_through {
        // SAFETY: inside the command that creates the instance.
        parent.physical = unsafe { PhysicalDeviceCommands::look_up(handle, look_up) };
        // SAFETY: inside the command that creates the instance.
        caught(|| unsafe { parent.look_up_known(CommandLevel::Instance) });
    }
    // SAFETY: a handle that was just created.
    if !unsafe { register(&INSTANCES, parent, DESTROY_INSTANCE, (handle, &finished)) } {
        accounts.release();
        finished.finish(CREATE_INSTANCE);
        return ERROR_OUT_OF_HOST_MEMORY;
    }
    LIVE_INSTANCES.fetch_add(1, Ordering::AcqRel);
    created(CREATE_INSTANCE, accounts, number(handle), &finished);
    finished.finish(CREATE_INSTANCE)
}

pub(super) unsafe extern "system" fn create_device(
    physical_device: Handle,
    info: Info,
    allocator: Callbacks,
    device: *mut Handle,
) -> i32 {
    type Function = unsafe extern "system" fn(Handle, Info, Callbacks, *mut Handle) -> i32;
    // SAFETY: Vulkan requires a live physical device.
    let Some(instance) = (unsafe { Parent::of(row(CREATE_DEVICE), physical_device) }) else {
        return ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the loader passes a create info with its own chain.
    let Some(below) = (unsafe { advance_link(info, LOADER_DEVICE) }) else {
        return ERROR_INITIALIZATION_FAILED;
    };
    let Some(look_up) = below.get_device_proc_addr else {
        return ERROR_INITIALIZATION_FAILED;
    };
    let name = CommandName::of(CREATE_DEVICE);
    let handle = ptr::with_exposed_provenance_mut(instance.handle);
    // SAFETY: the layer's below, with its own instance.
    let function = unsafe { (below.get_instance_proc_addr)(handle, name.as_ptr()) };
    let Some(function) = function else {
        return ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the command has this signature.
    let function = unsafe { transmute::<VoidFunction, Function>(function) };
    let Some(accounts) = caught(|| instance.accounts.for_device()).flatten() else {
        return ERROR_OUT_OF_HOST_MEMORY;
    };
    // SAFETY: Vulkan requires the command's physical device and create info.
    let report = || unsafe { reporting_device(instance, physical_device, info, accounts) };
    let mut reporting = caught(report).flatten();
    let info = reporting.as_mut().map_or(info, ReportingDevice::info);
    let owners = Owners { instance: instance.owner, ..Owners::default() };
    let finished = run(CREATE_DEVICE, accounts, owners, Passed::ByProgram(allocator, None), |allocator| {
        // SAFETY: the program's arguments; the callbacks outlive the device.
        unsafe { function(physical_device, info, allocator, device) }
    });
    if finished.result < 0 {
        accounts.release();
        return finished.finish(CREATE_DEVICE);
    }
    // SAFETY: the command has written it.
    let handle = unsafe { *device };
    // SAFETY: the layer's below, for its own device.
    let mut parent = unsafe { Parent::new(CommandLevel::Device, handle, look_up, accounts, finished.owner) };
    parent.instance_owner = instance.owner;
    // SAFETY: a physical device of the instance.
    let memory = unsafe { instance.physical.memory_properties(physical_device) };
    accounts.device_memory.set_sizes(&memory);
    parent.memory = Some(MemoryBlocks::new(memory));
    if !settings().passes_through {
        // SAFETY: a physical device of the instance.
        let device = unsafe { instance.physical.properties(physical_device) };
        *accounts.description.lock() = Some(DeviceDescription::new(device));
        // SAFETY: the create info of a device that was created.
        if unsafe { enables(info, MEMORY_BUDGET) } {
            // SAFETY: a physical device of the instance, which has the extension.
            let budgets = unsafe { instance.physical.budgets(physical_device) };
            accounts.device_memory.set_budgets(&budgets);
        }
        // SAFETY: inside the command that creates the device.
        caught(|| unsafe { parent.look_up_known(CommandLevel::Device) });
    }
    // SAFETY: a handle that was just created.
    if !unsafe { register(&DEVICES, parent, DESTROY_DEVICE, (handle, &finished)) } {
        accounts.release();
        finished.finish(CREATE_DEVICE);
        return ERROR_OUT_OF_HOST_MEMORY;
    }
    created(CREATE_DEVICE, accounts, number(handle), &finished);
    caught(|| begin_phase("device created"));
    finished.finish(CREATE_DEVICE)
}

pub(super) unsafe extern "system" fn destroy_parent<const ROW: usize>(handle: Handle, allocator: Callbacks) {
    let parents = if ROW == DESTROY_INSTANCE { &INSTANCES } else { &DEVICES };
    // SAFETY: Vulkan requires NULL, or a handle that is live until the layer below has destroyed it.
    let key = unsafe { dispatch_key(handle) };
    let Some(parent) = parents.remove(key) else {
        return;
    };
    // SAFETY: from `register`; no table has it, and no other command uses the handle now.
    let parent = unsafe { free_record(parent) };
    let owners = Owners { instance: parent.instance_owner, ..Owners::default() };
    caught(|| leaks::destroying(ROW, number(handle)));
    let finished = run(ROW, parent.accounts, owners, Passed::ByProgram(allocator, Some(number(handle))), |allocator| {
        if let Some(function) = parent.next(ROW) {
            // SAFETY: the row's command has this signature.
            let function = unsafe { transmute::<VoidFunction, Destroy>(function) };
            // SAFETY: the program's arguments; NULL was replaced at the creation, too.
            unsafe { function(handle, allocator) };
        }
        0
    });
    ended(ROW, parent.accounts, number(handle), &finished);
    caught(|| parent.accounts.release());
    if ROW == DESTROY_DEVICE {
        caught(|| begin_phase("device destroyed"));
    }
    finished.finish(ROW);
    if ROW == DESTROY_INSTANCE && is_last_instance() {
        caught(report::write);
    }
}

/// Returns whether it was the last one. An instance that a parent created before a fork is not counted.
fn is_last_instance() -> bool {
    let before = LIVE_INSTANCES.fetch_update(Ordering::AcqRel, Ordering::Acquire, |live| live.checked_sub(1));
    before == Ok(1)
}

/// `false` where there is no memory: then the new object is destroyed again, since hooks could not find its commands.
///
/// # Safety
/// `handle` was just created, and the program does not have it yet; `index` is the row of the command that destroys it.
unsafe fn register(
    parents: &HandleMap<Parent>,
    parent: Parent,
    index: usize,
    (handle, finished): (Handle, &Finished<'_>),
) -> bool {
    let (destroy, instance) = (parent.next(index), parent.instance_owner);
    // SAFETY: a handle that was just created.
    let key = unsafe { dispatch_key(handle) };
    let is_known = caught(|| {
        let record = new_record(parent)?;
        // A parent that still has this key was never destroyed by the program, and the loader has freed its table. Its
        // record is not freed, since a thread may still be in a command on it.
        while parents.remove(key).is_some() {}
        if !parents.insert(key, record) {
            // SAFETY: from `new_record`, and no table has it.
            drop(unsafe { free_record(record) });
            return None;
        }
        Some(())
    });
    if is_known.flatten().is_some() {
        return true;
    }
    let owners = Owners { instance, ..Owners::default() };
    if let Some(destroy) = destroy {
        // SAFETY: the row's command has this signature.
        let destroy = unsafe { transmute::<VoidFunction, Destroy>(destroy) };
        // SAFETY: a live handle, which the program does not have, and its callbacks.
        undo(index, owners, finished, |allocator| unsafe {
            destroy(handle, allocator);
        });
    }
    false
}

fn number(handle: Handle) -> u64 {
    handle.addr() as u64
}

const _: () = assert!(row(DESTROY_INSTANCE).destroys() && row(DESTROY_DEVICE).destroys());
