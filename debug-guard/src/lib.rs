//! Host memory that fails on purpose.
//!
//! Code that handles every refused allocation is only as good as the refusals it has met. [`FailingAllocator`] wraps any
//! [`HostAllocator`](alloc_core::HostAllocator) and refuses what its plan, a [`Fault`], says: the n-th request, all from the
//! n-th, whatever would exceed a number of bytes, one scope, or a seeded share. Everything else passes through untouched.
//! It is the one home of fault injection: tests of every layer wrap the allocator at the root and leave the code in between
//! as it ships.
//!
//! The usual form is the sweep. A dry run counts the requests, then each of them fails once, and after each failure the state
//! must be as before:
//!
//! ```
//! use std::alloc::{Layout, System};
//! use alloc_core::{AllocError, FromGlobalAlloc, HostAllocator, Scope};
//! use debug_guard::{FailingAllocator, Fault};
//!
//! /// Takes two blocks or none.
//! fn pair(host: &impl HostAllocator) -> Result<(), AllocError> {
//!     let layout = Layout::new::<[u64; 4]>();
//!     let first = host.allocate(layout, Scope::Object)?;
//!     let second = host.allocate(layout, Scope::Object);
//!     if let Ok(second) = second {
//!         // SAFETY: taken above with this layout and scope.
//!         unsafe { host.deallocate(second, layout, Scope::Object) };
//!     }
//!     // SAFETY: as above.
//!     unsafe { host.deallocate(first, layout, Scope::Object) };
//!     second.map(drop)
//! }
//!
//! let host = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
//! pair(&host)?;
//! assert_eq!(host.requests(), 2);
//!
//! for n in 0..2 {
//!     host.arm(Fault::Nth(n));
//!     assert!(pair(&host).is_err(), "request {n} was refused and nobody noticed");
//!     assert_eq!((host.refused(), host.live_bytes()), (1, 0));
//! }
//!
//! host.disarm();
//! pair(&host)?;
//! # Ok::<(), AllocError>(())
//! ```
#![no_std]
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

#![allow(dead_code, unreachable_pub, reason = "the parts of the guard come one by one")]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod block;
mod cookie;
mod failing;
mod guard;
mod mode;
mod os;
mod profile;
mod report;
mod sampling;
mod sites;
mod slots;

pub use block::Changed;
pub use failing::{ContextName, FailingAllocator, Fault, FaultError};
pub use guard::{
    CommandMark, GlobalGuard, Guard, GuardBusy, GuardError, GuardOptions, GuardRefused, GuardStats, LeakMark, LeakSum, Rule, Sampling,
};
pub use mode::{BackEnd, Mode, OnReport, Placement, Stacks};
pub use os::{BackEnds, OsRefusal};
pub use profile::{FrameNames, Measure, Weight};
pub use report::{Access, BlockInfo, BlockState, CameBack, Deed, Leak, Moment, Place, Report, ReportKind, Stack};
pub use sites::StackSupport;
