//! Every command without a `pAllocator` that Vulkan's headers have, called through the layer onto a driver that records
//! its arguments.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::LazyLock;

use testkit::skip;
use vk_callbacks::CommandRow;
use vk_callbacks::commands::CommandLevel;
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{CreateInfo, Layer, Link, LinkInfo, VoidFunction, next_device_proc_addr, next_instance_proc_addr};
use crate::headers::folder;
use crate::judging::report_of;

const NONE: *const RawCallbacks = ptr::null();
type Handle = *mut c_void;

/// What each command returns: an error, for those that return a `VkResult`, and more than 32 bits.
const RESULT: u64 = 0x1234_5678_ffff_ffef;
const MOST: usize = 15;
/// What a pointer of each place leads to: enough for as many structs as there are places.
static ZEROS: [[u64; 512]; MOST] = [[0; 512]; MOST];

thread_local! {
    static ARGUMENTS: RefCell<Vec<u64>> = RefCell::default();
}

trait Parameter {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

impl Parameter for u64 {
    fn of(bits: u64) -> Self {
        bits
    }

    fn bits(self) -> u64 {
        self
    }
}

impl Parameter for f32 {
    fn of(bits: u64) -> Self {
        Self::from_bits(u32::try_from(bits).expect("the bits of a float"))
    }

    fn bits(self) -> u64 {
        self.to_bits().into()
    }
}

/// Functions with these parameters. The name of a shape has a letter for each: a word or a float.
macro_rules! shapes {
    ($($shape:literal ($($name:ident: $type:ty),*))*) => {
        fn recorder(shape: &str) -> Option<VoidFunction> {
            match shape {
                $($shape => {
                    unsafe extern "system" fn record($($name: $type),*) -> u64 {
                        ARGUMENTS.set(vec![$($name.bits()),*]);
                        RESULT
                    }
                    // SAFETY: the caller casts it back to its signature.
                    Some(unsafe { transmute::<*const (), VoidFunction>(record as *const ()) })
                })*
                _ => None,
            }
        }

        /// # Safety
        /// The function has this shape, and may be called with these values.
        unsafe fn call(function: VoidFunction, shape: &str, values: &[u64]) -> u64 {
            match (shape, values) {
                $(($shape, &[$($name),*]) => {
                    type Function = unsafe extern "system" fn($($type),*) -> u64;
                    // SAFETY: the function has this shape.
                    let function = unsafe { transmute::<VoidFunction, Function>(function) };
                    // SAFETY: it may be called with these values.
                    unsafe { function($(<$type>::of($name)),*) }
                })*
                _ => panic!("{shape} is none of the shapes above, or not of {values:?}"),
            }
        }
    };
}

shapes! {
    "w" (a: u64)
    "ww" (a: u64, b: u64)
    "www" (a: u64, b: u64, c: u64)
    "wwww" (a: u64, b: u64, c: u64, d: u64)
    "wwwww" (a: u64, b: u64, c: u64, d: u64, e: u64)
    "wwwwww" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64)
    "wwwwwww" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64)
    "wwwwwwww" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64)
    "wwwwwwwww" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64, i: u64)
    "wwwwwwwwww" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64, i: u64, j: u64)
    "wwwwwwwwwww" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64, i: u64, j: u64, k: u64)
    "wwwwwwwwwwwwwww" (a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64, i: u64, j: u64, k: u64, l: u64, m: u64, n: u64, o: u64)
    "wf" (a: u64, b: f32)
    "wff" (a: u64, b: f32, c: f32)
    "wfff" (a: u64, b: f32, c: f32, d: f32)
    "wwf" (a: u64, b: u64, c: f32)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pointer,
    Float,
    /// 32 bits: what stands above them is undefined.
    Half,
    Word,
}

impl Kind {
    fn of(parameter: &str) -> Self {
        let words: Vec<_> = parameter.split_whitespace().collect();
        if parameter.contains(['*', '[']) || words[0].starts_with("PFN_") {
            Self::Pointer
        } else if words[0] == "float" {
            Self::Float
        } else if words[0].ends_with("int32_t") || words[0].ends_with("Flags") {
            Self::Half
        } else {
            Self::Word
        }
    }

    /// Another one for each command and each place.
    fn value(self, command: usize, place: usize) -> u64 {
        let (number, small) = ((command * MOST + place) as u64, place as u64 + 1);
        match self {
            Self::Pointer => ZEROS[place].as_ptr().addr() as u64,
            Self::Float => (number as f32 + 0.25).to_bits().into(),
            Self::Half => number << 32 | small,
            Self::Word => 0xfeed << 48 | number,
        }
    }
}

fn shape(kinds: &[Kind]) -> String {
    let letter = |kind: &Kind| if *kind == Kind::Float { 'f' } else { 'w' };
    kinds.iter().map(letter).collect()
}

