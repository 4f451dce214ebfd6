//! What the tests of every crate share: an independent witness, the fail-the-i-th sweep, a child-process runner, skips
//! that can be forbidden, op programs with naive models, a lister of public functions. Unpublished; imports alloc-core
//! only.
//!
//! Used from `tests/*.rs` and from the fuzz targets. Everything here panics when something is wrong: it is for tests.
//!
//! ```
//! use std::alloc::Layout;
//! use alloc_core::{AllocError, HostAllocator, Scope};
//! use testkit::RecordingAllocator;
//!
//! let witness = RecordingAllocator::system();
//! let layout = Layout::new::<u64>();
//! let block = witness.allocate(layout, Scope::Object)?;
//! assert_eq!(witness.scope(Scope::Object).live_bytes, 8);
//! // SAFETY: taken above with this layout and scope.
//! unsafe { witness.deallocate(block, layout, Scope::Object) };
//! witness.assert_empty("after the only block was freed");
//! # Ok::<(), AllocError>(())
//! ```

mod child;
mod compile;
mod complete;
mod example;
mod fixture;
#[cfg(target_os = "linux")]
mod forks;
mod frozen_global;
mod growth;
mod hooked;
mod layer_order;
mod operation_table;
pub mod programs;
mod public_api;
mod quiet;
mod recording_allocator;
mod require;
mod rng;
mod sweep;
#[cfg(target_os = "linux")]
mod terminal;
mod traces;

pub use child::{Child, Crash, Finished};
pub use compile::{compile_c, compile_c_library};
pub use complete::{assert_bodies_call, assert_every_function_is_named};
pub use example::example;
pub use fixture::{MemoryUse, Sink, Stage, picture};
#[cfg(target_os = "linux")]
pub use forks::fork_while;
pub use frozen_global::{Once, Refusing, STILL, Still};
pub use growth::assert_linear;
pub use hooked::{Call, HookedAllocator, Moment, Request, in_hook, run_hook, with_hook};
pub use layer_order::layer_order;
pub use operation_table::OperationTable;
pub use public_api::public_api;
pub use quiet::silence_panics;
pub use recording_allocator::{RecordingAllocator, ScopeTally};
pub use require::{skip, swiftshader};
pub use rng::Rng;
pub use sweep::{Counted, Sweep, Swept, Trial};
#[cfg(target_os = "linux")]
pub use terminal::{OnTerminal, TerminalOutput};
pub use traces::{TraceTruth, host_trace};

/// The samples of README.md, tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
