//! A driver around the driver: whoever watches sees each command, and replaces its `pAllocator`. Shares no code with
//! the layer.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::mem::transmute;
use std::ptr;
use std::sync::{Mutex, OnceLock};

use ash::vk;
use vk_steward::drivers::OpenDriver;

/// Sees what a thread calls, in [`watched`].
pub(crate) trait Watcher {
    /// The `pAllocator` for objects of this kind, in place of the command's.
    fn callbacks(
        &self,
        kind: &'static str,
        given: Option<&vk::AllocationCallbacks<'_>>,
    ) -> *const vk::AllocationCallbacks<'_>;

    /// Calls `call` once, which calls the command and does nothing else.
    fn command(&self, name: &'static str, call: &mut dyn FnMut());
}

type Void = unsafe extern "system" fn();
type Words = unsafe extern "system" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
) -> usize;

/// A command, and where it has a `pAllocator` the kind of its object and which parameter that is.
#[derive(Clone, Copy)]
struct Wrapped {
    command: Words,
    name: &'static str,
    allocator: Option<(&'static str, usize)>,
}

/// The functions of the one driver that a process shims.
static END: OnceLock<vk::PFN_vkGetInstanceProcAddr> = OnceLock::new();
static DEVICE_END: OnceLock<vk::PFN_vkGetDeviceProcAddr> = OnceLock::new();
static WRAPPED: Mutex<Vec<Wrapped>> = Mutex::new(Vec::new());

thread_local! {
    /// Valid while it is set.
    static WATCHER: Cell<Option<*const dyn Watcher>> = const { Cell::new(None) };
}

/// The driver behind the shim. On threads of the caller's that [watch](watched), commands go by the watcher.
pub(crate) fn shimmed(driver: &OpenDriver) -> OpenDriver {
    let end = driver.entry().static_fn().get_instance_proc_addr;
    let known = *END.get_or_init(|| end);
    assert!(ptr::fn_addr_eq(known, end), "one driver a process");
    // Its drop would close the library.
    std::mem::forget(driver.entry().clone());
    let functions = ash::StaticFn { get_instance_proc_addr };
    // SAFETY: the shim finds global commands as the driver does, which stays open.
    driver.with_entry(unsafe { ash::Entry::from_static_fn(functions) })
}

/// Calls `run`, while `watcher` watches this thread.
pub(crate) fn watched<R>(watcher: &dyn Watcher, run: impl FnOnce() -> R) -> R {
    struct Ended(Option<*const dyn Watcher>);
    impl Drop for Ended {
        fn drop(&mut self) {
            WATCHER.set(self.0);
        }
    }
    // SAFETY: only the lifetime changes; `Ended` removes it before the borrow ends.
    let watcher: &'static dyn Watcher = unsafe { transmute(watcher) };
    let _ended = Ended(WATCHER.replace(Some(watcher)));
    run()
}

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let end = END.get().expect("set before the shim is known");
    // SAFETY: the driver's own function, with the instance and the name that Vulkan's caller passed to it.
    let found = unsafe { end(instance, name) }?;
    // SAFETY: a name as Vulkan has it.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetInstanceProcAddr" => {
            // SAFETY: the caller casts it back.
            Some(unsafe { transmute::<vk::PFN_vkGetInstanceProcAddr, Void>(get_instance_proc_addr) })
        }
        b"vkGetDeviceProcAddr" => {
            // SAFETY: the command has this signature.
            let end = unsafe { transmute::<Void, vk::PFN_vkGetDeviceProcAddr>(found) };
            DEVICE_END.get_or_init(|| end);
            // SAFETY: the caller casts it back.
            Some(unsafe { transmute::<vk::PFN_vkGetDeviceProcAddr, Void>(get_device_proc_addr) })
        }
        name => Some(wrapped(name, found)),
    }
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    let end = DEVICE_END.get().expect("it was looked up before");
    // SAFETY: the driver's own function, with the device and the name that Vulkan's caller passed to it.
    let found = unsafe { end(device, name) }?;
    // SAFETY: a name as Vulkan has it.
    Some(wrapped(unsafe { CStr::from_ptr(name) }.to_bytes(), found))
}

/// The command in a slot.
fn wrapped(name: &[u8], command: Void) -> Void {
    let name = std::str::from_utf8(name).expect("names are ASCII");
    // SAFETY: the workload's commands have at most twelve words, and no floating point.
    let command = unsafe { transmute::<Void, Words>(command) };
    let mut all = WRAPPED.lock().expect("nobody panics with it");
    let known = all.iter().position(|slot| slot.name == name && ptr::fn_addr_eq(slot.command, command));
    let slot = known.unwrap_or_else(|| {
        all.push(Wrapped { command, name: String::from(name).leak(), allocator: allocator_of(name) });
        all.len() - 1
    });
    // SAFETY: the caller casts it back.
    unsafe { transmute::<Words, Void>(THUNKS[slot]) }
}

/// The kind that the command creates or destroys, and the place of its `pAllocator`, from its name alone.
fn allocator_of(name: &str) -> Option<(&'static str, usize)> {
    let object = ["vkCreate", "vkDestroy", "vkAllocate", "vkFree"];
    let object = object.iter().find_map(|verb| name.strip_prefix(verb))?;
    let (kind, place) = match (object, name) {
        // These come from a pool.
        ("CommandBuffers" | "DescriptorSets", _) => return None,
        ("Instance", _) => ("Instance", 1),
        (_, "vkDestroyDevice") => ("Device", 1),
        ("Memory", _) => ("DeviceMemory", 2),
        ("GraphicsPipelines" | "ComputePipelines", _) => ("Pipeline", 4),
        _ => (object, 2),
    };
    Some((format!("Vk{kind}").leak(), place))
}

unsafe extern "system" fn thunk<const SLOT: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
    h: usize,
    i: usize,
    j: usize,
    k: usize,
    l: usize,
) -> usize {
    let slot = WRAPPED.lock().expect("nobody panics with it")[SLOT];
    let mut words = [a, b, c, d, e, f, g, h, i, j, k, l];
    let mut answer = 0;
    // SAFETY: it is valid while it is set.
    let watcher = WATCHER.get().map(|watcher| unsafe { &*watcher });
    if let (Some(watcher), Some((kind, place))) = (watcher, slot.allocator) {
        let given = words[place] as *const vk::AllocationCallbacks<'_>;
        // SAFETY: NULL, or the command's argument.
        words[place] = watcher.callbacks(kind, unsafe { given.as_ref() }) as usize;
    }
    let mut call = || {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = words;
        // SAFETY: the command's own arguments; words behind them are ignored.
        answer = unsafe { (slot.command)(a, b, c, d, e, f, g, h, i, j, k, l) };
    };
    match watcher {
        Some(watcher) => watcher.command(slot.name, &mut call),
        None => call(),
    }
    answer
}

macro_rules! thunks {
    ($($high:literal)*) => {
        [$(
            thunk::<{ $high * 8 }>, thunk::<{ $high * 8 + 1 }>, thunk::<{ $high * 8 + 2 }>, thunk::<{ $high * 8 + 3 }>,
            thunk::<{ $high * 8 + 4 }>, thunk::<{ $high * 8 + 5 }>, thunk::<{ $high * 8 + 6 }>, thunk::<{ $high * 8 + 7 }>,
        )*]
    };
}

static THUNKS: [Words; 512] = thunks!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
);
