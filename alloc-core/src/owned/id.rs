//! The id of an owned value.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::slot::ValueSlot;
use super::table::Put;
use crate::error::ContextId;

/// The id of a value that a context owns. `Copy`; does not keep the value.
///
/// It consists of the context's number (never used twice), the value's slot, and the slot's generation. An id whose value was destroyed,
/// removed, stolen or adopted, or whose context is another one or has ended, gives an error and never another value; freed memory is not
/// read to find that out.
///
/// 24 bytes on a 64-bit machine. `Send` and `Sync` for every `T`, because only contexts give access to values.
pub struct Owned<T> {
    context: ContextId,
    slot: NonNull<ValueSlot>,
    generation: u32,
    /// Invariant in `T`: a value can be written through its id.
    value: PhantomData<fn(T) -> T>,
}

// SAFETY: an id gives no access; only the context reads the slot, under its lock.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: an id gives no access; only the context reads the slot, under its lock.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(super) fn new(context: ContextId, put: &Put) -> Self {
        Self {
            context,
            slot: put.slot,
            generation: put.generation,
            value: PhantomData,
        }
    }

    /// The context that owned the value when this id was made.
    #[inline]
    #[must_use]
    pub const fn context(self) -> ContextId {
        self.context
    }

    pub(super) const fn slot(self) -> NonNull<ValueSlot> {
        self.slot
    }

    pub(super) const fn generation(self) -> u32 {
        self.generation
    }
}

impl<T> Clone for Owned<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Owned<T> {}

impl<T> PartialEq for Owned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.context == other.context
            && self.slot == other.slot
            && self.generation == other.generation
    }
}

impl<T> Eq for Owned<T> {}

impl<T> Hash for Owned<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.context.hash(state);
        self.slot.hash(state);
        self.generation.hash(state);
    }
}

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Owned<{}>({}, {:?}, {})",
            core::any::type_name::<T>(),
            self.context,
            self.slot,
            self.generation
        )
    }
}
