//! The record of a handle: what it was created with.

#![forbid(unsafe_code)]

use super::table::TableEntry;

/// A Vulkan object that lives, or several that share a handle.
#[derive(Clone, Copy)]
pub(crate) struct HandleRecord<'t> {
    pub(crate) handle: u64,
    /// Handles of different kinds may be equal.
    pub(crate) kind: &'t str,
    /// The owner's number; 0 for one that was created without an allocator.
    pub(crate) owner: u32,
    /// How often it was created and not destroyed: handles need not be unique.
    pub(crate) times: u32,
    /// It was made several times, not always with the same owner: which of them ends cannot be told.
    pub(crate) mixed: bool,
}

impl TableEntry for HandleRecord<'_> {
    fn key(&self) -> u64 {
        self.handle ^ (self.kind.len() as u64) << 57
    }

    fn same(&self, other: &Self) -> bool {
        self.handle == other.handle && self.kind == other.kind
    }

    fn gone(&self) -> bool {
        self.times == 0
    }
}
