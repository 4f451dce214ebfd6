//! Work that one thread at a time does, while others do without.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

/// A thread's turn. The next thread may have one when this is dropped, by a panic too.
pub(crate) struct Turn<'t>(&'t AtomicBool);

impl<'t> Turn<'t> {
    /// `None` while another thread has its turn.
    pub(crate) fn begin(is_taken: &'t AtomicBool) -> Option<Self> {
        let is_free = !is_taken.swap(true, Ordering::Acquire);
        is_free.then(|| Self(is_taken))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
