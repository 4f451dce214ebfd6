//! The accounts, file by file as they are.

#[path = "../../../../alloc-core/src/account/entry.rs"]
mod entry;
#[path = "../../../../alloc-core/src/account/registry.rs"]
mod registry;
#[path = "../../../../alloc-core/src/account/row.rs"]
mod row;
#[path = "../../../../alloc-core/src/account/table.rs"]
mod table;

pub(crate) use entry::Counts;
pub(crate) use registry::{evict, read_row};
pub(crate) use row::AccountRow;
pub(crate) use table::AccountTable;

/// Where the files look for it.
mod usage {
    pub(super) use super::ScopeUsage;
}

/// What an account says; alloc-core's has a face besides.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ScopeUsage {
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) peak_slack: u64,
    pub(crate) peak_blocks: u64,
    pub(crate) total_bytes: u64,
    pub(crate) total_blocks: u64,
}

/// Two are enough to have neighbours, and few enough to walk through.
pub(crate) const ENTRIES: usize = 2;
