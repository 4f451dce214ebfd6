//! A small Vulkan driver that takes every byte of host memory from the application's callbacks.
//!
//! It serves as a template for authors of drivers ([`template`]), as the device of `steward` on a machine without one,
//! and as a reference for tests: Vulkan 1.1 with one queue, one memory type and straight-line shaders.
//!
//! ```text
//!   loader, or a program  -->  names  -->  device, pools, objects, pipelines   create and destroy: all host memory
//!                                     \->  record  -->  exec, draw  -->  interpreter  -->  bytes (mapped device memory)
//! ```
//!
//! As a shared library it exports what a Vulkan loader needs of a driver; a program that links it calls
//! [`get_instance_proc_addr`].

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(planted),
    deny(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing
    )
)]

mod arithmetic;
mod bytes;
// `testkit/planted-driver` is built of this source.
#[cfg(planted)]
#[path = "../../testkit/planted-driver/src/defects.rs"]
mod defects;
mod descriptors;
mod device;
mod draw;
mod edge;
mod exec;
mod images;
mod instance;
mod interpreter;
mod invocation;
mod limits;
mod memory;
mod names;
mod objects;
mod output_chains;
#[cfg(unix)]
#[path = "pages/unix.rs"]
mod pages;
#[cfg(windows)]
#[path = "pages/windows.rs"]
mod pages;
mod physical;
mod pipeline_state;
mod pipelines;
mod pointers;
mod pool;
mod pools;
mod record;
mod spirv;
mod words;

use core::ffi::c_char;

use ash::vk;

pub use spirv::Unsupported;

use names::Level;

const INTERFACE: u32 = 5;

/// `vk_icdNegotiateLoaderICDInterfaceVersion`: lowers `version` to 5, and refuses one below 2.
///
/// The loader has opened this as a library: thread-local tables would bypass the callbacks (RD12).
///
/// # Safety
/// `version` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(version: *mut u32) -> vk::Result {
    alloc_core::forgo_thread_locals();
    // SAFETY: this function's contract.
    match unsafe { version.as_mut() } {
        Some(version) if *version >= 2 => {
            *version = (*version).min(INTERFACE);
            vk::Result::SUCCESS
        }
        _ => vk::Result::ERROR_INCOMPATIBLE_DRIVER,
    }
}

/// `vk_icdGetInstanceProcAddr`, under the name that the loader looks for.
///
/// # Safety
/// As [`get_instance_proc_addr`].
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vk_icdGetInstanceProcAddr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: this function's contract.
    unsafe { get_instance_proc_addr(instance, name) }
}

/// `vkGetInstanceProcAddr`: the command of that name; without an instance, only a global one.
///
/// # Safety
/// `name` is NULL or ends with a NUL; `instance` is NULL or lives.
pub unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    let has = if instance == vk::Instance::null() { Level::Global } else { Level::Instance };
    // SAFETY: this function's contract.
    names::lookup(unsafe { names::text(name) }, has)
}

/// Whether the driver can run this SPIR-V as a shader of one stage with the entry point `main`.
///
/// # Errors
/// The shader uses a feature that the driver lacks: a pipeline with it is refused.
pub fn try_shader(words: &[u32], stage: vk::ShaderStageFlags) -> Result<(), Unsupported> {
    pipelines::try_shader(words, stage, b"main")
}

/// Write a driver that honours callbacks.
///
/// 1. **Instance and device** keep the application's callbacks by value: an `InstanceDomain` and a `DeviceDomain`, in
///    memory of those very callbacks. An `ObjectPlace` is allocated through the domain, then the domain moves in; for
///    destruction the domain leaves the place, and the destroying command's callbacks free it.
/// 2. **Each command** builds a `FallbackChain` on its stack: its own `pAllocator`, the device's, the instance's, the
///    driver's own. It provides all memory.
/// 3. **Objects** are created with the chain and carry the receipt of their memory. A value and an array are one
///    `ArrayObject`. Every handle begins with a word that the loader may use. One line defines a kind of object.
/// 4. **Pools** are a `PoolDomain`: their callbacks, a context over them for what children hold, and the children.
/// 5. **Refusals** are `VK_ERROR_OUT_OF_HOST_MEMORY` if the command returns a result. `vkCmd*` return none: the command
///    buffer stores the error for `vkEndCommandBuffer`. If a command creates several objects, those before the refusal
///    are destroyed.
///
/// The driver's source follows, as it is compiled. `commands!` of `edge.rs` turns raw arguments into references.
///
/// # An instance, in memory of its own callbacks
///
#[doc = concat!("```ignore\n", include_str!("instance.rs"), "```")]
///
/// # All other objects: a line each
///
#[doc = concat!("```ignore\n", include_str!("objects_table.rs"), "```")]
///
/// # A pool and its children
///
#[doc = concat!("```ignore\n", include_str!("pool.rs"), "```")]
pub mod template {}
