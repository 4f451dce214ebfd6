use super::key::ShaderKey;
use super::owner::Owner;
use super::shader_cache::{RemovalCounts, ShaderCache};
use crate::shared_box::SharedBox;
use alloc_core::{ContextHandle, HostAllocator, HostError, Scope};
use core::alloc::Layout;
use core::borrow::Borrow;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

/// Added to the references of an entry that lookups no longer find.
pub(super) const DEAD: u64 = 1 << 63;

/// All but the references is written once, or under the shard's lock. A hit needs the first five words alone.
#[repr(C)]
pub(super) struct CacheEntry<P> {
    /// The count, to which [`DEAD`] may be added, grows under the shard's lock only.
    refs: AtomicU64,
    pub(super) touched: Cell<bool>,
    pub(super) key: ShaderKey,
    pub(super) value: P,
    pub(super) bytes: u64,
    /// Neighbours among the shard's entries, or in a [`DestroyList`].
    pub(super) next: Cell<EntryLink<P>>,
    pub(super) before: Cell<EntryLink<P>>,
    pub(super) owner: SharedBox<Owner>,
}

pub(super) type EntryLink<P> = Option<NonNull<CacheEntry<P>>>;

impl<P> CacheEntry<P> {
    pub(super) fn new(
        key: ShaderKey,
        (value, bytes): (P, u64),
        owner: SharedBox<Owner>,
        (references, is_dead): (u64, bool),
    ) -> Self {
        Self {
            refs: AtomicU64::new(references | if is_dead { DEAD } else { 0 }),
            touched: Cell::new(false),
            key,
            value,
            bytes,
            next: Cell::new(None),
            before: Cell::new(None),
            owner,
        }
    }

    pub(super) fn is_owned_by(&self, owner: &Owner) -> bool {
        core::ptr::eq(&*self.owner, owner)
    }

    pub(super) fn is_live(&self) -> bool {
        self.refs.load(SeqCst) & DEAD == 0
    }

    pub(super) fn references(&self) -> u64 {
        self.refs.load(SeqCst) & !DEAD
    }

    /// The shard's lock must be held.
    pub(super) fn reference_live(&self) {
        self.refs.fetch_add(1, SeqCst);
    }

    /// Fails for an entry that is neither live nor referenced. The shard's lock must be held.
    pub(super) fn reference(&self) -> bool {
        // The thread that dropped the last reference is about to destroy it.
        let add = |refs| (refs != DEAD).then_some(refs + 1);
        self.refs.fetch_update(SeqCst, SeqCst, add).is_ok()
    }

    /// Other threads may destroy the entry from then on. Returns 0 if it is live without references, [`DEAD`] if the
    /// caller must destroy it.
    ///
    /// # Safety
    /// The caller has a reference, and does not use it afterwards.
    #[inline]
    pub(super) unsafe fn release(entry: NonNull<Self>) -> u64 {
        // SAFETY: the caller's reference keeps the entry until this ends.
        unsafe { &(*entry.as_ptr()).refs }.fetch_sub(1, SeqCst) - 1
    }

    /// True if it has no reference. The shard's lock must be held.
    pub(super) fn kill(&self) -> bool {
        self.refs.fetch_or(DEAD, SeqCst) == 0
    }
}

pub(super) struct EntryRoom<'m, P> {
    block: NonNull<CacheEntry<P>>,
    memory: &'m ContextHandle,
}

impl<'m, P> EntryRoom<'m, P> {
    pub(super) fn new(memory: &'m ContextHandle) -> Result<Self, HostError> {
        let block = memory.try_allocate(Layout::new::<CacheEntry<P>>(), Scope::Cache)?;
        Ok(Self { block: block.cast(), memory })
    }

    pub(super) fn fill(self, entry: CacheEntry<P>) -> NonNull<CacheEntry<P>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: a block of this layout, which only this value owns.
        unsafe { this.block.write(entry) };
        this.block
    }
}

