//! Defects that can be planted by name, with `STEWARD_DEFECT`: those of the fake driver that a real interface can carry
//! (RD15). The fake driver says what each defect does; this file says in which command, and with the callbacks of which
//! object.
//!
//! Only commands of the process's first thread go wrong. A defect between commands happens at the end of another
//! thread.

use core::cell::Cell;
use core::ffi::CStr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use alloc_core::FromGlobalAlloc;
use ash::vk;
use fake_driver::{
    CommandCallbacks, Defect, Dispatch, FakeKind, PLANTABLE, PassedCallbacks, PlantedDriver, PlantedState, VARIABLE,
};
use vk_callbacks::OwnerId;
use vk_callbacks::driver::{DeviceDomain, InstanceDomain};
use vk_callbacks::raw::RawCallbacks;

/// The object whose callbacks a command uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Instance,
    Device,
    Memory,
    Buffer,
    PipelineCache,
    DescriptorPool,
    CommandPool,
    /// The `pAllocator` of the command itself.
    Own,
}

/// Copies of the structs, by [`Whose`].
#[derive(Clone, Copy)]
struct Kept([Option<RawCallbacks>; 8]);

// SAFETY: callbacks may be called from any thread, with their user data.
unsafe impl Send for Kept {}
// SAFETY: callbacks may be called from any thread, with their user data.
unsafe impl Sync for Kept {}

static KEPT: Mutex<Kept> = Mutex::new(Kept([None; 8]));
static STATE: PlantedState = PlantedState::new();

std::thread_local! {
    static COMMAND: Cell<&'static str> = const { Cell::new("") };
    static END: EndOfThread = const { EndOfThread };
}

