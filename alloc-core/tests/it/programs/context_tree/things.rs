//! What a program holds: blocks with a known content.

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::{ContextHandle, HostAllocator, Scope};

/// A block and the handle that it can always be given back through.
pub(super) struct TreeBlock {
    /// Number of the context in the model.
    pub(super) context: usize,
    pub(super) layout: Layout,
    pub(super) scope: Scope,
    owner: ContextHandle,
    start: NonNull<u8>,
    fill: u8,
}

// SAFETY: the block belongs to nobody else; a handle may go to any thread.
unsafe impl Send for TreeBlock {}

/// A pointer on its way from the thread that took it.
pub(super) struct SentHandle(pub(super) NonNull<u8>);

// SAFETY: it is used on one thread after the other.
unsafe impl Send for SentHandle {}

impl TreeBlock {
    /// Checks alignment, and zeros where they were asked for, and writes over all of it.
    pub(super) fn new(
        context: usize,
        owner: ContextHandle,
        start: NonNull<u8>,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Self {
        let mut block = Self { context, layout, scope, owner, start, fill: 0 };
        block.aligned();
        if zeroed {
            block.check(layout.size());
        }
        block.fill = start.as_ptr().addr().wrapping_div(16) as u8 | 1;
        block.write();
        block
    }

    /// Grows or shrinks it; false when that was refused, and the block is as it was.
    pub(super) fn resize(&mut self, new: Layout) -> bool {
        self.check(self.layout.size());
        let old = self.layout;
        // SAFETY: a live block of the context that the handle refers to, and its own layout and scope.
        let answer = unsafe { HostAllocator::resize(&self.owner, self.start, old, new, self.scope) };
        let Ok(start) = answer else {
            self.check(old.size());
            return false;
        };
        (self.start, self.layout) = (start, new);
        self.aligned();
        self.check(old.size().min(new.size()));
        self.write();
        true
    }

    pub(super) fn owner(&self) -> &ContextHandle {
        &self.owner
    }

    /// Gives it back.
    pub(super) fn free(self) {
        self.check(self.layout.size());
        // SAFETY: a live block of the context that the handle refers to, and its own layout and scope.
        unsafe { HostAllocator::deallocate(&self.owner, self.start, self.layout, self.scope) };
    }

    fn aligned(&self) {
        assert!(
            self.start.as_ptr().addr().is_multiple_of(self.layout.align()),
            "{:p} for {:?}",
            self.start,
            self.layout
        );
    }

    fn write(&self) {
        // SAFETY: the block is live and has this size.
        unsafe { self.start.as_ptr().write_bytes(self.fill, self.layout.size()) };
    }

    fn check(&self, len: usize) {
        // SAFETY: the block is live, at least this large, and was written over its whole size (or given as zeros).
        let content = unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len) };
        assert!(
            content.iter().all(|byte| *byte == self.fill),
            "{:p}: {len} bytes are not as they were written",
            self.start
        );
    }
}
