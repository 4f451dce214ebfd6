use super::entry::{CacheEntry, DestroyList, ShaderRef};
use super::key::{CacheDevice, ShaderKey};
use super::owner::CacheOwner;
use super::persist::{StoreSink, StoreWriter};
use super::shard::Core;
use crate::shared_box::SharedBox;
use alloc_core::{ContextHandle, HostError};
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::SeqCst;

/// Compiled shaders, shared by all contexts of a device, each allocated and freed in its owner's memory.
///
/// - A hit returns a [reference](ShaderRef), which keeps the shader unchanged.
/// - On a miss one thread compiles; others wait for its result. Failures are not kept.
/// - The release of [an owner](CacheOwner) removes its entries; those still referenced are destroyed with their last
///   reference.
/// - Above its limits the cache evicts unreferenced entries that were not used for long.
///
/// Clones share one cache, which is destroyed with the last of them, owner and [work reference](super::WorkRef). `P`'s
/// destructor runs without a lock, on the thread that releases the last reference. All threads may use a cache at once,
/// if `P` is `Send` and `Sync` and `E` is `Send`; one of other values stays on its thread:
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<gpu_suballoc::ShaderCache<std::rc::Rc<u8>, ()>>();
/// ```
pub struct ShaderCache<P, E>(SharedBox<Core<P, E>>);

/// Limits of a cache; above them, unreferenced entries are evicted. Referenced entries may exceed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum sum of [`CompiledShader::bytes`](super::CompiledShader::bytes), including dead entries that are still
    /// referenced.
    pub bytes: u64,
    /// Maximum number of entries in the table.
    pub entries: u64,
}

impl CacheLimits {
    /// No limit: entries stay until their owner is released.
    pub const NONE: Self = Self { bytes: u64::MAX, entries: u64::MAX };
}

/// Numbers of removed entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemovalCounts {
    /// Already destroyed.
    pub destroyed: u64,
    /// Removed from the table; destroyed when their last reference is dropped.
    pub held: u64,
}

/// Counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Entries in the table.
    pub entries: u64,
    /// Bytes of all entries, including dead ones.
    pub bytes: u64,
    /// Entries removed from the table that are still referenced.
    pub dead: u64,
    /// Compiles in flight.
    pub compiling: u64,
    /// Compiles that succeeded so far.
    pub compiled: u64,
    /// Compiles that failed.
    pub failed: u64,
    /// Waits of a thread for another thread's compile.
    pub joined: u64,
    /// Entries evicted because of a limit.
    pub evicted: u64,
    /// Lookups that found their shader.
    pub hits: u64,
}

impl<P, E> ShaderCache<P, E> {
    /// Creates an empty cache, whose own memory comes from this context.
    ///
    /// # Errors
    /// The context refused memory.
    pub fn new(memory: ContextHandle, limits: CacheLimits) -> Result<Self, HostError> {
        SharedBox::new(Core::new(memory.clone(), limits), memory).map(Self)
    }

    /// Creates an owner of entries, whose payloads lie in this context.
    ///
    /// # Errors
    /// The cache's own context refused memory.
    pub fn owner(&self, device: CacheDevice, memory: ContextHandle) -> Result<CacheOwner<P, E>, HostError> {
        CacheOwner::new(self.clone(), device, memory)
    }