/// The commands without callbacks, by their parameters. Empty where there are no headers.
static COMMANDS: LazyLock<BTreeMap<String, Vec<Kind>>> = LazyLock::new(|| {
    let mut commands = BTreeMap::new();
    let files = folder().map(|folder| std::fs::read_dir(folder).expect("a folder"));
    for file in files.into_iter().flatten().flatten() {
        let Ok(text) = std::fs::read_to_string(file.path()) else {
            continue;
        };
        for part in text.split("(VKAPI_PTR *PFN_vk").skip(1) {
            let (name, rest) = part.split_once(")(").expect("parameters");
            let (parameters, _) = rest.split_once(");").expect("an end");
            // Functions of the program, as the callbacks, are no commands.
            let has_handle = parameters.trim_start().starts_with("Vk");
            if has_handle && !parameters.contains("VkAllocationCallbacks*") {
                let kinds = parameters.split(',').map(|one| Kind::of(one.trim()));
                commands.insert(format!("vk{name}"), kinds.collect());
            }
        }
    }
    commands
});

/// What the layer itself answers or calls is as in the other tests.
fn recorded(name: &str) -> Option<VoidFunction> {
    const OWN: [&str; 4] = [
        "vkGetInstanceProcAddr",
        "vkGetDeviceProcAddr",
        "vkGetPhysicalDeviceProperties",
        "vkEnumerateDeviceExtensionProperties",
    ];
    let kinds = COMMANDS.get(name).filter(|_| !OWN.contains(&name))?;
    recorder(&shape(kinds))
}

fn is_of_device(name: &str) -> bool {
    CommandRow::of(name).level == CommandLevel::Device
}

unsafe extern "system" fn instance_proc_addr(instance: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    let text = unsafe { CStr::from_ptr(name) }.to_str().expect("a name");
    // SAFETY: the same call.
    recorded(text).or_else(|| unsafe { next_instance_proc_addr(instance, name) })
}

unsafe extern "system" fn device_proc_addr(device: Handle, name: *const c_char) -> Option<VoidFunction> {
    // SAFETY: a name as Vulkan has it.
    let text = unsafe { CStr::from_ptr(name) }.to_str().expect("a name");
    let recorded = recorded(text).filter(|_| is_of_device(text));
    // SAFETY: the same call.
    recorded.or_else(|| unsafe { next_device_proc_addr(device, name) })
}

/// The names of the commands that the layer has hooked, each of which was called.
fn call_all() -> Vec<&'static str> {
    let link = Link::new(instance_proc_addr, device_proc_addr);
    let layer = Layer::new();
    let mut chain = LinkInfo::new(47, &link);
    let instance = layer.create_instance_with(&CreateInfo::new(&mut chain), NONE);
    let instance = instance.expect("an instance");
    let mut chain = LinkInfo::new(48, &link);
    let device = layer.create_device_with(instance, &CreateInfo::new(&mut chain), NONE);
    let device = device.expect("a device");
    let mut hooked = Vec::new();
    for (number, (name, kinds)) in COMMANDS.iter().enumerate() {
        assert!(recorder(&shape(kinds)).is_some(), "{name} has a new shape");
        let text = CString::new(name.as_str()).expect("a name");
        let (function, handle) = if is_of_device(name) {
            (layer.of_device(device, &text), device)
        } else {
            (layer.of_instance(instance, &text), instance)
        };
        let Some((function, below)) = function.zip(recorded(name)) else {
            continue;
        };
        if function as usize == below as usize {
            continue;
        }
        let mut values = vec![handle.addr() as u64];
        let others = kinds.iter().enumerate().skip(1);
        values.extend(others.map(|(place, kind)| kind.value(number, place)));
        ARGUMENTS.take();
        // SAFETY: the command has this shape, a live handle and pointers to what is 0.
        let result = unsafe { call(function, &shape(kinds), &values) };
        assert_eq!(ARGUMENTS.take(), values, "{name}");
        assert_eq!(result, RESULT, "{name}");
        hooked.push(name.as_str());
    }
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    hooked
}

#[test]
fn wn7_every_command_reaches_the_driver_with_its_arguments() {
    let test = "wn7_every_command_reaches_the_driver_with_its_arguments";
    if COMMANDS.is_empty() {
        return skip("vulkan-headers", test, "no vulkan_core.h was found");
    }
    report_of(test, &[("BRACKETS", "all")], || {
        let hooked = call_all();
        let floats: Vec<_> =
            COMMANDS.iter().filter(|(_, kinds)| kinds.contains(&Kind::Float)).map(|(name, _)| name.as_str()).collect();
        for known in [
            "vkCmdSetDepthBias",
            "vkCmdSetDepthBounds",
            "vkCmdSetExtraPrimitiveOverestimationSizeEXT",
            "vkCmdSetLineWidth",
            "vkSetDeviceMemoryPriorityEXT",
        ] {
            assert!(floats.contains(&known), "{known} in {floats:?}");
        }
        assert!(floats.iter().all(|name| hooked.contains(name)), "{floats:?}");
        println!("{} of {} commands are hooked", hooked.len(), COMMANDS.len());
        assert!(hooked.len() > 400, "{} of {}", hooked.len(), COMMANDS.len());
    });
}
