//! Tracked host memory.
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

#[cfg(feature = "std")]
extern crate std;

mod account;
mod adapters;
mod arena;
mod budget;
mod collections;
mod context;
mod error;
mod host;
mod scope;
mod snapshot;
mod sync;
mod threads;

pub use account::{ScopeUsage, Usage};
pub use adapters::{FromAllocator, FromGlobalAlloc, HostSource, Scoped};
pub use allocator_api2::alloc::{AllocError, Allocator};
pub use arena::{Arena, ArenaScope};
pub use budget::{Budget, BudgetUsage};
pub use collections::{FoldHasher, FoldState, Refused, TryBox, TryMap, TryString, TryVec};
pub use context::{Context, ContextOptions, ContextRef, Handle, Outstanding, RootRefused};
pub use error::{ContextId, HostError, Misuse};
pub use host::{HostAllocator, Notice, NoticeEvent, NoticeKind, dangling, move_block};
pub use scope::Scope;
pub use snapshot::{Snapshot, SnapshotNode};
pub use threads::{attach_thread, held_state_locks, settle_thread};