    /// The shader, if it is in the cache.
    #[inline]
    #[must_use]
    pub fn get(&self, key: ShaderKey) -> Option<ShaderRef<'_, P, E>> {
        let mut shard = self.core().shard(key).lock();
        let found = self.reference(shard.find(key)?);
        shard.hits += 1;
        Some(found)
    }

    /// The entry is live, and the lock of its shard is held.
    #[inline]
    pub(super) fn reference(&self, entry: &CacheEntry<P>) -> ShaderRef<'_, P, E> {
        entry.touched.set(true);
        entry.reference_live();
        ShaderRef::new(self, NonNull::from(entry))
    }

    pub(super) fn core(&self) -> &Core<P, E> {
        &self.0
    }

    /// Writes the shaders of a device to a file. `binary` returns the bytes of a shader, or `None` to omit it; it is
    /// called without a lock.
    ///
    /// # Errors
    /// The sink's error. The file must not be used then.
    pub fn save<S: StoreSink>(
        &self,
        device: CacheDevice,
        writer: &mut StoreWriter<'_, S>,
        mut binary: impl for<'p> FnMut(ShaderKey, &'p P) -> Option<&'p [u8]>,
    ) -> Result<(), S::Error> {
        let mut cursor = Cursor::new(self);
        let is_saved = |entry: &CacheEntry<P>| entry.is_live() && entry.key.device() == device;
        while let Some(held) = cursor.advance(is_saved) {
            if let Some(binary) = binary(held.key(), held) {
                writer.add(held.key(), binary)?;
            }
        }
        Ok(())
    }

    /// Removes the shaders that `unwanted` selects, of all owners. It is called without a lock.
    pub fn delete_where(&self, mut unwanted: impl FnMut(ShaderKey, &P) -> bool) -> RemovalCounts {
        let core = self.core();
        let mut counts = RemovalCounts::default();
        let mut cursor = Cursor::new(self);
        while let Some(held) = cursor.advance(CacheEntry::is_live) {
            if !unwanted(held.key(), held) {
                continue;
            }
            let mut shard = core.shard(held.key()).lock();
            if held.entry().is_live() {
                // The cursor's reference keeps it: nothing is destroyed here.
                core.remove(&mut shard, held.pointer(), &mut DestroyList::new());
                let is_held = held.entry().references() > 1;
                counts.held += u64::from(is_held);
                counts.destroyed += u64::from(!is_held);
            }
        }
        counts
    }

    /// Removes all entries of a device that will be destroyed, also those that are being compiled. All references to
    /// them must be dropped before that.
    pub fn release_device(&self, device: CacheDevice) -> RemovalCounts {
        let mut going = DestroyList::new();
        for shard in self.core().shards() {
            let mut shard = shard.lock();
            let is_of_device = |entry: &CacheEntry<P>| entry.key.device() == device;
            self.core().remove_where(&mut shard, &mut going, is_of_device);
            let compiles = shard.compiles();
            let compiles = compiles.filter(|compile| compile.key.device() == device);
            compiles.for_each(|compile| compile.is_released.set(true));
        }
        going.destroy()
    }

    /// Changes the limits, and evicts entries above them.
    pub fn set_limits(&self, limits: CacheLimits) {
        self.core().set_limits(limits);
        self.core().evict();
    }

    /// The cache's counts at this moment; exact while nothing changes.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let mut sum = CacheStats { bytes: self.core().bytes.load(SeqCst), ..CacheStats::default() };
        for shard in self.core().shards() {
            let shard = shard.lock();
            let stats = shard.stats;
            sum.entries += stats.entries;
            sum.dead += stats.dead;
            sum.compiling += stats.compiling;
            sum.compiled += stats.compiled;
            sum.failed += stats.failed;
            sum.joined += stats.joined;
            sum.evicted += stats.evicted;
            sum.hits += shard.hits;
        }
        sum
    }

    /// Frees memory of the cache's own context that the present shaders do not need. Returns the number of bytes.
    pub fn trim(&self) -> u64 {
        let shards = self.core().shards();
        shards.map(|shard| self.core().shrink(shard)).sum()
    }
}

/// It keeps the current entry referenced, and so in its list.
pub(super) struct Cursor<'c, P, E> {
    cache: &'c ShaderCache<P, E>,
    shard: usize,
    current: Option<ShaderRef<'c, P, E>>,
}

impl<'c, P, E> Cursor<'c, P, E> {
    pub(super) const fn new(cache: &'c ShaderCache<P, E>) -> Self {
        Self { cache, shard: 0, current: None }
    }

    pub(super) fn advance(&mut self, which: impl Fn(&CacheEntry<P>) -> bool) -> Option<&ShaderRef<'c, P, E>> {
        loop {
            let shard = self.cache.core().shards().nth(self.shard)?.lock();
            let is_next = |entry: &&CacheEntry<P>| which(entry) && entry.reference();
            let found = match &self.current {
                Some(current) => shard.entries_after(current.entry()).find(is_next),
                None => shard.entries().find(is_next),
            };
            let found = found.map(NonNull::from);
            drop(shard);
            // Without the lock: the former one may be destroyed by this.
            self.current = found.map(|entry| ShaderRef::new(self.cache, entry));
            if self.current.is_some() {
                return self.current.as_ref();
            }
            self.shard += 1;
        }
    }
}

impl<P, E> Clone for ShaderCache<P, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P, E> fmt::Debug for ShaderCache<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShaderCache").field(&self.stats()).finish()
    }
}

/// Why a call failed; the cache is unchanged. `E` is the compiler's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError<E> {
    /// The compiler failed.
    Compile(E),
    /// No host memory for an entry or the table. Not a usage error.
    Host(HostError),
    /// Compiling this key requested this key again, on the same thread or through other threads' compiles and waits.
    /// The caller's error. Without feature `std` such a call waits for ever.
    Recursive,
    /// The owner is for another device than the key. The caller's error.
    OtherDevice,
}

impl<E> From<HostError> for CacheError<E> {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl<E: fmt::Display> fmt::Display for CacheError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(error) => write!(f, "the shader was not compiled: {error}"),
            Self::Host(error) => error.fmt(f),
            Self::Recursive => {
                f.write_str("compiling a shader requested that shader: request it before, or another one")
            }
            Self::OtherDevice => {
                f.write_str("the key is of another device than its owner: make keys with the owner's device")
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for CacheError<E> {}
