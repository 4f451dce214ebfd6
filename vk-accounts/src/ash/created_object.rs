//! An object as an observer sees it: which handle, made from what, with which callbacks.

#![forbid(unsafe_code)]

use std::ptr;

use ash::vk;

use crate::object_kind::ObjectKind;

/// An object that a command made, or is about to destroy.
#[derive(Clone, Copy, Debug)]
pub struct CreatedObject<'a> {
    /// What kind of object.
    pub kind: ObjectKind,
    /// Its handle, never NULL.
    pub handle: u64,
    /// The handle of the instance, device or pool that it was made from; 0 for an instance.
    pub parent: u64,
    /// The `pAllocator` that the command was given, or will be: NULL where none was, and where the command takes none. Only for
    /// comparing.
    pub allocator: *const vk::AllocationCallbacks<'a>,
}

impl CreatedObject<'_> {
    /// A child of a pool, made without callbacks of its own.
    pub fn in_pool(kind: ObjectKind, handle: impl vk::Handle, pool: impl vk::Handle) -> Self {
        Self {
            kind,
            handle: handle.as_raw(),
            parent: pool.as_raw(),
            allocator: ptr::null(),
        }
    }
}
