//! The cache's public interface.

use core::fmt;
use core::ptr::NonNull;

use alloc_core::{AllocError, ContextHandle, HostAllocator, HostError, Scope};

use super::block::OwnerWithContext;
use super::compile::{CompileRequest, CompiledShader};
use super::error::CacheError;
use super::key::{CacheDevice, ShaderKey};
use super::owner::OwnerSlot;
use super::persist::{StoreSink, StoreWriter, StoredShader, StoredShaders, WriteError};
use super::release::RemovalCounts;
use super::shader_ref::ShaderRef;
use super::state::CacheCore;
use crate::sync::Ordering::Relaxed;

/// Compiled shaders, shared by all contexts of a device, each allocated and freed in its owner's memory.
///
/// - A hit acquires no lock and writes nothing that other threads read. It returns a [reference](ShaderRef), which keeps the shader
///   unchanged.
/// - On a miss one thread compiles, without the lock; others wait for its result. Failures are not kept.
/// - The release of [an owner](CacheOwner) removes its entries; those still referenced are no longer found, and are destroyed with their
///   last reference. Other owners of the device compile them again.
/// - Above its limits the cache evicts unreferenced entries that were not used for long; referenced entries above the limits are evicted
///   when their references are released.
///
/// A value is a handle: clones share one cache, which is destroyed with the last handle, owner and [work reference](super::WorkRef). The
/// table and the entries lie in the memory given here, payloads in their owners'. `P`'s destructor runs without the lock, on the thread
/// that releases the last reference. All threads may use a cache at once.
///
/// ```
/// use alloc_core::{Context, ContextOptions, FromGlobalAlloc};
/// use gpu_suballoc::ShaderCache;
/// use gpu_suballoc::cache::{CacheDevice, CacheLimits, CompiledShader, ShaderKey};
///
/// static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let root = Context::root_static(&SYSTEM, ContextOptions::new("application"))?;
/// let (shared, mine) = (root.child("shader cache")?, root.child("my context")?);
///
/// let cache = ShaderCache::<String, ()>::new(shared.handle(), CacheLimits::NONE)?;
/// let device = CacheDevice::new_unique();
/// let owner = cache.owner(device, mine.handle())?;
/// let key = ShaderKey::kernel(device, 7);
/// let compile = || Ok(CompiledShader { value: "binary".to_owned(), bytes: 6 });
///
/// assert_eq!(**owner.get_or_compile(key, compile).expect("it compiles"), *"binary");
/// assert!(cache.get(key).is_some());
/// drop(owner);
/// assert!(cache.get(key).is_none());
/// # drop(cache);
/// # Ok::<(), alloc_core::HostError>(())
/// ```
pub struct ShaderCache<P: Send + Sync, E: Copy + Send + Sync> {
    core: NonNull<CacheCore<P, E>>,
}

// SAFETY: all shared state is atomic or locked; payloads are `Send + Sync`, and may be destroyed on any thread.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for ShaderCache<P, E> {}
// SAFETY: as above.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for ShaderCache<P, E> {}

/// Limits of a cache; above them, unreferenced entries are evicted. Referenced entries may exceed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum sum of [`CompiledShader::bytes`], including dead entries that are still referenced.
    pub bytes: u64,
    /// Maximum number of entries in the table.
    pub entries: u64,
}

impl CacheLimits {
    /// No limit: entries stay until their owner is released.
    pub const NONE: Self = Self {
        bytes: u64::MAX,
        entries: u64::MAX,
    };
}

impl<P: Send + Sync, E: Copy + Send + Sync> ShaderCache<P, E> {
    /// Creates an empty cache, whose own memory comes from this context.
    ///
    /// # Errors
    /// The context refused memory.
    pub fn new(memory: ContextHandle, limits: CacheLimits) -> Result<Self, HostError> {
        Ok(Self {
            core: CacheCore::new(memory, limits.bytes, limits.entries)?,
        })
    }

