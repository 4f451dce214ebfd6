//! Compiled shaders in use.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use super::block::Stored;
use super::entry::Front;
use super::holds::{self, At};
use super::key::ShaderKey;
use super::shader_cache::ShaderCache;
use super::state::{Core, Found};

/// A compiled shader that is in use: it stays as it is until this is dropped, whoever is released meanwhile.
///
/// Taking and dropping one writes to nothing that another thread reads, for up to fourteen at a time on each of up to 64 threads. Further
/// ones share fourteen words among all threads, and what is more than that takes the cache's lock for a moment. May be sent to, and dropped
/// on, another thread.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct Hold<'c, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c Core<P, E>,
    block: NonNull<Stored<P>>,
    /// `None`: it is counted in the entry.
    at: Option<At>,
}

// SAFETY: the payload is `Send + Sync`; word and place are atomics that live as long as the cache, and only this hold makes the word null.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for Hold<'_, P, E> {}
// SAFETY: as above; by reference nothing but the payload is reached.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for Hold<'_, P, E> {}

impl<'c, P: Send + Sync, E: Copy + Send + Sync> Hold<'c, P, E> {
    /// Of what is held, and is this hold's to let go.
    #[inline(always)]
    pub(super) const fn new(core: &'c Core<P, E>, found: Found) -> Self {
        Self { core, block: found.block.cast(), at: found.at }
    }

    /// What it was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        self.front().key
    }

    #[inline(always)]
    fn front(&self) -> &Front {
        // SAFETY: it is held, so its block is there until it is let go.
        &unsafe { self.block.as_ref() }.front
    }

    /// The number of its entry.
    pub(super) fn number(&self) -> u32 {
        self.front().number
    }

    /// What it was compiled from, where that is compared.
    #[must_use]
    pub fn content(&self) -> Option<&[u8]> {
        // SAFETY: it is held, so its entry has a block until it is let go.
        unsafe { self.core.entries.get(self.number())?.content() }
    }

    /// The same hold, for work that outlives the borrow: a submission that runs for milliseconds, say. Keeps the cache.
    pub fn into_work(self) -> WorkHold<P, E> {
        if let (Some(at), Some(entry)) = (self.at, self.core.entries.get(self.number())) {
            // SAFETY: held there, and from now on in the count.
            unsafe { holds::count(at, entry) };
        }
        let hold = WorkHold { cache: ShaderCache::of(self.core), block: self.block };
        core::mem::forget(self);
        hold
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for Hold<'_, P, E> {
    type Target = P;
    #[inline]
    fn deref(&self) -> &P {
        // SAFETY: it is held, so its block is there until it is let go.
        &unsafe { self.block.as_ref() }.value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for Hold<'_, P, E> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held there, let go once.
        unsafe { self.core.release(Found { block: self.block.cast(), at: self.at }) };
    }
}

/// A [`Hold`] that borrows nothing, and keeps the cache until it is dropped.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct WorkHold<P: Send + Sync, E: Copy + Send + Sync> {
    /// Goes after the hold, even if the shader's destructor unwinds.
    cache: ShaderCache<P, E>,
    block: NonNull<Stored<P>>,
}

// SAFETY: as for `Hold`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for WorkHold<P, E> {}
// SAFETY: as for `Hold`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for WorkHold<P, E> {}

impl<P: Send + Sync, E: Copy + Send + Sync> WorkHold<P, E> {
    /// What it was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        // SAFETY: it is held, so its block is there until it is let go.
        unsafe { self.block.as_ref() }.front.key
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for WorkHold<P, E> {
    type Target = P;
    fn deref(&self) -> &P {
        // SAFETY: it is held, so its block is there until it is let go.
        &unsafe { self.block.as_ref() }.value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for WorkHold<P, E> {
    fn drop(&mut self) {
        // SAFETY: counted in the entry when it was made, let go once.
        unsafe { self.cache.core().release(Found { block: self.block.cast(), at: None }) };
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
