//! What the tests of every crate share: an independent witness, the fail-the-i-th sweep, a child-process runner, skips that
//! can be forbidden, op programs with naive models, a lister of public functions. Unpublished; imports alloc-core only.
//!
//! Used from `tests/*.rs` and from the fuzz targets. Everything here panics when something is wrong: it is for tests.
//!
//! ```
//! use std::alloc::Layout;
//! use alloc_core::{AllocError, HostAllocator, Scope};
//! use testkit::Witness;
//!
//! let witness = Witness::system();
//! let layout = Layout::new::<u64>();
//! let block = witness.allocate(layout, Scope::Object)?;
//! assert_eq!(witness.scope(Scope::Object).live_bytes, 8);
//! // SAFETY: taken above with this layout and scope.
//! unsafe { witness.deallocate(block, layout, Scope::Object) };
//! witness.assert_empty("after the only block was freed");
//! # Ok::<(), AllocError>(())
//! ```

mod child;
mod complete;
pub mod programs;
mod public_api;
mod require;
mod rng;
mod stage;
mod still;
mod sweep;
mod traces;
mod witness;

pub use child::{Child, Finished};
pub use complete::{assert_bodies_call, assert_every_function_is_named};
pub use public_api::public_api;
pub use require::{skip, swiftshader};
pub use rng::Rng;
pub use stage::{Sink, Stage, Takes, picture};
pub use still::{Once, Refusing, STILL, Still};
pub use sweep::{Counted, Sweep, Swept, Trial};
pub use traces::{TraceTruth, host_trace};
pub use witness::{Tally, Witness};