impl<P> Drop for EntryRoom<'_, P> {
    fn drop(&mut self) {
        // SAFETY: allocated by `memory` with this layout and scope; it has no value.
        unsafe { self.memory.deallocate(self.block.cast(), Layout::new::<CacheEntry<P>>(), Scope::Cache) };
    }
}

pub(super) struct DestroyList<P> {
    first: EntryLink<P>,
    pub(super) counts: RemovalCounts,
}

impl<P> DestroyList<P> {
    pub(super) const fn new() -> Self {
        Self { first: None, counts: RemovalCounts { destroyed: 0, held: 0 } }
    }

    /// # Safety
    /// The entry is in no list, nobody reaches it, and it is added once.
    pub(super) unsafe fn add(&mut self, entry: NonNull<CacheEntry<P>>) {
        // SAFETY: nobody else reaches the entry (`add`), which is not destroyed yet.
        unsafe { entry.as_ref() }.next.set(self.first.replace(entry));
    }

    pub(super) fn destroy(mut self) -> RemovalCounts {
        self.destroy_each();
        self.counts
    }

    fn destroy_each(&mut self) {
        while let Some(at) = self.first {
            // SAFETY: in this list alone.
            self.first = unsafe { at.as_ref() }.next.take();
            // SAFETY: in this list alone; its block is not read again.
            let entry = unsafe { at.read() };
            let owner = entry.owner.clone();
            // Freed also if the destructor unwinds.
            let _emptied = EntryRoom { block: at, memory: &owner.memory };
            drop(entry);
        }
    }
}

/// Goes on after a destructor that unwinds.
impl<P> Drop for DestroyList<P> {
    fn drop(&mut self) {
        self.destroy_each();
    }
}

/// A reference that borrows the cache: see [`CacheRef`].
pub type ShaderRef<'c, P, E> = CacheRef<P, E, &'c ShaderCache<P, E>>;

/// A reference that borrows nothing, and keeps the cache alive: see [`CacheRef`].
pub type WorkRef<P, E> = CacheRef<P, E, ShaderCache<P, E>>;

/// A reference to a compiled shader, which is not destroyed before it, even if its owner is released.
#[must_use = "dropping it says that the shader is not used any more"]
pub struct CacheRef<P, E, C: Borrow<ShaderCache<P, E>>> {
    /// Dropped after the reference is released, even if the shader's destructor unwinds.
    cache: C,
    entry: NonNull<CacheEntry<P>>,
    error: PhantomData<E>,
}

// SAFETY: the payload is `Send + Sync`; the rest of the entry is used under the lock.
unsafe impl<P: Send + Sync, E, C: Borrow<ShaderCache<P, E>> + Send> Send for CacheRef<P, E, C> {}
// SAFETY: the payload is `Send + Sync`; the rest of the entry is used under the lock.
unsafe impl<P: Send + Sync, E, C: Borrow<ShaderCache<P, E>> + Sync> Sync for CacheRef<P, E, C> {}

impl<P, E, C: Borrow<ShaderCache<P, E>>> CacheRef<P, E, C> {
    pub(super) const fn new(cache: C, entry: NonNull<CacheEntry<P>>) -> Self {
        Self { cache, entry, error: PhantomData }
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

impl<P, E> ShaderRef<'_, P, E> {
    /// Converts this to a reference that outlives the borrow, and keeps the cache alive.
    pub fn into_work_ref(self) -> WorkRef<P, E> {
        let this = ManuallyDrop::new(self);
        CacheRef::new(this.cache.clone(), this.entry)
    }
}

impl<P, E, C: Borrow<ShaderCache<P, E>>> Deref for CacheRef<P, E, C> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.entry().value
    }
}

impl<P, E, C: Borrow<ShaderCache<P, E>>> Drop for CacheRef<P, E, C> {
    #[inline]
    fn drop(&mut self) {
        self.cache.borrow().core().release(self.entry);
    }
}

impl<P: fmt::Debug, E, C: Borrow<ShaderCache<P, E>>> fmt::Debug for CacheRef<P, E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheRef").field(&**self).finish()
    }
}
