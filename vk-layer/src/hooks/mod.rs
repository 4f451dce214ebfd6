//! Lookup of commands: what the layer returns for a name. Those with a `pAllocator` are hooked by `table`, the others
//! by `names` and `forward`; `bracket` runs a command inside of its bracket.

/// An array of `$hook::<N>()`: for each number sixteen of them.
macro_rules! hooks {
    ($hook:ident: $($high:literal)*) => {
        [$(
            $hook::<{ $high * 16 }>(), $hook::<{ $high * 16 + 1 }>(),
            $hook::<{ $high * 16 + 2 }>(), $hook::<{ $high * 16 + 3 }>(),
            $hook::<{ $high * 16 + 4 }>(), $hook::<{ $high * 16 + 5 }>(),
            $hook::<{ $high * 16 + 6 }>(), $hook::<{ $high * 16 + 7 }>(),
            $hook::<{ $high * 16 + 8 }>(), $hook::<{ $high * 16 + 9 }>(),
            $hook::<{ $high * 16 + 10 }>(), $hook::<{ $high * 16 + 11 }>(),
            $hook::<{ $high * 16 + 12 }>(), $hook::<{ $high * 16 + 13 }>(),
            $hook::<{ $high * 16 + 14 }>(), $hook::<{ $high * 16 + 15 }>(),
        )*]
    };
}

mod bracket;
mod deferred;
mod fence;
mod forward;
mod generic;
mod instance_device;
mod memory;
mod names;
mod owners;
mod sparse;
mod table;

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering;

use vk_callbacks::CommandRow;
use vk_callbacks::raw::RawCallbacks;

use crate::chain::{GetProcAddr, VoidFunction};
use crate::commands::known_row;
use crate::handle_map::HandleMap;
use crate::parent::{DEVICES, INSTANCES, Parent, dispatch_key};
use crate::settings::settings;

pub(crate) use bracket::{COMMANDS, strike};
pub(crate) use deferred::DeferredOperations;
#[cfg(not(feature = "planted-panic"))]
pub(crate) use fence::HookPhase;
#[cfg(feature = "planted-panic")]
pub use fence::HookPhase;
pub(crate) use fence::{caught, has_panicked_ever, passed_kinds};
pub(crate) use forward::commands_called;
pub(crate) use instance_device::has_live_instance;
pub(crate) use names::{SLOTS, coverage, known_commands, unknown_names};

pub(crate) const CREATE_INSTANCE: usize = known_row("vkCreateInstance");
pub(crate) const CREATE_DEVICE: usize = known_row("vkCreateDevice");
const DESTROY_INSTANCE: usize = known_row("vkDestroyInstance");
const DESTROY_DEVICE: usize = known_row("vkDestroyDevice");
const CREATE_CACHE: usize = known_row("vkCreatePipelineCache");
const CREATE_DEFERRED: usize = known_row("vkCreateDeferredOperationKHR");

type Callbacks = *const RawCallbacks;
type Handle = *mut c_void;
type Info = *const c_void;

/// `vkGetInstanceProcAddr`: a hook where the layer below has the command, else what that answers.
///
/// # Safety
/// As Vulkan's: `instance` is NULL or a live instance, `name` ends with 0.
pub(crate) unsafe extern "system" fn get_instance_proc_addr(
    instance: *mut c_void,
    name: *const c_char,
) -> Option<VoidFunction> {
    // SAFETY: the name ends with 0.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    if text == b"vkGetInstanceProcAddr" {
        return Some(as_void(get_instance_proc_addr));
    }
    // Both are answered without a look at the instance, as the loader's own end of the chain does: layers above look
    // both up with NULL, with the loader's handle, or with that of an instance that is gone.
    match text {
        b"vkCreateInstance" => return table::hook(CREATE_INSTANCE),
        b"vkCreateDevice" => return table::hook(CREATE_DEVICE),
        _ => {}
    }
    // SAFETY: NULL, or a live instance; the name ends with 0.
    let (parent, next) = unsafe { next_proc_addr(&INSTANCES, instance, name) }?;
    if text == b"vkGetDeviceProcAddr" {
        return Some(as_void(get_device_proc_addr));
    }
    Some(hook_of(text, parent, next).unwrap_or(next))
}

/// `vkGetDeviceProcAddr`, in the same way.
///
/// # Safety
/// As Vulkan's: `device` is NULL or a live device, `name` ends with 0.
pub(crate) unsafe extern "system" fn get_device_proc_addr(
    device: *mut c_void,
    name: *const c_char,
) -> Option<VoidFunction> {
    // SAFETY: NULL, or a live device; the name ends with 0.
    let (parent, next) = unsafe { next_proc_addr(&DEVICES, device, name) }?;
    // SAFETY: the name ends with 0.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    if text == b"vkGetDeviceProcAddr" {
        return Some(as_void(get_device_proc_addr));
    }
    Some(hook_of(text, parent, next).unwrap_or(next))
}

/// # Safety
/// `handle` is NULL, or a live instance or device, whichever `parents` are; `name` ends with 0.
unsafe fn next_proc_addr(
    parents: &'static HandleMap<Parent>,
    handle: *mut c_void,
    name: *const c_char,
) -> Option<(&'static Parent, VoidFunction)> {
    // SAFETY: NULL, or a live handle, which begins with the loader's word.
    let parent = parents.get(unsafe { dispatch_key(handle) })?;
    // SAFETY: it lives as long as the handle, and the callers do not keep it.
    let parent = unsafe { parent.as_ref() };
    // SAFETY: the function of the layer below, for its own handle.
    let next = unsafe { (parent.get_proc_addr)(handle, name) }?;
    Some((parent, next))
}

fn hook_of(name: &[u8], parent: &Parent, next: VoidFunction) -> Option<VoidFunction> {
    caught(|| {
        let index = str::from_utf8(name).ok().and_then(CommandRow::index_of);
        if settings().passes_through {
            return index.filter(|index| [DESTROY_INSTANCE, DESTROY_DEVICE].contains(index)).and_then(table::hook);
        }
        index.and_then(table::hook).or_else(|| names::hook(name, parent, next))
    })?
}

pub(crate) fn after_fork() {
    COMMANDS.reset();
    forward::SUBMITS.reset();
    forward::FORWARDED.reset();
    instance_device::LIVE_INSTANCES.store(0, Ordering::Relaxed);
}

fn as_void(function: GetProcAddr) -> VoidFunction {
    // SAFETY: functions have addresses of one size; the caller casts it back.
    unsafe { std::mem::transmute::<GetProcAddr, VoidFunction>(function) }
}
