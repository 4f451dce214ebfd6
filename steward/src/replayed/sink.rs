//! Where an owner's blocks come from in a replay: its context, and a count of the blocks without a byte.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

use alloc_core::{AllocError, Handle, HostAllocator, HostError, Notice, Scope};

use crate::report::ByScope;

/// Blocks of 0 bytes. A context does not know them; a driver asks for them, and in a live run each has its header.
#[derive(Debug, Default)]
pub(super) struct Empty {
    taken: Cell<ByScope>,
    live: Cell<ByScope>,
}

/// A context that counts empty blocks as well.
#[derive(Clone)]
pub(super) struct Sink {
    context: Handle,
    empty: Rc<Empty>,
}

impl Empty {
    /// Those ever taken, those live.
    pub(super) fn blocks(&self) -> (ByScope, ByScope) {
        (self.taken.get(), self.live.get())
    }

    fn take(&self, scope: Scope) {
        self.taken.set(self.taken.get().with(scope, |blocks| blocks.saturating_add(1)));
        self.live.set(self.live.get().with(scope, |blocks| blocks.saturating_add(1)));
    }

    fn give(&self, scope: Scope) {
        self.live.set(self.live.get().with(scope, |blocks| blocks.saturating_sub(1)));
    }

    /// The block lives on with bytes, and the context counts it from here on.
    fn filled(&self, scope: Scope) {
        self.give(scope);
        self.taken.set(self.taken.get().with(scope, |blocks| blocks.saturating_sub(1)));
    }
}

impl Sink {
    pub(super) fn new(context: Handle, empty: Rc<Empty>) -> Self {
        Self { context, empty }
    }
}

// SAFETY: every call goes on to the context as it came; only counts stand beside.
unsafe impl HostAllocator for Sink {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = HostAllocator::allocate(&self.context, layout, scope)?;
        if layout.size() == 0 {
            self.empty.take(scope);
        }
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() == 0 {
            self.empty.give(scope);
        }
        // SAFETY: forwarded from this function's contract.
        unsafe { HostAllocator::deallocate(&self.context, block, layout, scope) }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded from this function's contract.
        let grown = unsafe { HostAllocator::grow(&self.context, block, old, new, scope) }?;
        if old.size() == 0 && new.size() > 0 {
            self.empty.filled(scope);
        }
        Ok(grown)
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded from this function's contract.
        let shrunk = unsafe { HostAllocator::shrink(&self.context, block, old, new, scope) }?;
        if new.size() == 0 && old.size() > 0 {
            self.empty.take(scope);
        }
        Ok(shrunk)
    }

    fn notify(&self, notice: Notice) {
        HostAllocator::notify(&self.context, notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        HostAllocator::refusal(&self.context, layout, scope)
    }

    fn exact_alignment(&self) -> bool {
        HostAllocator::exact_alignment(&self.context)
    }
}