/// The defect planted in this process.
fn planted() -> Option<Defect> {
    static PLANTED: OnceLock<Option<Defect>> = OnceLock::new();
    *PLANTED.get_or_init(|| {
        // SAFETY: the name ends with a NUL; no thread writes the environment while a driver runs.
        let named = unsafe { libc::getenv(VARIABLE.as_ptr()) };
        if named.is_null() {
            return None;
        }
        // SAFETY: a text of the environment ends with a NUL.
        let named = unsafe { CStr::from_ptr(named) };
        let called = |defect: &&Defect| defect.finding().name().as_bytes() == named.to_bytes();
        PLANTABLE.iter().find(called).copied()
    })
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The object whose callbacks a creating command passes.
fn creates(command: &str) -> Whose {
    match command {
        "create_instance" => Whose::Instance,
        "create_device" => Whose::Device,
        "allocate_memory" => Whose::Memory,
        "create_buffer" => Whose::Buffer,
        "create_pipeline_cache" => Whose::PipelineCache,
        "create_descriptor_pool" => Whose::DescriptorPool,
        "create_command_pool" => Whose::CommandPool,
        _ => Whose::Own,
    }
}

/// The command of the fake driver that does what `defect` does here, and the object whose callbacks it uses.
fn scene(defect: Defect, command: &str) -> Option<(&'static str, Whose)> {
    const IN_MOST: &str = "vkMapMemory";
    Some(match (command, defect) {
        // The only command that may return an error which a program can ignore.
        ("free_descriptor_sets", Defect::OutOfMemoryWithoutNull | Defect::OtherErrorAfterNull) => {
            (IN_MOST, Whose::DescriptorPool)
        }
        ("map_memory", Defect::OutOfMemoryWithoutNull | Defect::OtherErrorAfterNull) => {
            return None;
        }
        // The state has one block at most, which the next bind frees.
        ("create_buffer", Defect::FreedInOtherCommand) if !STATE.is_empty() => return None,
        ("map_memory", _) => (IN_MOST, Whose::Memory),
        ("unmap_memory", _) => ("vkUnmapMemory", Whose::Memory),
        ("bind_buffer_memory", _) => ("vkBindBufferMemory", Whose::Buffer),
        ("merge_pipeline_caches", _) => ("vkMergePipelineCaches", Whose::PipelineCache),
        ("allocate_descriptor_sets", _) => ("vkAllocateDescriptorSets", Whose::DescriptorPool),
        ("update_descriptor_sets", _) => ("vkUpdateDescriptorSets", Whose::DescriptorPool),
        ("end_command_buffer", _) => ("vkEndCommandBuffer", Whose::CommandPool),
        ("create_buffer", _) => ("vkCreateBuffer", Whose::Own),
        ("create_image", _) => ("vkCreateImage", Whose::Own),
        ("create_descriptor_update_template", _) => ("vkCreateDescriptorUpdateTemplate", Whose::Own),
        _ => return None,
    })
}

/// A command begins. Returns the error that it is to return.
pub(crate) fn enter(command: &'static str) -> Option<vk::Result> {
    let defect = planted()?;
    COMMAND.set(command);
    around_idle_threads(defect, command);
    match scene(defect, command) {
        Some((scene, whose)) if whose != Whose::Own => run(defect, scene, whose),
        _ => None,
    }
}

/// The running command got these callbacks.
pub(crate) fn given(raw: *const RawCallbacks) {
    // SAFETY: valid usage of any command with callbacks: NULL or a struct.
    let (Some(defect), Some(raw)) = (planted(), unsafe { raw.as_ref() }) else {
        return;
    };
    let command = COMMAND.replace("");
    if !is_first_thread() {
        return;
    }
    let whose = creates(command);
    let mut all = kept();
    all.0[Whose::Own as usize] = Some(*raw);
    all.0[whose as usize] = Some(*raw);
    drop(all);
    if let Some((scene, Whose::Own)) = scene(defect, command) {
        let _ = run(defect, scene, Whose::Own);
    }
}

fn run(defect: Defect, scene: &'static str, whose: Whose) -> Option<vk::Result> {
    let kept = *kept();
    let planted = PlantedDriver::new(defect, &STATE, &kept);
    let wrong = is_first_thread().then(|| planted.command(scene, &kept.of(whose)));
    wrong.flatten().map(vk::Result::from_raw)
}

fn is_first_thread() -> bool {
    // SAFETY: it has no argument.
    unsafe { libc::gettid() == std::process::id().cast_signed() }
}

/// Domains without callbacks, if pools and their children are to pass over all callbacks.
pub(crate) fn bypassing_domains() -> Option<&'static (InstanceDomain<'static>, DeviceDomain)> {
    static OWN: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
    static BYPASSING: OnceLock<Option<(InstanceDomain<'static>, DeviceDomain)>> = OnceLock::new();
    let domains = || {
        // SAFETY: no callbacks.
        let instance = unsafe { InstanceDomain::new(core::ptr::null(), &OWN) };
        // SAFETY: NULL is no callbacks.
        let device = unsafe { DeviceDomain::new(core::ptr::null()) };
        instance.ok().zip(device.ok())
    };
    let wanted = planted() == Some(Defect::PoolNeverAsked);
    wanted.then(|| BYPASSING.get_or_init(domains).as_ref()).flatten()
}

/// At the end of a thread that created a buffer the driver acts outside of any command.
struct EndOfThread;

impl Drop for EndOfThread {
    fn drop(&mut self) {
        if let Some(defect) = planted() {
            let kept = *kept();
            PlantedDriver::new(defect, &STATE, &kept).between_commands(&kept.of(Whose::Device));
        }
    }
}

/// Work between commands begins, or ends, in a command.
fn around_idle_threads(defect: Defect, command: &str) {
    use Defect::{AskedBetweenCommands, FreedBetweenCommands, NotifiedBetweenCommands};
    if !matches!(defect, AskedBetweenCommands | FreedBetweenCommands | NotifiedBetweenCommands) {
        return;
    }
    let kept = *kept();
    let planted = PlantedDriver::new(defect, &STATE, &kept);
    let of_device = kept.of(Whose::Device);
    match command {
        "create_buffer" if !is_first_thread() => {
            END.with(|_| ());
            // The state has one block at most.
            if defect == FreedBetweenCommands && STATE.is_empty() {
                let _ = planted.command("vkQueueWaitIdle", &of_device);
            }
        }
        "destroy_device" => {
            let _ = planted.command("vkDeviceWaitIdle", &of_device);
        }
        _ => {}
    }
}

impl Kept {
    fn passed(&self, whose: Whose) -> PassedCallbacks {
        match &self.0[whose as usize] {
            // SAFETY: the struct lies in this value, which outlives its use; its functions are called while their
            // device lives.
            Some(raw) => unsafe { PassedCallbacks::new(raw, OwnerId::fresh()) },
            None => PassedCallbacks::NONE,
        }
    }

    fn of(&self, whose: Whose) -> CommandCallbacks {
        CommandCallbacks {
            object: self.passed(whose),
            device: self.passed(Whose::Device),
            instance: self.passed(Whose::Instance),
        }
    }
}

impl Dispatch for Kept {
    fn allocator(&self, kind: FakeKind) -> PassedCallbacks {
        match kind {
            FakeKind::Buffer => self.passed(Whose::Buffer),
            _ => PassedCallbacks::NONE,
        }
    }

    fn alongside(&self, here: &mut dyn FnMut(), there: &(dyn Fn() + Sync)) {
        thread::scope(|threads| {
            let other = thread::Builder::new().spawn_scoped(threads, there);
            here();
            drop(other);
        });
    }
}
