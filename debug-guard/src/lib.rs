//! An allocator that finds memory errors and names their author, and an allocator that fails on purpose.
//!
//! [`Guard`] wraps any [`HostAllocator`](alloc_core::HostAllocator), or, as [`GlobalGuard`], the allocator of a whole
//! program. Each block gets a [`Mode`], by [`Rule`] where one matches. Each mistake becomes one [`Report`], as text,
//! as a line of JSON, or to a function: the mistake, the distance from the block, the block's owner, the calls that
//! allocated and freed it, and their command.
//!
//! | mistake | Cookie | Fence | Strict |
//! |-|-|-|-|
//! | a write behind the block, in front of it | at its free | as it happens on the side where the page is, else at its free | as Fence |
//! | a read there | never | as it happens, on that side | as it happens, on that side |
//! | a write after the free | when the block leaves quarantine | the same; above a page as it happens | as it happens |
//! | a read after the free | never (it reads 0xDD) | never; above a page as it happens | as it happens |
//! | freed twice, inside, through another guard, with another layout | at that free | at that free | at that free |
//! | never freed | [`Guard::leaks`](GuardState::leaks), [`GuardOptions::exit_leaks`] | the same | the same |
//! | read before written | never: it reads 0xCD, behind a grown block's old end 0xFD | the same | the same |
//!
//! Sampled finds what Strict finds, in the blocks it selects; it lists no leaks, and passes every other free
//! unchecked to the allocator behind. A system call that touches a protected page returns `EFAULT` without a report.
//! Late checks compare bytes: a write that repeats the old byte (1 of 256 random ones) is not found. A block freed
//! through another [`Context`](alloc_core::Context) over the same guard is not reported.
//! [`Guard::check_all`](GuardState::check_all) checks all blocks at any time as a free does.
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
//!         assert_eq!((report.kind, report.guard), (ReportKind::DoubleFree, "textures"));
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
//! A guard is the backing of a tree of contexts; reports then name the requesting context:
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
//!     guard.live(&mut |block| strict += usize::from(block.mode == Mode::Strict && block.allocated.owner == "textures"));
//!     assert_eq!(strict, 1);
//! }
//! guard.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds what
//!
//! ```text
//!   Guard<A>, GlobalGuard<A>          A, the allocator behind, and a pointer to
//!     GuardState                      one block of A's: options, rules, counts; it never moves        src/guard
//!       Slots: strict, fence, pool    pages of blocks between pages that cannot be touched            src/slots
//!         Region                      addresses, by the system calls of a back end                    src/os
//!         records, one a cell         state and layout of a block; who allocated and freed it; lists under one lock
//!       Cookies                       blocks of A's with a header and a tail                          src/cookie
//!         records, one a block        the same of a block; a copy of its header
//!         shards, by thread           quarantine: lists through the records, a lock each
//!       Sites                         context, command and stack, each once: a record has its number  src/call_sites
//!   Report                            all that is known of a finding, borrowed for one call           src/report
//! ```
//!
//! # What it runs on
//! Pages are made untouchable with the best that [`BackEnds`] finds by trying. On Linux: userfaultfd, guard markers,
//! `mprotect` as far as mappings last. On Windows (x86-64): `VirtualAlloc`. Elsewhere blocks that were to be fenced
//! get cookies, and each report says so.
//!
//! [`StackSupport`] tells which stacks can be walked here. Windows has no chain of frame pointers and tables for
//! every module: only [`Stacks::Full`], the default, sees callers there.
//!
//! A report at the instruction comes from a handler, which the first guard installs and which passes on what is not
//! its own. On Linux it is one of SIGSEGV and SIGBUS: a program that installs another one *later* takes its place,
//! and unless that one passes on in turn, such mistakes end the program without a report. On Windows it is a vectored
//! handler, called before those that stood, the `__try` of the program and the filter of unhandled exceptions; a
//! vectored handler that is added later *in front* sees an access first. Reports go to the standard error only there.
//!
//! Elsewhere reports go to the standard error only, too, and there are no list at exit, no thread ids and no stacks. A
//! free reads in front of a pointer that was never a block, which ends the program where nothing is mapped there.
//!
//! # Memory that fails
//! [`FailingAllocator`], around a guard or behind one, refuses what its plan, a [`Fault`], says: the n-th request, all
//! from the n-th, whatever would exceed a number of bytes, a scope, a context, a size, or a seeded share. The usual
//! form is the sweep: a dry run counts the requests, then each of them fails once, and after each failure the state
//! must be as before:
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
//!         // SAFETY: allocated above with this layout and scope.
//!         unsafe { host.deallocate(second, layout, Scope::Object) };
//!     }
//!     // SAFETY: allocated above with this layout and scope.
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

extern crate std;

mod block;
mod call_sites;
mod changed;
mod cookie;
mod fault_injection;
mod fold;
mod guard;
mod mode;
mod modules;
mod os;
mod report;
mod report_kind;
mod sampling;
mod segments;
mod slots;
mod stack_depot;

pub use block::BlockState;
pub use call_sites::{CommandMark, StackSupport};
pub use changed::Changed;
pub use fault_injection::{ContextName, FailingAllocator, Fault, FaultError};
pub use guard::{
    ChoiceError, GlobalGuard, Guard, GuardChoice, GuardError, GuardInUse, GuardOptions, GuardState, GuardStats,
    LeakMark, LeakSum, Rule, Sampling,
};
pub use mode::{BackEnd, Mode, Placement, Stacks};
pub use modules::Module;
pub use os::{Access, BackEnds, OsRefusal};
pub use report::{Actor, AddressPosition, BlockInfo, DetectedAt, FreeArgs, Leak, OnReport, Report, Stack};
pub use report_kind::ReportKind;
pub use stack_depot::{ModuleFinder, StackDepot, StackId};

/// The samples of README.md, tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
