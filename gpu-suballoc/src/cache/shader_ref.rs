//! References to compiled shaders.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use super::block::StoredPayload;
use super::entry::ShaderHeader;
use super::key::ShaderKey;
use super::ref_records::{self, RefSlot};
use super::shader_cache::ShaderCache;
use super::state::{CacheCore, HeldShader};

/// A reference to a compiled shader, which is not destroyed until this is dropped, even if its owner is released.
///
/// Acquiring and dropping a reference writes nothing that other threads read, for up to 14 references at a time on each of up to 64
/// threads. Further references share 14 words among all threads; any beyond these acquire the cache's lock for a moment. References may be
/// sent to other threads and dropped there.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct ShaderRef<'c, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c CacheCore<P, E>,
    block: NonNull<StoredPayload<P>>,
    /// `None` if the reference is counted in the entry.
    slot: Option<RefSlot>,
}

// SAFETY: the payload is `Send + Sync`; word and place are atomics that live as long as the cache, and only this reference clears the word.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for ShaderRef<'_, P, E> {}
// SAFETY: as above; a shared borrow reaches only the payload.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for ShaderRef<'_, P, E> {}

impl<'c, P: Send + Sync, E: Copy + Send + Sync> ShaderRef<'c, P, E> {
    /// Wraps a reference, which this value releases.
    #[inline(always)]
    pub(super) const fn new(core: &'c CacheCore<P, E>, found: HeldShader) -> Self {
        Self {
            core,
            block: found.block.cast(),
            slot: found.slot,
        }
    }

    /// The key that the shader was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        self.front().key
    }

    #[inline(always)]
    fn front(&self) -> &ShaderHeader {
        // SAFETY: the shader is referenced, so its block exists until the release.
        &unsafe { self.block.as_ref() }.front
    }

    pub(super) fn number(&self) -> u32 {
        self.front().number
    }

    /// The bytes that the shader was compiled from, if they are compared.
    #[must_use]
    pub fn content(&self) -> Option<&[u8]> {
        // SAFETY: it is referenced, so its entry has a block until the release.
        unsafe { self.core.entries.get(self.number())?.content() }
    }

    /// Converts this to a reference that outlives the borrow, for example for a submission that runs for milliseconds. Keeps the cache
    /// alive.
    pub fn into_work_ref(self) -> WorkRef<P, E> {
        if let (Some(at), Some(entry)) = (self.slot, self.core.entries.get(self.number())) {
            // SAFETY: referenced there, and from now on in the count.
            unsafe { ref_records::move_to_count(at, entry) };
        }
        let hold = WorkRef {
            cache: ShaderCache::of(self.core),
            block: self.block,
        };
        core::mem::forget(self);
        hold
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for ShaderRef<'_, P, E> {
    type Target = P;
    #[inline]
    fn deref(&self) -> &P {
        // SAFETY: the shader is referenced, so its block exists until the release.
        &unsafe { self.block.as_ref() }.value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for ShaderRef<'_, P, E> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: referenced there, released once.
        unsafe {
            self.core.release(HeldShader {
                block: self.block.cast(),
                slot: self.slot,
            })
        };
    }
}

/// A [`ShaderRef`] that borrows nothing, and keeps the cache alive until it is dropped.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct WorkRef<P: Send + Sync, E: Copy + Send + Sync> {
    /// Dropped after the reference is released, even if the shader's destructor unwinds.
    cache: ShaderCache<P, E>,
    block: NonNull<StoredPayload<P>>,
}

// SAFETY: as for `ShaderRef`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for WorkRef<P, E> {}
// SAFETY: as for `ShaderRef`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for WorkRef<P, E> {}

impl<P: Send + Sync, E: Copy + Send + Sync> WorkRef<P, E> {
    /// The key that the shader was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        // SAFETY: the shader is referenced, so its block exists until the release.
        unsafe { self.block.as_ref() }.front.key
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for WorkRef<P, E> {
    type Target = P;
    fn deref(&self) -> &P {
        // SAFETY: the shader is referenced, so its block exists until the release.
        &unsafe { self.block.as_ref() }.value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for WorkRef<P, E> {
    fn drop(&mut self) {
        // SAFETY: counted in the entry when this was created, released once.
        unsafe {
            self.cache.core().release(HeldShader {
                block: self.block.cast(),
                slot: None,
            })
        };
    }
}

impl<P: Send + Sync + fmt::Debug, E: Copy + Send + Sync> fmt::Debug for ShaderRef<'_, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShaderRef").field(&**self).finish()
    }
}

impl<P: Send + Sync + fmt::Debug, E: Copy + Send + Sync> fmt::Debug for WorkRef<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkRef").field(&**self).finish()
    }
}
