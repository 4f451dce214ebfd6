//! A value that a process makes once. The child of a fork makes its own, since threads that are gone may hold the locks of the parent's.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::record::{free_record, new_record};

/// Published once and never freed.
pub(crate) struct PerProcess<T>(AtomicPtr<T>);

impl<T: Send + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value; made now if there is none. Of two threads that make one, the first one's stays. `None` where none can be made.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> Option<T>) -> Option<&'static T> {
        let mut published = self.0.load(Ordering::Acquire);
        if published.is_null() {
            let new = new_record(make()?)?;
            let swapped = self.0.compare_exchange(
                ptr::null_mut(),
                new.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            published = match swapped {
                Ok(_) => new.as_ptr(),
                Err(first) => {
                    // SAFETY: from `new_record`, and nobody has seen it.
                    drop(unsafe { free_record(new) });
                    first
                }
            };
        }
        let published = NonNull::new(published)?;
        // SAFETY: published above or by another thread, and never freed.
        Some(unsafe { published.as_ref() })
    }

    /// The value, if it was made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        let published = NonNull::new(self.0.load(Ordering::Acquire))?;
        // SAFETY: published by `get_or_make`, and never freed.
        Some(unsafe { published.as_ref() })
    }

    /// In the child of a fork. What the parent's value allocated stays: its objects may still be used.
    pub(crate) fn forget(&self) {
        self.0.store(ptr::null_mut(), Ordering::Release);
    }
}
