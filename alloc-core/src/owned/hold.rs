//! The id of an owned value, and guards that keep the value where it is while it is used.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::table::{DOOMED, EXCLUSIVE, MAX_HOLDS};
use super::{DetachedValue, locked_for, look_up, table};
use crate::context::{ContextHandle, ContextNode};
use crate::error::{ContextId, HostError, Misuse};

impl ContextHandle {
    /// Holds a value for reading. Until the last hold is dropped, the value cannot be removed, destroyed, stolen or written; if the context
    /// ends meanwhile, on any thread, the value is destroyed with its last hold.
    ///
    /// # Errors
    /// [`Misuse::OtherContext`], [`Misuse::NotOwned`], [`HostError::Closed`] as [`remove`](ContextHandle::remove); [`Misuse::Held`] while the
    /// value is held for writing.
    #[inline]
    pub fn get<T: Send + Sync + 'static>(&self, id: Owned<T>) -> Result<Hold<'_, T>, HostError> {
        let more = |holds| (holds < MAX_HOLDS).then_some(1);
        let place = HeldValue::new(self.node(), id, more)?;
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
        let place = HeldValue::new(self.node(), id, |holds| (holds == 0).then_some(EXCLUSIVE))?;
        Ok(HoldMut {
            value: place.value.cast(),
            _place: place,
            writes: PhantomData,
        })
    }
}

/// A hold on a value, released when dropped.
struct HeldValue<'c> {
    node: &'c ContextNode,
    number: u64,
    value: NonNull<u8>,
    /// What this hold adds to the entry's `holds`.
    share: u32,
}

impl<'c> HeldValue<'c> {
    #[inline]
    fn new<T>(
        node: &'c ContextNode,
        id: Owned<T>,
        more: impl FnOnce(u32) -> Option<u32>,
    ) -> Result<Self, HostError> {
        let mut table = locked_for(node, id)?;
        let (value, entry) = look_up(node, &mut table, id)?;
        let share = more(entry.holds).ok_or(HostError::Misuse(Misuse::Held))?;
        entry.holds = entry.holds.wrapping_add(share);
        Ok(Self {
            node,
            number: id.number(),
            value: value.block,
            share,
        })
    }
}

impl Drop for HeldValue<'_> {
    #[inline]
    fn drop(&mut self) {
        let node = self.node;
        let last = table::lock(node).and_then(|mut table| {
            let entry = table.entry(self.number)?;
            entry.holds = entry.holds.wrapping_sub(self.share);
            let is_last = entry.holds == DOOMED;
            is_last.then(|| table.remove(self.number))?
        });
        drop(last.map(|value| DetachedValue { node, value }));
    }
}

/// A hold on an owned value for reading, see [`ContextHandle::get`].
///
/// Forgetting it (`mem::forget`) leaves the value held for as long as the context's record lives.
#[must_use = "dropping it gives the value free"]
pub struct Hold<'c, T> {
    _place: HeldValue<'c>,
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
    _place: HeldValue<'c>,
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

/// The id of a value that a context owns. `Copy`; does not keep the value.
///
/// It consists of the context's number and the value's number there, none of which is used twice. An id whose value was destroyed, removed,
/// stolen or adopted, or whose context is another one or has ended, gives an error and never another value.
///
/// 16 bytes. `Send` and `Sync` for every `T`, because only contexts give access to values.
pub struct Owned<T> {
    context: ContextId,
    number: u64,
    /// Invariant in `T`: a value can be written through its id.
    value: PhantomData<fn(T) -> T>,
}

impl<T> Owned<T> {
    pub(super) const fn new(context: ContextId, number: u64) -> Self {
        Self {
            context,
            number,
            value: PhantomData,
        }
    }

    /// The context that owned the value when this id was made.
    #[inline]
    #[must_use]
    pub const fn context(self) -> ContextId {
        self.context
    }

    pub(super) const fn number(self) -> u64 {
        self.number
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
        (self.context, self.number) == (other.context, other.number)
    }
}

impl<T> Eq for Owned<T> {}

impl<T> Hash for Owned<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.context, self.number).hash(state);
    }
}

impl<T> fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = core::any::type_name::<T>();
        write!(f, "Owned<{name}>({}, {})", self.context, self.number)
    }
}