    /// Creates an owner of entries, whose payloads lie in this context.
    ///
    /// # Errors
    /// The cache's own context refused memory.
    pub fn owner(
        &self,
        device: CacheDevice,
        memory: ContextHandle,
    ) -> Result<CacheOwner<P, E>, HostError> {
        let core = self.core();
        loop {
            let mut writer = core.writer.lock();
            if let Some(slot) = core.owners.get(writer.free_owner) {
                let number = core::mem::replace(&mut writer.free_owner, slot.link.load(Relaxed));
                // SAFETY: the slot was free, and belongs to this owner from now on; the lock is held.
                unsafe { slot.set_memory(memory.clone()) };
                slot.begin(device);
                drop(writer);
                return Ok(CacheOwner {
                    cache: self.clone(),
                    number,
                    device,
                    memory,
                    released: false,
                });
            }
            drop(writer);
            let layout = core::alloc::Layout::new::<[OwnerWithContext; 64]>();
            let chunk = core
                .owners
                .chunk(&core.memory)
                .map_err(|AllocError| core.memory.refusal(layout, Scope::Cache))?;
            let mut writer = core.writer.lock();
            let added = core.owners.add(chunk);
            if let Ok(numbers) = &added {
                for number in numbers.clone().rev() {
                    if let Some(slot) = core.owners.get(number) {
                        slot.link.store(writer.free_owner, Relaxed);
                        writer.free_owner = number;
                    }
                }
            }
            drop(writer);
            added.map_or_else(|chunk| chunk.free(&core.memory), drop);
        }
    }

