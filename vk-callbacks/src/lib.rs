//! `VkAllocationCallbacks`, from both sides.
//!
//! An application hands Vulkan a struct of C functions and from then on answers for the driver's host memory; a driver gets such
//! a struct with every command and must use the right one, in the right way, for the right lifetime. Both sides are here, and
//! between them stands one trait, [`HostAllocator`](alloc_core::HostAllocator):
//!
//! ```text
//!   application                                               driver
//!   Context --> Bridge --> VkAllocationCallbacks (C) -->      CallbackAllocator --> FallbackChain --> Object, MultiAlloc, Context::root
//! ```
//!
//! - **Application.** [`Bridge`] turns a [`Context`](alloc_core::Context) into callbacks. Each request is counted in the context,
//!   by scope; 16 bytes in front of a block tell its size and whose it is; the bridge can be closed only when nothing is live.
//! - **Driver.** [`CallbackAllocator`] copies and checks what an application gave. A [`FallbackChain`] finds the most specific of
//!   object, device, instance and the driver's own, and what comes through it goes back the same way.
//! - **Both.** A [`Command`] brackets a call, so that each callback can be said to belong to a command. A host trace records all
//!   callbacks of a program ([`Recorder`]), is read back ([`TraceReader`]) and driven into any allocator ([`Replay`]).
//! - **Neither.** A [`Checker`] between the two, or a [`Judge`] over a trace, says which rules were broken and by whom; what each
//!   command may do with host memory is a table ([`CommandRow`]). With the feature `testing` there is a fake driver to try that on.
//!
//! Follows the Vulkan specification, chapter *Memory Allocation*, section *Host Memory*. Never takes memory but from the allocators it
//! is given, and never panics.
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
//! // The driver takes what it is given; here both are one program.
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
mod level;
mod live;
mod pinned;
pub mod raw;
mod realloc_rules;
pub mod recorder;
pub mod replay;
mod sink;
#[cfg(feature = "testing")]
pub mod testing;
pub mod trace;

pub use bridge::Bridge;
pub use check::{CheckFinding, CheckOptions, Checker, Judge, Rule};
pub use command::{Command, OwnerId, Owners};
pub use commands::CommandRow;
pub use driver::{CallbackAllocator, FallbackChain, MultiAlloc, Object};
pub use error::{
    CallbackError, CallbacksInUse, Function, VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_UNKNOWN,
};
pub use level::Level;
pub use live::{Live, LiveScope};
pub use raw::AllocationCallbacks;
pub use recorder::Recorder;
pub use replay::Replay;
pub use sink::CallbackSink;
pub use trace::{TraceEvent, TraceReader};

/// The samples of README.md, tested.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
mod readme {}
