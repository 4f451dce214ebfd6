//! What a hook uses while an operation on it is under way.

use std::cell::Cell;
use std::fmt;

/// The object that the operation now running is about.
pub struct Aim<T> {
    object: Cell<Option<T>>,
    visits: Cell<u64>,
}

impl<T> fmt::Debug for Aim<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aim").field("visits", &self.visits).finish_non_exhaustive()
    }
}

impl<T> Aim<T> {
    /// At no object.
    #[must_use]
    pub const fn idle() -> Self {
        Self { object: Cell::new(None), visits: Cell::new(0) }
    }

    /// Aims at another object; the one before comes back.
    pub fn replace(&self, object: Option<T>) -> Option<T> {
        self.object.replace(object)
    }

    /// Runs `visit` with the object and a number of its own; nothing while another visit is under way.
    pub fn visit(&self, visit: impl FnOnce(&T, u64)) {
        let Some(object) = self.object.take() else {
            return;
        };
        visit(&object, self.visits.replace(self.visits.get() + 1));
        self.object.set(Some(object));
    }

    /// Visits so far.
    pub fn visits(&self) -> u64 {
        self.visits.get()
    }
}
