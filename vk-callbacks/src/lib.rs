//! `VkAllocationCallbacks`, from both sides.
//!
//! An application passes Vulkan a struct of C functions that allocate the driver's host memory; a driver gets such a
//! struct with every command. This crate has both sides, connected by one trait,
//! [`HostAllocator`](alloc_core::HostAllocator):
//!
//! ```text
//!   application                                               driver
//!   Context --> Bridge --> VkAllocationCallbacks (C) -->      CallbackAllocator --> FallbackChain --> Object, MultiAlloc, Context::root
//! ```
//!
//! - **Application.** A [`Bridge`] turns a [`Context`](alloc_core::Context), which counts each request by scope, into
//!   callbacks.
//! - **Driver.** A [`CallbackAllocator`] is a copy of the application's callbacks. A [`FallbackChain`] chooses the most
//!   specific of object, device, instance and the driver's own.
//! - **Both.** A [`Command`] gives each callback its command. A [`Recorder`] writes a host trace, a [`TraceReader`]
//!   reads it.
//! - **Neither.** A [`Checker`] between the two, or a [`Judge`] of a trace, reports broken rules and who broke them; a
//!   [`CommandRow`] says what a command may do with host memory.
//!
//! Follows the Vulkan specification, chapter *Memory Allocation*, section *Host Memory*. Allocates only from the
//! caller's allocators, and never panics. Features, both on by default: `std` brackets commands in thread-locals, `ash`
//! converts to and from ash's types.
//!
//! ```
//! use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope};
//! use vk_callbacks::{Bridge, CallbackAllocator, FallbackChain, Object};
//!
//! static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
//!
//! // The application gives the device a context of its own.
//! let application = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
//! let bridge = Bridge::new(application.child("device")?)?;
//!
//! // The driver copies the struct; here both are one program.
//! // SAFETY: the bridge outlives the driver's objects.
//! let p_allocator = unsafe { CallbackAllocator::from_raw(&bridge.raw()) }?;
//! let chain = FallbackChain::new(&SYSTEM).device(Some(&p_allocator));
//! let buffer = Object::create(&chain, "a buffer's state")?;
//! assert_eq!(bridge.live().scope(Scope::Object).blocks, 1);
//!
//! // SAFETY: the chain it was created with.
//! let state = unsafe { buffer.destroy(&chain) }?;
//! assert_eq!(state, "a buffer's state");
//! bridge.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_types,
        clippy::disallowed_methods,
        clippy::disallowed_macros,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(feature = "ash")]
mod ash;
pub mod bridge;
pub mod check;
pub mod command;
pub mod commands;
pub mod driver;
mod error;
mod fence;
mod header;
mod keyed_hash;
mod live;
mod pinned;
pub mod raw;
pub mod recorder;
mod sink;
mod sync;
pub mod trace;

pub use bridge::Bridge;
pub use check::{CheckFinding, CheckOptions, Checker, Judge, Rule};
pub use command::{Command, OwnerId, Owners};
pub use commands::CommandRow;
pub use driver::{CallbackAllocator, FallbackChain, MultiAlloc, Object};
pub use error::{CallbackError, CallbacksInUse, Level, VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_UNKNOWN};
pub use live::{Live, LiveScope};
pub use raw::AllocationCallbacks;
pub use recorder::Recorder;
pub use sink::CallbackSink;
pub use trace::{TraceEvent, TraceReader};

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
mod readme {}
