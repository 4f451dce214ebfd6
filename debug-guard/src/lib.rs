//! Host memory that tells who broke it, and host memory that fails on purpose.
//!
//! [`Guard`] wraps any [`HostAllocator`](alloc_core::HostAllocator), or, as [`GlobalGuard`], the allocator of a whole program. Each block
//! gets a [`Mode`], by [`Rule`] where one matches: a page of its own between two that cannot be touched, or a keyed header and tail, or
//! nothing. What goes wrong becomes one [`Report`]: what was done, how far from which block, whose it is, taken and given back by which
//! calls in which command; as text, as a line of JSON, or to a function.
//!
//! | mistake | Cookie | Fence | Strict |
//! |-|-|-|-|
//! | a write behind the block, in front of it | at its free | as it happens on the side where the page is, else at its free | as Fence |
//! | a read there | never | as it happens, on that side | as it happens, on that side |
//! | a write after the free | when the block leaves quarantine | the same; above a page as it happens | as it happens |
//! | a read after the free | never (it reads 0xDD) | never; above a page as it happens | as it happens |
//! | freed twice, inside, through another guard, with another layout | at that free | at that free | at that free |
//! | never freed | [`Guard::leaks`], [`GuardOptions::exit_leaks`] | the same | the same |
//! | read before written | never: it reads 0xCD, behind a grown block's old end 0xFD | the same | the same |
//!
//! Sampled finds what Strict finds, in the few blocks that it chooses; leaks it does not tell, and what is freed and is no block of those
//! goes to the allocator behind unlooked at. What the kernel reads or writes for the program (`read(2)`) it
//! refuses with `EFAULT` where a page cannot be touched, and nothing is reported. What is found later is found by its bytes: a write of
//! the very byte that stood there, one in 256 of random ones, is no change. Blocks are the guard's and not a
//! [`Context`](alloc_core::Context)'s: one that is freed through another context over the same guard is not reported. [`Guard::check_all`] looks for what would else be
//! found at a free, at any time. What each costs is in [`Mode`]'s table.
//!
//! ```
//! use std::alloc::Layout;
//! use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
//! use debug_guard::{Guard, GuardOptions, Mode, OnReport, ReportKind, Rule};
//! use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
//!
//! static TOLD: AtomicUsize = AtomicUsize::new(0);
//!
//! // Cookies for all but what lives as long as an object: that is fenced.
//! let options = GuardOptions::new(Mode::Cookie).name("textures").rule(Rule::new(Mode::Strict).scope(Scope::Object)).on_report(
//!     OnReport::Call(|report| {
//!         assert_eq!((report.kind(), report.guard()), (ReportKind::DoubleFree, "textures"));
//!         TOLD.fetch_add(1, Relaxed);
//!     }),
//! );
//! let guard = Guard::new(FromGlobalAlloc::SYSTEM, options)?;
//!
//! let layout = Layout::new::<[u8; 40]>();
//! let block = guard.allocate(layout, Scope::Object).map_err(|_| "no memory")?;
//! // SAFETY: the live block.
//! unsafe { guard.deallocate(block, layout, Scope::Object) };
//! // SAFETY: broken on purpose: the guard frees no block twice.
//! unsafe { guard.deallocate(block, layout, Scope::Object) };
//!
//! assert_eq!((TOLD.load(Relaxed), guard.stats().live_blocks), (1, 0));
//! guard.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Under a context
//! A guard is the backing of a tree of contexts, and reports then name the context that asked:
//!
//! ```
//! use alloc_core::{Context, ContextOptions, FromGlobalAlloc, TryVec};
//! use debug_guard::{Guard, GuardOptions, Mode, Rule};
//!
//! // Cookies for all but what the textures take.
//! let options = GuardOptions::new(Mode::Cookie).rule(Rule::new(Mode::Strict).name("textures"));
//! let guard = Guard::new(FromGlobalAlloc::SYSTEM, options)?;
//! {
//!     // SAFETY: the guard outlives the contexts and all that they give.
//!     let root = unsafe { Context::root(&guard, ContextOptions::new("renderer")) }?;
//!     let textures = root.child("textures")?;
//!     let mut list = TryVec::<u64, &Context>::new_in(&textures);
//!     list.try_push(7)?;
//!     let mut strict = 0;
//!     guard.live(&mut |block| strict += usize::from(block.mode() == Mode::Strict && block.taken().owner() == "textures"));
//!     assert_eq!(strict, 1);
//! }
//! guard.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it runs on
//! Pages are made untouchable with what the kernel lends, the best that [`BackEnds`] finds by trying: userfaultfd, guard markers,
//! `mprotect` as far as mappings last. Only on Linux; elsewhere blocks that were to be fenced get cookies, and each report says so.
//! Stacks follow frame pointers, and [`Stacks::Full`], the default, asks the unwinder where a module was built without
//! ([`StackSupport`] tells what works here). A report at the instruction comes from a handler of SIGSEGV and SIGBUS, which the first
//! guard that lays out pages installs and which passes on what is not its own: a program that installs another one *later* takes its
//! place, and unless that one passes on in turn, such mistakes end the program without a report.
//! Elsewhere too: no list at exit, reports on the standard error only, no thread ids, no stacks, and a freed pointer that was never a
//! block is read in front of, which ends the program where nothing is mapped there. Always `no_std`; feature `std` (on by default) adds what is kept for each thread, without
//! which there are no stacks and counts are slower.
//!
//! # Memory that fails
//! Code that handles every refused allocation is only as good as the refusals it has met. [`FailingAllocator`] refuses what its plan, a
//! [`Fault`], says: the n-th request, all from the n-th, whatever would exceed a number of bytes, a scope, a context, a size, or a seeded
//! share. It goes around a guard as well as behind one. The usual form is the sweep: a dry run counts the requests, then each of them
//! fails once, and after each failure the state must be as before:
//!
//! ```
//! use std::alloc::Layout;
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

#[cfg(any(test, feature = "std"))]
extern crate std;

mod block;
mod cookie;
mod failing;
mod guard;
mod lock;
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
    CommandMark, GlobalGuard, Guard, GuardBusy, GuardError, GuardOptions, GuardRefused, GuardStats, LeakMark, LeakSum, Rule,
    Sampling,
};
pub use mode::{BackEnd, Mode, OnReport, Placement, Stacks};
pub use os::{BackEnds, OsRefusal};
pub use profile::{FrameNames, Measure, Weight};
pub use report::{Access, BlockInfo, BlockState, CameBack, Deed, Leak, Moment, Place, Report, ReportKind, Stack};
pub use sites::StackSupport;
