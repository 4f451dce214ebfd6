//! Loom models of the accounts: small programs of two or three threads, run in every order that the memory model allows (up to
//! three preemptions), over the very source files of alloc-core.
//!
//! ```text
//!   alloc-core/src/account/{entry,row,table,registry,fold}.rs, scope.rs      taken in by path, unchanged
//!        |                          |
//!   crate::sync                crate::context, crate::threads
//!   loom's atomics             a node that knows whether it is alive; threads that carry their table
//! ```
//!
//! alloc-core's atomics are made in constants and statics, which loom's cannot be: `sync` makes each anew, in every run, when it
//! is first used. Each model has a mutant that it must catch: release stores made relaxed, or a lock that does not lock.
#![cfg(test)]
#![expect(dead_code, unreachable_pub, reason = "the files are taken in whole, and the models use part of them")]

mod account;
mod context;
#[path = "../../alloc-core/src/scope.rs"]
mod scope;
mod sync;
mod threads;

mod harness;
mod models;
