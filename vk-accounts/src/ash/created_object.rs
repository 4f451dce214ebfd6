//! An object for an observer: its handle, its parent and its callbacks.

#![forbid(unsafe_code)]

use std::ptr;

use ash::vk;

use crate::object_kind::ObjectKind;

/// An object that a command created, or is about to destroy.
#[derive(Clone, Copy, Debug)]
pub struct CreatedObject<'a> {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its handle, never NULL.
    pub handle: u64,
    /// The handle of the instance, device or pool that it was created from; 0 for an instance.
    pub parent: u64,
    /// The command's `pAllocator`; NULL also if the command has none. Only for comparing.
    pub allocator: *const vk::AllocationCallbacks<'a>,
}

impl CreatedObject<'_> {
    /// A child of a pool, without callbacks of its own.
    pub fn in_pool(kind: ObjectKind, handle: impl vk::Handle, pool: impl vk::Handle) -> Self {
        Self {
            kind,
            handle: handle.as_raw(),
            parent: pool.as_raw(),
            allocator: ptr::null(),
        }
    }
}
