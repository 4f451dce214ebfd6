//! A driver around the driver: each `pAllocator` becomes one of [`Around`]. It stands below the layer, and shares no code with it.

use std::ffi::{CStr, c_char};
use std::mem::transmute;
use std::sync::{Mutex, OnceLock};

use ash::vk;
use vk_accounts::ObjectKind;

use crate::around::Around;

type Void = unsafe extern "system" fn();
type Words = unsafe extern "system" fn(usize, usize, usize, usize, usize, usize) -> usize;

/// Commands with a `pAllocator` that can be wrapped.
const SLOTS: usize = 256;

pub(super) struct Witness {
    pub(super) around: Around,
    end: vk::PFN_vkGetInstanceProcAddr,
    device_end: OnceLock<vk::PFN_vkGetDeviceProcAddr>,
    slots: Mutex<Vec<Wrapped>>,
}

/// A command, the kind of its object, and which parameter is its `pAllocator`.
#[derive(Clone, Copy)]
struct Wrapped {
    command: Words,
    kind: usize,
    place: usize,
}

static WITNESS: OnceLock<Witness> = OnceLock::new();

/// The witness in front of this driver; one a process.
pub(super) fn witness(end: vk::PFN_vkGetInstanceProcAddr) -> &'static Witness {
    WITNESS.get_or_init(|| Witness {
        around: Around::new(),
        end,
        device_end: OnceLock::new(),
        slots: Mutex::default(),
    })
}

/// The witness of this process.
pub(super) fn known() -> &'static Witness {
    WITNESS.get().expect("before any command")
}

pub(super) unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: forwarded.
    let found = unsafe { (known().end)(instance, name) }?;
    // SAFETY: a name as Vulkan has it.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"vkGetInstanceProcAddr" => {
            // SAFETY: the caller casts it back.
            Some(unsafe {
                transmute::<vk::PFN_vkGetInstanceProcAddr, Void>(get_instance_proc_addr)
            })
        }
        b"vkGetDeviceProcAddr" => {
            // SAFETY: the command has this signature.
            let end = unsafe { transmute::<Void, vk::PFN_vkGetDeviceProcAddr>(found) };
            known().device_end.get_or_init(|| end);
            // SAFETY: the caller casts it back.
            Some(unsafe { transmute::<vk::PFN_vkGetDeviceProcAddr, Void>(get_device_proc_addr) })
        }
        name => Some(wrapped(name, found)),
    }
}

unsafe extern "system" fn get_device_proc_addr(
    device: vk::Device,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let end = known().device_end.get().expect("it was looked up before");
    // SAFETY: forwarded.
    let found = unsafe { end(device, name) }?;
    // SAFETY: a name as Vulkan has it.
    Some(wrapped(unsafe { CStr::from_ptr(name) }.to_bytes(), found))
}

/// The command in a slot, if it has a `pAllocator`; else itself.
fn wrapped(name: &[u8], command: Void) -> Void {
    let name = std::str::from_utf8(name).expect("names are ASCII");
    let Some((kind, place)) = allocator_of(name) else {
        return command;
    };
    // SAFETY: a command of at most six words.
    let command = unsafe { transmute::<Void, Words>(command) };
    let mut slots = known().slots.lock().expect("nobody panics with it");
    let known = slots
        .iter()
        .position(|slot| slot.command as usize == command as usize);
    let slot = known.unwrap_or_else(|| {
        slots.push(Wrapped {
            command,
            kind,
            place,
        });
        slots.len() - 1
    });
    // SAFETY: the caller casts it back.
    unsafe { transmute::<Words, Void>(THUNKS[slot]) }
}

/// The kind that the command creates or destroys, and the place of its `pAllocator`, from its name alone.
fn allocator_of(name: &str) -> Option<(usize, usize)> {
    let object = ["vkCreate", "vkDestroy", "vkAllocate", "vkFree"];
    let object = object.iter().find_map(|verb| name.strip_prefix(verb))?;
    let other = format!("Vk{object}");
    let (kind, place) = match (object, name) {
        ("Instance", _) => ("VkInstance", 1),
        (_, "vkDestroyDevice") => ("VkDevice", 1),
        ("Memory", _) => ("VkDeviceMemory", 2),
        ("GraphicsPipelines" | "ComputePipelines", _) => ("VkPipeline", 4),
        _ => (&*other, 2),
    };
    let kinds = ObjectKind::ALL
        .into_iter()
        .filter(|kind| kind.takes_callbacks());
    let kind = kinds.into_iter().find(|known| known.name() == kind)?;
    Some((kind.index(), place))
}

unsafe extern "system" fn thunk<const SLOT: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> usize {
    let slot = known().slots.lock().expect("nobody panics with it")[SLOT];
    let mut words = [a, b, c, d, e, f];
    let allocator = words[slot.place] as *const vk::AllocationCallbacks<'_>;
    // SAFETY: NULL, or the command's argument.
    let allocator = unsafe { allocator.as_ref() }.expect("the layer replaces NULL");
    let around = known().around.callbacks(slot.kind, allocator);
    words[slot.place] = std::ptr::from_ref(around) as usize;
    let [a, b, c, d, e, f] = words;
    // SAFETY: the command's own arguments; words behind them are ignored.
    unsafe { (slot.command)(a, b, c, d, e, f) }
}

macro_rules! thunks {
    ($($high:literal)*) => {
        [$(
            thunk::<{ $high * 8 }>, thunk::<{ $high * 8 + 1 }>, thunk::<{ $high * 8 + 2 }>, thunk::<{ $high * 8 + 3 }>,
            thunk::<{ $high * 8 + 4 }>, thunk::<{ $high * 8 + 5 }>, thunk::<{ $high * 8 + 6 }>, thunk::<{ $high * 8 + 7 }>,
        )*]
    };
}

static THUNKS: [Words; SLOTS] = thunks!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
);
