use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::table::{DOOMED, EXCLUSIVE, MAX_HOLDS, Put, ValueSlot};
use super::{locked_for, look_up, table};
use crate::context::{ContextHandle, ContextNode};
use crate::error::{ContextId, HostError, Misuse};

impl ContextHandle {
    /// Holds a value for reading. Until the last hold is dropped, it cannot be removed, destroyed, stolen or written;
    /// if the context ends meanwhile, it is destroyed with its last hold.
    ///
    /// # Errors
    /// As [`remove`](ContextHandle::remove); [`Misuse::Held`] only while the value is held for writing.
    #[inline]
    pub fn get<T: Send + Sync + 'static>(&self, id: Owned<T>) -> Result<Hold<'_, T>, HostError> {
        let place = SlotReference::hold(self.node(), id, |holds| (holds < MAX_HOLDS).then_some(holds.wrapping_add(1)))?;
        Ok(Hold { value: place.value.cast(), _place: place })
    }

    /// Holds a value for writing: as [`get`](ContextHandle::get), for one hold alone.
    ///
    /// # Errors
    /// As [`get`](ContextHandle::get); [`Misuse::Held`] while there is any other hold.
    #[inline]
    pub fn get_mut<T: Send + 'static>(&self, id: Owned<T>) -> Result<HoldMut<'_, T>, HostError> {
        let place = SlotReference::hold(self.node(), id, |holds| (holds == 0).then_some(EXCLUSIVE))?;
        Ok(HoldMut { value: place.value.cast(), _place: place, writes: PhantomData })
    }
}

struct SlotReference<'c> {
    node: &'c ContextNode,
    slot: NonNull<ValueSlot>,
    value: NonNull<u8>,
    share: u32,
}

impl<'c> SlotReference<'c> {
    #[inline]
    fn hold<T>(node: &'c ContextNode, id: Owned<T>, more: impl FnOnce(u32) -> Option<u32>) -> Result<Self, HostError> {
        let table = locked_for(node, id)?;
        let (slot, _) = look_up(node, &table, id)?;
        let before = slot.holds.get();
        let holds = more(before).ok_or(HostError::Misuse(Misuse::Held))?;
        slot.holds.set(holds);
        Ok(Self { node, slot: id.slot(), value: slot.value.get(), share: holds.wrapping_sub(before) })
    }
}

impl Drop for SlotReference<'_> {
    #[inline]
    fn drop(&mut self) {
        let last = {
            let Some(table) = table::lock(self.node) else {
                return;
            };
            // SAFETY: a slot of the locked table.
            let slot = unsafe { self.slot.as_ref() };
            let holds = slot.holds.get().wrapping_sub(self.share);
            slot.holds.set(holds);
            if holds != DOOMED {
                return;
            }
            slot.kind.get().map(|kind| table.remove(slot, kind))
        };
        if let Some(taken) = last {
            taken.destroy(self.node);
        }
    }
}

/// A hold for reading, see [`ContextHandle::get`]. Forgetting it leaves the value held as long as the context's record
/// lives.
#[must_use = "dropping it gives the value free"]
pub struct Hold<'c, T> {
    _place: SlotReference<'c>,
    value: NonNull<T>,
}

// SAFETY: it gives out `&T`, so `T` is `Sync`; the thread that drops it may destroy the value, so `T` is `Send`.
unsafe impl<T: Send + Sync> Send for Hold<'_, T> {}
// SAFETY: a shared one gives out `&T` only.
unsafe impl<T: Send + Sync> Sync for Hold<'_, T> {}

impl<T> Deref for Hold<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the hold keeps the value in place and unwritten.
        unsafe { self.value.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Hold<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A hold on an owned value for writing, see [`ContextHandle::get_mut`].
#[must_use = "dropping it gives the value free"]
pub struct HoldMut<'c, T> {
    _place: SlotReference<'c>,
    value: NonNull<T>,
    writes: PhantomData<&'c mut T>,
}

// SAFETY: the thread that drops it may destroy the value, which is `Send`.
unsafe impl<T: Send> Send for HoldMut<'_, T> {}
// SAFETY: a shared one gives out `&T` only.
unsafe impl<T: Send + Sync> Sync for HoldMut<'_, T> {}

impl<T> Deref for HoldMut<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: held by this guard alone.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for HoldMut<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: held by this guard alone, borrowed mutably.
        unsafe { self.value.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for HoldMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The id of a value that a context owns.
///
/// An id whose value was destroyed, removed, stolen or adopted, or of another or ended context, gives an error, never
/// another value.
///
/// `Send` and `Sync` for every `T`: only contexts give access to values.
pub struct Owned<T> {
    context: ContextId,
    slot: NonNull<ValueSlot>,
    generation: u32,
    /// A value can be written through its id.
    value: PhantomData<fn(T) -> T>,
}

// SAFETY: only the context reads the slot, under its lock.
unsafe impl<T> Send for Owned<T> {}
// SAFETY: only the context reads the slot, under its lock.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(super) fn new(context: ContextId, put: &Put) -> Self {
        Self { context, slot: put.slot, generation: put.generation, value: PhantomData }
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
        self.context == other.context && self.slot == other.slot && self.generation == other.generation
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
        write!(f, "Owned<{}>({}, {:?}, {})", core::any::type_name::<T>(), self.context, self.slot, self.generation)
    }
}
