#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

/// The next thread may have a turn when this is dropped, by a panic too.
pub(crate) struct Turn<'t>(&'t AtomicBool);

impl<'t> Turn<'t> {
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
