//! The C interface: conversions and calls, no logic. The headers in `include` document each function; a test compares
//! them with this side.
//!
//! A function that calls other code runs in [`edge::enter`] or [`edge::enter_counting`], which stop panics and preserve
//! `errno`. Objects that C holds are addresses in memory of the caller's own allocator, which nothing here bypasses. In
//! SAFETY comments, what is said of a caller's arguments is what the header demands of the caller.
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
#![expect(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_safety_doc,
    reason = "the headers say what callers owe, and a second text would drift"
)]

pub mod account;
pub mod ash;
pub mod block;
pub mod bridge;
pub mod chain;
pub mod context;
pub mod driver;
pub mod edge;
pub mod gc;
pub mod gpu;
pub mod gpu_refusal;
pub mod host;
pub mod linear;
pub mod ralloc;
pub mod refusal;
pub mod region;
pub mod region_map;
pub mod region_request;
mod sized;
pub mod slot;
pub mod virtual_block;
pub mod watch;
