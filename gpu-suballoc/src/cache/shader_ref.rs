//! References to compiled shaders.

use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use super::entry::CacheEntry;
use super::key::ShaderKey;
use super::shader_cache::ShaderCache;

/// A reference that borrows the cache: see [`CacheRef`].
pub type ShaderRef<'c, P, E> = CacheRef<P, E, &'c ShaderCache<P, E>>;

/// A reference that borrows nothing, and keeps the cache alive until it is dropped: see [`CacheRef`].
pub type WorkRef<P, E> = CacheRef<P, E, ShaderCache<P, E>>;

/// A reference to a compiled shader, which is not destroyed until this is dropped, even if its owner is released. References may be sent
/// to other threads and dropped there.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct CacheRef<P: Send + Sync, E: Copy + Send + Sync, C: Borrow<ShaderCache<P, E>>> {
    /// Dropped after the reference is released, even if the shader's destructor unwinds.
    cache: C,
    entry: NonNull<CacheEntry<P>>,
    error: PhantomData<E>,
}

// SAFETY: the payload is `Send + Sync`; all else of the entry is used under the lock.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync, C: Borrow<ShaderCache<P, E>> + Send> Send
    for CacheRef<P, E, C>
{
}
// SAFETY: as above.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync, C: Borrow<ShaderCache<P, E>> + Sync> Sync
    for CacheRef<P, E, C>
{
}

impl<P: Send + Sync, E: Copy + Send + Sync, C: Borrow<ShaderCache<P, E>>> CacheRef<P, E, C> {
    /// Of a reference that was counted.
    pub(super) const fn new(cache: C, entry: NonNull<CacheEntry<P>>) -> Self {
        Self {
            cache,
            entry,
            error: PhantomData,
        }
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
}

impl<P: Send + Sync, E: Copy + Send + Sync> ShaderRef<'_, P, E> {
    /// Converts this to a reference that outlives the borrow, for example for a submission that runs for milliseconds. Keeps the cache
    /// alive.
    pub fn into_work_ref(self) -> WorkRef<P, E> {
        let this = ManuallyDrop::new(self);
        CacheRef::new(this.cache.clone(), this.entry)
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync, C: Borrow<ShaderCache<P, E>>> Deref
    for CacheRef<P, E, C>
{
    type Target = P;

    fn deref(&self) -> &P {
        &self.entry().value
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync, C: Borrow<ShaderCache<P, E>>> Drop
    for CacheRef<P, E, C>
{
    fn drop(&mut self) {
        self.cache.borrow().core().release(self.entry);
    }
}

impl<P: Send + Sync + fmt::Debug, E: Copy + Send + Sync, C: Borrow<ShaderCache<P, E>>> fmt::Debug
    for CacheRef<P, E, C>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheRef").field(&**self).finish()
    }
}
