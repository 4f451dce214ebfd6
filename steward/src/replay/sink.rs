//! The source of an owner's blocks in a replay: its context, a count of empty blocks and a list of accounts with requests.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

use alloc_core::{
    AllocError, AllocatorTraits, ContextHandle, HostAllocator, HostError, Notice, PointerStatus,
    Scope,
};

use vk_report::report::ByScope;

/// The accounts with requests since the last visit, by owner; `None` is for requests without an owner.
#[derive(Debug, Default)]
pub(super) struct Requested(RefCell<Vec<Option<u64>>>);

impl Requested {
    /// Each account once. Call [`Tally::looked_at`] for it.
    pub(super) fn drain(&self) -> Vec<Option<u64>> {
        self.0.take()
    }
}

/// An owner's blocks of 0 bytes, and whether it had requests. A context does not count such blocks, but drivers request them, and in a
/// live run each has a header.
#[derive(Debug)]
pub(super) struct Tally {
    owner: Option<u64>,
    requested: Rc<Requested>,
    listed: Cell<bool>,
    taken: Cell<ByScope>,
    live: Cell<ByScope>,
}

/// A context that also counts empty blocks.
#[derive(Clone)]
pub(super) struct Sink {
    context: ContextHandle,
    tally: Rc<Tally>,
}

impl Tally {
    pub(super) fn new(owner: Option<u64>, requested: Rc<Requested>) -> Self {
        Self {
            owner,
            requested,
            listed: Cell::new(false),
            taken: Cell::default(),
            live: Cell::default(),
        }
    }

    /// Blocks of 0 bytes: ever taken, and live.
    pub(super) fn empty_blocks(&self) -> (ByScope, ByScope) {
        (self.taken.get(), self.live.get())
    }

    /// The next change is the first since a visit.
    pub(super) fn looked_at(&self) {
        self.listed.set(false);
    }

    /// A change follows.
    fn list(&self) {
        if !self.listed.replace(true) {
            self.requested.0.borrow_mut().push(self.owner);
        }
    }

    fn allocate_record(&self, scope: Scope) {
        self.taken.set(
            self.taken
                .get()
                .with(scope, |blocks| blocks.saturating_add(1)),
        );
        self.live.set(
            self.live
                .get()
                .with(scope, |blocks| blocks.saturating_add(1)),
        );
    }

    fn free_record(&self, scope: Scope) {
        self.live.set(
            self.live
                .get()
                .with(scope, |blocks| blocks.saturating_sub(1)),
        );
    }

    /// The block now has bytes, so the context counts it.
    fn filled(&self, scope: Scope) {
        self.free_record(scope);
        self.taken.set(
            self.taken
                .get()
                .with(scope, |blocks| blocks.saturating_sub(1)),
        );
    }
}

impl Sink {
    pub(super) fn new(context: ContextHandle, tally: Rc<Tally>) -> Self {
        Self { context, tally }
    }
}

// SAFETY: forwards each call unchanged to the context, and counts.
unsafe impl HostAllocator for Sink {
    fn traits(&self) -> AllocatorTraits {
        self.context.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.tally.list();
        let block = HostAllocator::allocate(&self.context, layout, scope)?;
        if layout.size() == 0 {
            self.tally.allocate_record(scope);
        }
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.tally.list();
        if layout.size() == 0 {
            self.tally.free_record(scope);
        }
        // SAFETY: forwarded from this function's contract.
        unsafe { HostAllocator::deallocate(&self.context, block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        self.tally.list();
        // SAFETY: forwarded from this function's contract.
        let moved = unsafe { self.context.resize(block, old, new, scope) }?;
        match (old.size(), new.size()) {
            (0, 1..) => self.tally.filled(scope),
            (1.., 0) => self.tally.allocate_record(scope),
            _ => {}
        }
        Ok(moved)
    }

    fn notify(&self, notice: Notice) {
        HostAllocator::notify(&self.context, notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        HostAllocator::refusal(&self.context, layout, scope)
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.context.validate_pointer(pointer, front)
    }
}
