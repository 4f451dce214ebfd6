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

mod adapters;
mod error;
mod host;
mod scope;

pub use adapters::{FromAllocator, FromGlobalAlloc, HostSource, Scoped};
pub use allocator_api2::alloc::{AllocError, Allocator};
pub use error::{ContextId, HostError, Misuse};
pub use host::{HostAllocator, Notice, NoticeEvent, NoticeKind, dangling, move_block};
pub use scope::Scope;
