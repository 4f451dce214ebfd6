//! Using an owned value: guards that keep it where it is.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::slot::{DOOMED, EXCLUSIVE, MAX_HOLDS, ValueSlot};
use super::{Owned, locked_for, look_up, table};
use crate::context::{ContextHandle, ContextNode};
use crate::error::{HostError, Misuse};

impl ContextHandle {
    /// Holds a value for reading. Until the last hold is dropped, the value cannot be removed, destroyed, stolen or written; if the context
    /// ends meanwhile, on any thread, the value is destroyed with its last hold.
    ///
    /// # Errors
    /// [`Misuse::OtherContext`], [`Misuse::NotOwned`], [`HostError::Closed`] as [`remove`](ContextHandle::remove); [`Misuse::Held`] while the
    /// value is held for writing.
    #[inline]
    pub fn get<T: Send + Sync + 'static>(&self, id: Owned<T>) -> Result<Hold<'_, T>, HostError> {
        let place = SlotReference::hold(self.node(), id, |holds| {
            (holds < MAX_HOLDS).then_some(holds.wrapping_add(1))
        })?;
        Ok(Hold {
            value: place.value.cast(),
            _place: place,
        })
    }

    /// Holds a value for writing: as [`get`](ContextHandle::get), for one hold at a time.
    ///
    /// # Errors
    /// As [`get`](ContextHandle::get); [`Misuse::Held`] while there is any other hold.
    #[inline]
    pub fn get_mut<T: Send + 'static>(&self, id: Owned<T>) -> Result<HoldMut<'_, T>, HostError> {
        let place =
            SlotReference::hold(self.node(), id, |holds| (holds == 0).then_some(EXCLUSIVE))?;
        Ok(HoldMut {
            value: place.value.cast(),
            _place: place,
            writes: PhantomData,
        })
    }
}

/// A hold on a slot, released when dropped.
struct SlotReference<'c> {
    node: &'c ContextNode,
    slot: NonNull<ValueSlot>,
    value: NonNull<u8>,
    /// What this hold adds to the slot's `holds`.
    share: u32,
}

impl<'c> SlotReference<'c> {
    #[inline]
    fn hold<T>(
        node: &'c ContextNode,
        id: Owned<T>,
        more: impl FnOnce(u32) -> Option<u32>,
    ) -> Result<Self, HostError> {
        let table = locked_for(node, id)?;
        let (slot, _) = look_up(node, &table, id)?;
        let before = slot.holds.get();
        let holds = more(before).ok_or(HostError::Misuse(Misuse::Held))?;
        slot.holds.set(holds);
        table.holds.set(table.holds.get().wrapping_add(1));
        Ok(Self {
            node,
            slot: id.slot(),
            value: slot.value.get(),
            share: holds.wrapping_sub(before),
        })
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
            table.holds.set(table.holds.get().wrapping_sub(1));
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

/// A hold on an owned value for reading, see [`ContextHandle::get`].
///
/// Forgetting it (`mem::forget`) leaves the value held for as long as the context's record lives.
#[must_use = "dropping it gives the value free"]
pub struct Hold<'c, T> {
    _place: SlotReference<'c>,
    value: NonNull<T>,
}

// SAFETY: gives out `&T`, and may destroy the value on the thread that drops it.
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
    /// Invariant in `T`, as `&mut T` is.
    writes: PhantomData<&'c mut T>,
}

// SAFETY: as good as the value itself, which may be destroyed on the thread that drops this.
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
        // SAFETY: held by this guard alone, which is borrowed mutably.
        unsafe { self.value.as_mut() }
    }
}

impl<T: fmt::Debug> fmt::Debug for HoldMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