    /// The shader, if it is in the cache.
    #[inline]
    #[must_use]
    pub fn get(&self, key: ShaderKey) -> Option<ShaderRef<'_, P, E>> {
        let core = self.core();
        core.find(key, None)
            .map(|found| ShaderRef::new(core, found))
    }

    /// As [`get`](Self::get), for a shader that was compiled from these bytes, or whose bytes are unknown.
    #[inline]
    #[must_use]
    pub fn get_compiled_from(&self, key: ShaderKey, content: &[u8]) -> Option<ShaderRef<'_, P, E>> {
        let core = self.core();
        core.find(key, Some(content))
            .map(|found| ShaderRef::new(core, found))
    }

    /// Writes the shaders of a device to a file. `binary` returns the bytes to write for a shader, or `None` to omit it. It is called
    /// without the lock, with the shader referenced.
    ///
    /// # Errors
    /// The sink's error. The file must not be used then.
    pub fn save<S: StoreSink>(
        &self,
        device: CacheDevice,
        writer: &mut StoreWriter<'_, S>,
        mut binary: impl for<'p> FnMut(ShaderKey, &'p P) -> Option<&'p [u8]>,
    ) -> Result<(), WriteError<S::Error>> {
        self.core().each(|hold| {
            let key = hold.key();
            let binary = if key.device() == device {
                binary(key, hold)
            } else {
                None
            };
            binary.map_or(Ok(()), |binary| writer.add(key, hold.content(), binary))
        })
    }

    /// Removes the shaders that `unwanted` selects, of all owners. It is called without the lock, with the shader referenced.
    pub fn delete_where(&self, unwanted: impl FnMut(ShaderKey, &P) -> bool) -> RemovalCounts {
        self.core().delete_where(unwanted)
    }

    /// Removes all entries of a device that will be destroyed, of all owners, and keeps shaders that are being compiled for it out of the
    /// table. All references to them must be dropped before the device is destroyed.
    pub fn release_device(&self, device: CacheDevice) -> RemovalCounts {
        self.core().release_device(device)
    }

    /// Changes the limits, and evicts entries above them.
    pub fn set_limits(&self, limits: CacheLimits) {
        let core = self.core();
        let mut writer = core.writer.lock();
        (writer.max_bytes, writer.max_entries) = (limits.bytes, limits.entries);
        drop(writer);
        core.evict();
    }

    /// The cache's counts at this moment; exact while nothing changes.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let core = self.core();
        let writer = core.writer.lock();
        CacheStats {
            entries: writer.live,
            bytes: writer.bytes,
            dead: writer.dead,
            compiling: writer.leads,
            compiled: writer.compiled,
            failed: writer.failed,
            joined: writer.joined,
            evicted: writer.evicted,
            hits: core.records.hits(),
            refs: core.records.count() as u64,
        }
    }

    /// The sums of all owners of a device.
    #[must_use]
    pub fn device_stats(&self, device: CacheDevice) -> OwnerStats {
        let core = self.core();
        let _held = core.writer.lock();
        let mut sum = OwnerStats::default();
        for slot in (0..core.owners.count()).filter_map(|number| core.owners.get(number)) {
            if slot.state.load(Relaxed) != 0 && slot.is_of(device) {
                sum = sum.plus(slot.stats());
            }
        }
        sum
    }

    /// Creates another handle.
    pub(super) fn of(core: &CacheCore<P, E>) -> Self {
        core.add_keeper();
        Self { core: core.block }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.core == other.core
    }

    /// # Safety
    /// No other reference to the core may exist or be created while this one lives.
    pub(super) unsafe fn core_mut(&mut self) -> &mut CacheCore<P, E> {
        // SAFETY: this handle keeps it; the caller excludes other references.
        unsafe { self.core.as_mut() }
    }

    pub(super) fn core(&self) -> &CacheCore<P, E> {
        // SAFETY: this handle keeps it.
        unsafe { self.core.as_ref() }
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Clone for ShaderCache<P, E> {
    fn clone(&self) -> Self {
        Self::of(self.core())
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for ShaderCache<P, E> {
    fn drop(&mut self) {
        // SAFETY: this handle is one of the keepers, and does not use it afterwards.
        unsafe { CacheCore::release_keeper(self.core) };
    }
}

/// A user of the cache that compiles: it owns the entries that it compiles, and they lie in its memory and are removed with it.
///
/// Dropping it releases the entries. Keeps the cache alive.
pub struct CacheOwner<P: Send + Sync, E: Copy + Send + Sync> {
    cache: ShaderCache<P, E>,
    number: u32,
    device: CacheDevice,
    memory: ContextHandle,
    /// If true, the slot may belong to another owner.
    released: bool,
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheOwner<P, E> {
    /// The shader: found, or compiled by this thread, or by another thread that already compiles it.
    ///
    /// `compile` runs at most once, without the lock; it may request other shaders from this cache. If it unwinds, waiting threads
    /// continue, and one of them compiles.
    ///
    /// # Errors
    /// [`CacheError::Compile`] with the compiler's error, from this thread or the one that it waited for; [`CacheError::Host`] if the
    /// owner's or the cache's context refuses memory, before anything is compiled; [`CacheError::Recursive`]; [`CacheError::OtherDevice`].
    pub fn get_or_compile(
        &self,
        key: ShaderKey,
        compile: impl FnOnce() -> Result<CompiledShader<P>, E>,
    ) -> Result<ShaderRef<'_, P, E>, CacheError<E>> {
        self.compile_checked(key, None, compile)
    }

    /// As [`get_or_compile`](Self::get_or_compile), but compares the bytes that the shader is compiled from too: two contents with one key
    /// are two shaders. The owner's memory keeps a copy of them.
    ///
    /// # Errors
    /// As [`get_or_compile`](Self::get_or_compile).
    pub fn get_or_compile_from(
        &self,
        key: ShaderKey,
        content: &[u8],
        compile: impl FnOnce() -> Result<CompiledShader<P>, E>,
    ) -> Result<ShaderRef<'_, P, E>, CacheError<E>> {
        self.compile_checked(key, Some(content), compile)
    }

    #[inline]
    fn compile_checked(
        &self,
        key: ShaderKey,
        content: Option<&[u8]>,
        compile: impl FnOnce() -> Result<CompiledShader<P>, E>,
    ) -> Result<ShaderRef<'_, P, E>, CacheError<E>> {
        if key.device() != self.device {
            return Err(CacheError::OtherDevice);
        }
        let core = self.cache.core();
        let found = match core.find(key, content) {
            Some(found) => found,
            None => core.compile(
                &CompileRequest {
                    key,
                    content,
                    owner: self.number,
                    memory: &self.memory,
                },
                compile,
            )?,
        };
        Ok(ShaderRef::new(core, found))
    }

    /// Adds the shaders of a file; returns how many of them are in the cache now. `load` creates a shader from its binary.
    ///
    /// # Errors
    /// As [`get_or_compile`](Self::get_or_compile), for the first shader that fails; those before it stay.
    pub fn restore(
        &self,
        file: &StoredShaders<'_>,
        mut load: impl FnMut(ShaderKey, &[u8]) -> Result<CompiledShader<P>, E>,
    ) -> Result<u64, CacheError<E>> {
        let mut count = 0;
        for StoredShader {
            key,
            content,
            binary,
        } in file.iter(self.device)
        {
            drop(self.compile_checked(key, content, || load(key, binary))?);
            count += 1;
        }
        Ok(count)
    }

    /// Removes all of its entries. Lookups no longer find those that are referenced; their last reference destroys them.
    pub fn release(mut self) -> RemovalCounts {
        self.released = true;
        self.cache.core().release_owner(self.number, &self.memory)
    }

    /// As [`release`](Self::release), if no entry is referenced or being compiled: destroys either all entries before it returns, or none.
    /// Concurrent lookups of these shaders wait for the decision, and then acquire the shader or miss.
    ///
    /// # Errors
    /// The owner, unchanged, and the number of shaders in use.
    pub fn release_unused(mut self) -> Result<RemovalCounts, (Self, u64)> {
        // Before any destructor runs, because a destructor may unwind.
        self.released = true;
        let core = self.cache.core();
        match core.release_owner_unused(self.number, &self.memory) {
            Ok(removed) => Ok(removed),
            Err(held) => {
                self.released = false;
                Err((self, held))
            }
        }
    }

    /// The keys of its referenced shaders at this moment, each once. Allocates nothing.
    pub fn held_keys(&self) -> impl Iterator<Item = ShaderKey> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let (key, next) = self.cache.core().next_held(self.number, from)?;
            from = next;
            Some(key)
        })
    }

    /// Number of its shaders that are referenced or being compiled, at this moment.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.cache.core().held_of(self.number)
    }

    /// Its counts at this moment.
    #[must_use]
    pub fn stats(&self) -> OwnerStats {
        let core = self.cache.core();
        let _held = core.writer.lock();
        core.owners
            .get(self.number)
            .map(|slot| slot.stats())
            .unwrap_or_default()
    }

    /// The cache.
    #[must_use]
    pub const fn cache(&self) -> &ShaderCache<P, E> {
        &self.cache
    }

    /// The device of its entries.
    #[must_use]
    pub const fn device(&self) -> CacheDevice {
        self.device
    }

    /// The context of its payloads.
    #[must_use]
    pub const fn memory(&self) -> &ContextHandle {
        &self.memory
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for CacheOwner<P, E> {
    fn drop(&mut self) {
        if !self.released {
            let core = self.cache.core();
            core.release_owner(self.number, &self.memory);
        }
    }
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
    /// Hits by threads that have a record.
    pub hits: u64,
    /// References in records; those that are counted in their entry are not included.
    pub refs: u64,
}

/// Counts of an owner, or of all owners of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerStats {
    /// Entries in the table.
    pub entries: u64,
    /// Bytes of all entries, including dead ones.
    pub bytes: u64,
    /// Entries removed from the table that are still referenced.
    pub dead: u64,
    /// Compiles that succeeded so far.
    pub compiled: u64,
}

impl OwnerStats {
    const fn plus(self, other: Self) -> Self {
        Self {
            entries: self.entries.wrapping_add(other.entries),
            bytes: self.bytes.wrapping_add(other.bytes),
            dead: self.dead.wrapping_add(other.dead),
            compiled: self.compiled.wrapping_add(other.compiled),
        }
    }
}

impl OwnerSlot {
    fn stats(&self) -> OwnerStats {
        OwnerStats {
            entries: self.entries.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            dead: self.zombies.load(Relaxed),
            compiled: self.compiled.load(Relaxed),
        }
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> fmt::Debug for ShaderCache<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShaderCache").field(&self.stats()).finish()
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> fmt::Debug for CacheOwner<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheOwner")
            .field("memory", &self.memory.name())
            .field("stats", &self.stats())
            .finish()
    }
}
