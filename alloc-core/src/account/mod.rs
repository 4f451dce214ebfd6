//! Exact accounts at the price of a few plain stores.
//!
//! Every thread counts into its own cache lines (`entry`, `table`), which are folded into the context's shared rows (`row`)
//! on a threshold, on eviction, at thread exit and when the context ends. Queries add the row and all live entries
//! (`registry`), so they are exact as soon as the threads pause, without asking any of them to flush.

mod entry;
mod fold;
mod registry;
mod row;
mod table;
mod usage;

pub(crate) use entry::{AccountEntry, Counts};
pub(crate) use fold::{FOLD_MAX, FOLD_MIN};
pub(crate) use registry::{evict, read_row, try_read_row};
pub(crate) use row::AccountRow;
pub(crate) use table::{AccountTable, slot};
pub use usage::{ScopeUsage, Usage};

/// Entries a thread has: with more (context, scope) pairs in use by one thread at once, each change-over costs a fold.
pub(crate) const ENTRIES: usize = 64;
