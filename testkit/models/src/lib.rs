//! Loom models of the accounts, of device contexts in use and release, and of regions that
//! are moved, and of what the layer counts and keeps: small programs of two or three threads, run in every order that
//! the memory model allows (up to three preemptions), over the source files of alloc-core, gpu-suballoc, vk-callbacks
//! and vk-layer.
//!
//! ```text
//!   alloc-core/src/account/{entry,row,table,registry}.rs, scope.rs      included by path, unchanged
//!   gpu-suballoc/src/context/{register,dispatch_lock}.rs
//!   gpu-suballoc/src/region_metadata/root_state.rs
//!   vk-layer/src/peak/count.rs, vk-layer/src/state/changed.rs
//!   vk-callbacks/src/check/live_blocks.rs
//!        |                          |
//!   crate::sync                crate::context, crate::threads
//!   loom's atomics             a node that knows whether it is alive; threads that carry their table
//! ```
//!
//! alloc-core's atomics are made in constants and statics, which loom's cannot be: `sync` makes each anew, in every
//! run, when it is first used. Each model has a mutant that it must catch: orderings made relaxed, a lock that does not
//! lock, an exchange that is two steps.
#![cfg(test)]
#![expect(dead_code, unreachable_pub, reason = "the files are taken in whole, and the models use part of them")]

mod account;
mod context;
mod defragmentation;
mod layer;
mod lifecycle;
#[path = "../../../alloc-core/src/scope.rs"]
mod scope;
mod sync;
mod threads;
mod waiting;

mod harness;
mod models;
