//! References to compiled shaders.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use super::entry::CacheEntry;
use super::key::ShaderKey;
use super::shader_cache::ShaderCache;

/// A reference to a compiled shader, which is not destroyed until this is dropped, even if its owner is released. References may be sent
/// to other threads and dropped there.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct ShaderRef<'c, P: Send + Sync, E: Copy + Send + Sync> {
    cache: &'c ShaderCache<P, E>,
    entry: NonNull<CacheEntry<P>>,
}

// SAFETY: the payload is `Send + Sync`; all else of the entry is used under the lock.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for ShaderRef<'_, P, E> {}
// SAFETY: as above.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for ShaderRef<'_, P, E> {}

impl<'c, P: Send + Sync, E: Copy + Send + Sync> ShaderRef<'c, P, E> {
    /// Of a reference that was counted.
    pub(super) const fn new(cache: &'c ShaderCache<P, E>, entry: NonNull<CacheEntry<P>>) -> Self {
        Self { cache, entry }
    }

    pub(super) const fn pointer(&self) -> NonNull<CacheEntry<P>> {
        self.entry
    }

    pub(super) fn entry(&self) -> &CacheEntry<P> {
        // SAFETY: it is referenced, so it exists until the release.
        unsafe { self.entry.as_ref() }
    }

    /// The key that the shader was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        self.entry().key
    }

    /// The bytes that the shader was compiled from, if they are compared.
    #[must_use]
    pub fn content(&self) -> Option<&[u8]> {
        self.entry().content.as_deref()
    }

    /// Converts this to a reference that outlives the borrow, for example for a submission that runs for milliseconds. Keeps the cache
    /// alive.
    pub fn into_work_ref(self) -> WorkRef<P, E> {
        let this = ManuallyDrop::new(self);
        WorkRef {
            entry: this.entry,
            cache: this.cache.clone(),
        }
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for ShaderRef<'_, P, E> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.entry().value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for ShaderRef<'_, P, E> {
    fn drop(&mut self) {
        self.cache.core().release(self.entry);
    }
}

impl<P: Send + Sync + fmt::Debug, E: Copy + Send + Sync> fmt::Debug for ShaderRef<'_, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShaderRef").field(&**self).finish()
    }
}

/// A [`ShaderRef`] that borrows nothing, and keeps the cache alive until it is dropped.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct WorkRef<P: Send + Sync, E: Copy + Send + Sync> {
    /// Dropped after the reference is released, even if the shader's destructor unwinds.
    cache: ShaderCache<P, E>,
    entry: NonNull<CacheEntry<P>>,
}

// SAFETY: as for `ShaderRef`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for WorkRef<P, E> {}
// SAFETY: as for `ShaderRef`.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for WorkRef<P, E> {}

impl<P: Send + Sync, E: Copy + Send + Sync> WorkRef<P, E> {
    fn entry(&self) -> &CacheEntry<P> {
        // SAFETY: it is referenced, so it exists until the release.
        unsafe { self.entry.as_ref() }
    }

    /// The key that the shader was compiled for.
    #[must_use]
    pub fn key(&self) -> ShaderKey {
        self.entry().key
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Deref for WorkRef<P, E> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.entry().value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for WorkRef<P, E> {
    fn drop(&mut self) {
        self.cache.core().release(self.entry);
    }
}

impl<P: Send + Sync + fmt::Debug, E: Copy + Send + Sync> fmt::Debug for WorkRef<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkRef").field(&**self).finish()
    }
}
