//! Compiled shaders in use.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use super::entry::Entry;
use super::holds::{self, Word};
use super::key::ShaderKey;
use super::state::Core;

/// A compiled shader that is in use: it stays as it is until this is dropped, whoever is released meanwhile.
///
/// Taking and dropping one writes to nothing that another thread reads, for up to fourteen at a time on each of up to 64 threads. May be
/// sent to, and dropped on, another thread.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct Hold<'c, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c Core<P, E>,
    entry: &'c Entry,
    number: u32,
    word: Word,
}

// SAFETY: the payload is `Send + Sync`; the word is an atomic of a record that lives as long as the cache, and only this hold makes it 0.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for Hold<'_, P, E> {}
// SAFETY: as above; by reference nothing but the payload is reached.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for Hold<'_, P, E> {}

impl<'c, P: Send + Sync, E: Copy + Send + Sync> Hold<'c, P, E> {
    /// Of an entry that is held, at `word`, and was live afterwards.
    #[inline(always)]
    pub(super) const fn new(core: &'c Core<P, E>, (entry, number, word): (&'c Entry, u32, Word)) -> Self {
        Self { core, entry, number, word }
    }

    /// What it was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        self.entry.key()
    }

    pub(super) const fn entry(&self) -> (&'c Entry, u32) {
        (self.entry, self.number)
    }

    /// What it was compiled from, where that is compared.
    #[must_use]
    pub fn content(&self) -> Option<&[u8]> {
        let stored = self.core.stored(self.entry);
        // SAFETY: as for `deref`.
        unsafe { stored.as_ref() }.content.as_deref()
    }

    /// The same hold, for work that outlives the borrow: a submission that runs for milliseconds, say. Keeps the cache.
    pub fn into_work(self) -> WorkHold<P, E> {
        // SAFETY: published for this entry, and from now on in its count.
        unsafe { holds::count(self.word, self.entry) };
        self.core.keep();
        let hold = WorkHold { core: self.core.block, entry: NonNull::from(self.entry), number: self.number };
        core::mem::forget(self);
        hold
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for Hold<'_, P, E> {
    type Target = P;
    #[inline]
    fn deref(&self) -> &P {
        let stored = self.core.stored(self.entry);
        // SAFETY: the entry is held and was live afterwards, so its payload is there until it is let go.
        &unsafe { stored.as_ref() }.value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for Hold<'_, P, E> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: published for this entry, taken back once.
        if unsafe { holds::retract(self.word, self.entry) } {
            self.core.sweep(self.number);
        }
    }
}

/// A [`Hold`] that borrows nothing, and keeps the cache until it is dropped.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct WorkHold<P: Send + Sync, E: Copy + Send + Sync> {
    core: NonNull<Core<P, E>>,
    entry: NonNull<Entry>,
    number: u32,
}

// SAFETY: as for `Hold`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for WorkHold<P, E> {}
// SAFETY: as for `Hold`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for WorkHold<P, E> {}

impl<P: Send + Sync, E: Copy + Send + Sync> WorkHold<P, E> {
    fn core(&self) -> &Core<P, E> {
        // SAFETY: kept until this is dropped.
        unsafe { self.core.as_ref() }
    }

    fn entry(&self) -> &Entry {
        // SAFETY: entries live as long as the cache.
        unsafe { self.entry.as_ref() }
    }

    /// What it was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        self.entry().key()
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for WorkHold<P, E> {
    type Target = P;
    fn deref(&self) -> &P {
        let stored = self.core().stored(self.entry());
        // SAFETY: the entry is held, so its payload is there until it is let go.
        &unsafe { stored.as_ref() }.value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for WorkHold<P, E> {
    fn drop(&mut self) {
        // SAFETY: counted in the entry when it was made, taken back once.
        if unsafe { holds::retract(None, self.entry()) } {
            self.core().sweep(self.number);
        }
        // SAFETY: one of its keepers, which uses it no more.
        unsafe { Core::let_go(self.core) };
    }
}

impl<P: Send + Sync + fmt::Debug, E: Copy + Send + Sync> fmt::Debug for Hold<'_, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&**self).finish()
    }
}

impl<P: Send + Sync + fmt::Debug, E: Copy + Send + Sync> fmt::Debug for WorkHold<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkHold").field(&**self).finish()
    }
}
