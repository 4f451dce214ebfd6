//! The child of a fork creates its own value, since threads that it does not have may hold locks of the parent's.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::record::{free_record, new_record};

pub(crate) struct PerProcess<T>(AtomicPtr<T>);

impl<T: Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// If two threads create a value, the first is kept.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Option<T>) -> Option<&'static T> {
        if let Some(value) = self.get() {
            return Some(value);
        }
        let new = new_record(make()?)?;
        let none = ptr::null_mut();
        let swapped = self.0.compare_exchange(none, new.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
        if swapped.is_err() {
            // SAFETY: from `new_record`, and no other thread has seen it.
            drop(unsafe { free_record(new) });
        }
        self.get()
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or published by `get_or_make` and never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// In the child of a fork. The parent's value is not freed, since its objects may still be used.
    pub(crate) fn forget(&self) {
        self.0.store(ptr::null_mut(), Ordering::Release);
    }
}
