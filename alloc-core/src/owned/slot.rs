//! What is known of one owned value, and the lists that slots are in.
//!
//! ```text
//!   0 value       the value's block (dangling where it has no size)        8 kind   layout and destructor; none = nothing here
//!  16 newer, 24 older    neighbours in the order of becoming owned; on the free list, `older` is the next free slot
//!  32 generation  counts the values that were here                        36 holds  who is using the value
//! ```
//! Everything is read and written under the table's lock. A slot is never given back while its context's record lives, so an id
//! whose context is known to be right may be looked up, however old it is.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};

/// How values of one type are given back.
pub(super) struct ValueType {
    pub(super) layout: Layout,
    /// `None` = nothing happens when such a value goes.
    pub(super) destroy: Option<unsafe fn(NonNull<u8>)>,
}

impl ValueType {
    pub(super) const fn of<T>() -> &'static Self {
        struct Of<T>(T);
        impl<T> Of<T> {
            const VALUE_TYPE: ValueType = ValueType {
                layout: Layout::new::<T>(),
                destroy: if core::mem::needs_drop::<T>() {
                    Some(Self::destroy)
                } else {
                    None
                },
            };

            /// # Safety
            /// `value` is a `T` that nobody uses any more.
            unsafe fn destroy(value: NonNull<u8>) {
                // SAFETY: this function's contract.
                unsafe { value.cast::<T>().drop_in_place() }
            }
        }
        &Of::<T>::VALUE_TYPE
    }
}

/// See the file's head.
pub(super) struct ValueSlot {
    pub(super) value: Cell<NonNull<u8>>,
    pub(super) kind: Cell<Option<&'static ValueType>>,
    newer: Cell<*const ValueSlot>,
    older: Cell<*const ValueSlot>,
    pub(super) generation: Cell<u32>,
    pub(super) holds: Cell<u32>,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ValueSlot>() == 40);

/// In `holds`: the context has ended; the value goes with the last hold.
pub(super) const DOOMED: u32 = 1 << 31;
/// In `holds`: one holder, who may write.
pub(super) const EXCLUSIVE: u32 = 1 << 30;
/// As many readers as there may be.
pub(super) const MAX_HOLDS: u32 = EXCLUSIVE - 1;
/// A slot that has had as many values as this has no more: no id is ever right twice.
pub(super) const LAST_GENERATION: u32 = u32::MAX;

impl ValueSlot {
    /// One that never had a value.
    pub(super) const fn new() -> Self {
        Self {
            value: Cell::new(NonNull::dangling()),
            kind: Cell::new(None),
            newer: Cell::new(ptr::null()),
            older: Cell::new(ptr::null()),
            generation: Cell::new(0),
            holds: Cell::new(0),
        }
    }

    /// True when nobody is using the value.
    pub(super) fn is_free_to_go(&self) -> bool {
        self.holds.get() & !DOOMED == 0
    }
}

/// A doubly linked list of slots, newest first.
pub(super) struct List {
    newest: Cell<*const ValueSlot>,
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            newest: Cell::new(ptr::null()),
        }
    }

    pub(super) fn newest(&self) -> Option<&ValueSlot> {
        // SAFETY: slots in a list lie in segments, which live as long as the table that the list is in, or are markers, which leave
        // the list before they go.
        unsafe { self.newest.get().as_ref() }
    }

    pub(super) fn oldest(&self) -> Option<&ValueSlot> {
        let mut at = self.newest()?;
        while let Some(older) = at.older() {
            at = older;
        }
        Some(at)
    }

    pub(super) fn push(&self, slot: &ValueSlot) {
        let next = self.newest.get();
        slot.newer.set(ptr::null());
        slot.older.set(next);
        // SAFETY: as in `newest`.
        if let Some(next) = unsafe { next.as_ref() } {
            next.newer.set(slot);
        }
        self.newest.set(slot);
    }

    /// Takes out a slot that is in this list.
    pub(super) fn unlink(&self, slot: &ValueSlot) {
        match slot.newer() {
            Some(newer) => newer.older.set(slot.older.get()),
            None => self.newest.set(slot.older.get()),
        }
        if let Some(older) = slot.older() {
            older.newer.set(slot.newer.get());
        }
    }

    /// As a stack of free slots, whose `newer` is not kept.
    pub(super) fn pop_free(&self) -> Option<&ValueSlot> {
        let slot = self.newest()?;
        self.newest.set(slot.older.get());
        Some(slot)
    }

    /// See [`pop_free`](List::pop_free).
    pub(super) fn push_free(&self, slot: &ValueSlot) {
        slot.older.set(self.newest.get());
        self.newest.set(slot);
    }
}

impl ValueSlot {
    pub(super) fn newer(&self) -> Option<&ValueSlot> {
        // SAFETY: as in `List::newest`.
        unsafe { self.newer.get().as_ref() }
    }

    pub(super) fn older(&self) -> Option<&ValueSlot> {
        // SAFETY: as in `List::newest`.
        unsafe { self.older.get().as_ref() }
    }
}
