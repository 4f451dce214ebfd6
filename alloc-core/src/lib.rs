//! Host memory with an account and an owner for every byte.
//!
//! The root gets an allocator from its caller, and everything on top allocates from it, through a tree of contexts that
//! inherit it. Each context has an account, exact to the byte, by scope; may have a budget; and reports which blocks
//! are live when it ends.
//!
//! ```text
//!   HostAllocator (malloc, VkAllocationCallbacks, a mapping of your own)
//!        |
//!   Context --- child ---+--- child          accounts, budgets, inheritance
//!        |               |
//!   ContextHandle, &Context: Allocator              TryVec, TryBox, TryMap, TryString, Arena; hashbrown, allocator-api2
//! ```
//!
//! - [`HostAllocator`] is the common trait; [`FromGlobalAlloc`] and [`FromAllocator`] adapt existing allocators.
//! - [`Context`] owns a node of the tree, [`ContextHandle`] refers to it; both are allocators. [`Scope`] is the
//!   lifetime of a request.
//! - [`Usage`] is an account, [`Budget`] a limit, [`Foreign`] memory from elsewhere, counted apart.
//! - [`ContextHandle::own`] makes a context the owner of a value, which is destroyed with it; values can be
//!   [stolen](ContextHandle::steal) and contexts [moved](Context::reparent).
//! - [`tagged`] blocks own other blocks, as ralloc's do, without a context each.
//! - [`TryVec`] and its siblings grow fallibly only; [`Arena`] is linear memory for what dies together.
//!
//! Freeing never allocates and never fails. Any allocation may be refused: the error names the cause, and nothing has
//! changed. The library never panics or aborts. Always `no_std`; feature `std` (on by default) adds per-thread
//! counting, and `loaded-library` makes it avoidable for libraries that are opened at run time.
//!
//! ```
//! use alloc_core::{Budget, Context, ContextOptions, FromGlobalAlloc, HostError, Scope, TryVec};
//!
//! static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
//!
//! let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
//! let textures = root.child_with(ContextOptions::new("textures").scope(Scope::Object).budget(Budget::exact(4096)))?;
//!
//! let mut names = TryVec::<u64, &Context>::new_in(&textures);
//! names.try_extend_from_slice(&[1, 2, 3])?;
//! assert_eq!(textures.usage().scope(Scope::Object).live_bytes, 8 * names.capacity() as u64);
//!
//! // A refusal says whose budget was short, and by how much; the vector is as it was.
//! let refused = names.try_reserve_exact(1000);
//! assert!(matches!(refused, Err(HostError::OverBudget { context, .. }) if context == textures.id()));
//! assert_eq!(names.as_slice(), [1, 2, 3]);
//!
//! drop(names);
//! drop(textures);
//! root.close_root()?; // Err, with the root, while anything is left
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

#[cfg(feature = "std")]
extern crate std;

mod account;
mod adapters;
mod arena;
mod budget;
mod byte_count;
mod collections;
mod context;
mod error;
mod foreign;
mod fork;
mod host;
mod json;
mod owned;
mod refusal;
mod rejected;
mod requester;
mod scope;
mod snapshot;
mod sync;
pub mod tagged;
mod threads;
mod unwind;

pub use account::{ForeignKind, ForeignUsage, ScopeUsage, Usage};
pub use adapters::{FromAllocator, FromGlobalAlloc, HostSource, Scoped};
pub use allocator_api2::alloc::{AllocError, Allocator};
pub use arena::{Arena, ArenaScope};
pub use budget::{Budget, BudgetUsage};
pub use byte_count::ByteCount;
pub use collections::{FoldHasher, FoldState, TryBox, TryMap, TryString, TryVec};
pub use context::{
    CloseError, Context, ContextHandle, ContextOptions, Outstanding, default_context, set_default_context,
};
pub use error::{ContextId, HostError, Misuse};
pub use foreign::Foreign;
pub use host::{AllocatorTraits, HostAllocator, Notice, NoticeEvent, PointerStatus, dangling, move_block};
pub use owned::{Hold, HoldMut, Owned};
pub use rejected::Rejected;
pub use requester::{Requester, with_front, with_requester};
pub use scope::Scope;
pub use snapshot::{Snapshot, SnapshotNode};
#[cfg(all(feature = "std", feature = "loaded-library"))]
pub use threads::forgo_thread_locals;
pub use threads::{ThreadTable, after_fork, attach_thread, fold_thread, held_state_locks};

/// For the crates built on this one.
pub mod support {
    pub use crate::collections::floor_char_boundary;
    pub use crate::fork::watch_forks;
    pub use crate::json::Json;
    pub use crate::sync::{LockCount, StateGuard, StateLock, StateLockHeld, StateMutex};
}

/// The samples of README.md, tested.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
mod readme {}
