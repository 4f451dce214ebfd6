//! The record of a handle.

#![forbid(unsafe_code)]

use super::table::TableEntry;

/// A live Vulkan object, or several that share a handle.
#[derive(Clone, Copy)]
pub(crate) struct HandleRecord<'t> {
    pub(crate) handle: u64,
    /// Handles of different kinds may be equal.
    pub(crate) kind: &'t str,
    /// The number of the owner; 0 if the object was created without an allocator.
    pub(crate) owner: u32,
    /// The number of live objects of this handle: handles need not be unique.
    pub(crate) times: u32,
    /// The objects have different owners: which of them is destroyed is unknown.
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
