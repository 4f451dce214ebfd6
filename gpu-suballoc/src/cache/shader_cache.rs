//! The cache as its users see it.

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
/// - A hit takes no lock and writes nothing that other threads read. What is found is [held](ShaderRef): it stays as it is until it is let go.
/// - A miss compiles once, however many threads ask, and holds no lock meanwhile. What fails is not kept.
/// - [An owner](CacheOwner) takes its own entries along when it goes; those that are held then are found by nobody, and go with their last
///   hold. Others on the device compile anew.
/// - Above its limits the cache evicts unreferenced entries that were not used for long; what stays above them because it is held goes when
///   its hold is let go.
///
/// A value is a handle: clones lead to one cache, which goes with the last handle, owner and [work hold](super::WorkRef). The table and
/// the entries lie in the memory given here, payloads in their owners'. `P`'s destructor runs with no lock held, on the thread that lets go
/// last. Usable from all threads at once.
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

// SAFETY: all that is shared is atomic or locked; payloads are `Send + Sync`, and may be destroyed on any thread.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Send for ShaderCache<P, E> {}
// SAFETY: as above.
unsafe impl<P: Send + Sync, E: Copy + Send + Sync> Sync for ShaderCache<P, E> {}

/// Limits of a cache; above them, unreferenced entries are evicted. Referenced entries may exceed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Sum of [`CompiledShader::bytes`], of those that are dead and still held too.
    pub bytes: u64,
    /// Entries that can be found.
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
    /// An empty cache, whose own memory is the context's.
    ///
    /// # Errors
    /// The context's refusal.
    pub fn new(memory: ContextHandle, limits: CacheLimits) -> Result<Self, HostError> {
        Ok(Self {
            core: CacheCore::new(memory, limits.bytes, limits.entries)?,
        })
    }

    /// Somebody whose entries go when it goes, and whose context their payloads lie in.
    ///
    /// # Errors
    /// The refusal of the cache's own context.
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
                // SAFETY: it was free, and is this owner's from now on; the lock is held.
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

    /// The shader, if it is there.
    #[inline]
    #[must_use]
    pub fn get(&self, key: ShaderKey) -> Option<ShaderRef<'_, P, E>> {
        let core = self.core();
        core.find(key, None)
            .map(|found| ShaderRef::new(core, found))
    }

    /// As [`get`](Self::get), of those that were compiled from these bytes, or that do not say from which.
    #[inline]
    #[must_use]
    pub fn get_compiled_from(&self, key: ShaderKey, content: &[u8]) -> Option<ShaderRef<'_, P, E>> {
        let core = self.core();
        core.find(key, Some(content))
            .map(|found| ShaderRef::new(core, found))
    }

    /// Writes the shaders of a device into a file. `binary` says what is written of each; `None` leaves it out. It is called with no lock
    /// held, each shader held meanwhile.
    ///
    /// # Errors
    /// The sink's. The file is not to be used then.
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

    /// Takes out what `unwanted` says, of all owners. It is called with no lock held, each shader held meanwhile.
    pub fn delete_where(&self, unwanted: impl FnMut(ShaderKey, &P) -> bool) -> RemovalCounts {
        self.core().delete_where(unwanted)
    }

    /// The device is about to be destroyed: all of its entries are taken out, whoever owns them, and what is being compiled for it will be
    /// found by nobody. Those that are held must be let go before the device goes.
    pub fn release_device(&self, device: CacheDevice) -> RemovalCounts {
        self.core().release_device(device)
    }

    /// Other limits from now on.
    pub fn set_limits(&self, limits: CacheLimits) {
        let core = self.core();
        let mut writer = core.writer.lock();
        (writer.max_bytes, writer.max_entries) = (limits.bytes, limits.entries);
        drop(writer);
        core.evict();
    }

    /// What is in it, as of now; exact while nothing changes.
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

    /// What the owners of a device have in it, together.
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

    /// A further handle.
    pub(super) fn of(core: &CacheCore<P, E>) -> Self {
        core.add_keeper();
        Self { core: core.block }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.core == other.core
    }

    /// # Safety
    /// Nobody else has a reference to the core, or gets one while this one lives.
    pub(super) unsafe fn core_mut(&mut self) -> &mut CacheCore<P, E> {
        // SAFETY: this handle keeps it; the caller says that nobody else looks.
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
        // SAFETY: one of its keepers, which uses it no more.
        unsafe { CacheCore::release_keeper(self.core) };
    }
}

/// One of those that compile: entries that it makes are its own, lie in its memory, and go with it.
///
/// Dropping it releases them. Keeps the cache.
pub struct CacheOwner<P: Send + Sync, E: Copy + Send + Sync> {
    cache: ShaderCache<P, E>,
    number: u32,
    device: CacheDevice,
    memory: ContextHandle,
    /// The slot may be another owner's by now.
    released: bool,
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheOwner<P, E> {
    /// The shader: found, or compiled by this thread, or by another one that is at it already.
    ///
    /// `compile` runs at most once, with no lock held, in nobody's way; it may ask this cache for other shaders. If it unwinds, those who
    /// wait go on, and one of them compiles.
    ///
    /// # Errors
    /// [`CacheError::Compile`] with the compiler's error, this thread's or the one that it waited for; [`CacheError::Host`] when the owner's
    /// context or the cache's refuses, before anything is compiled; [`CacheError::Recursive`]; [`CacheError::OtherDevice`].
    pub fn get_or_compile(
        &self,
        key: ShaderKey,
        compile: impl FnOnce() -> Result<CompiledShader<P>, E>,
    ) -> Result<ShaderRef<'_, P, E>, CacheError<E>> {
        self.compile_checked(key, None, compile)
    }

    /// As [`get_or_compile`](Self::get_or_compile), where the bytes that it is compiled from are compared too: two contents with one key
    /// are two shaders. A copy of them is kept, in the owner's memory.
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

    /// Compiles shaders of a file in advance; answers how many are there now. `load` makes one of its binary.
    ///
    /// # Errors
    /// As [`get_or_compile`](Self::get_or_compile), for the first that is refused; those before it stay.
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

    /// Takes all of its entries out. Those that are held are found by nobody from now on, and destroyed by their last hold.
    pub fn release(mut self) -> RemovalCounts {
        self.released = true;
        self.cache.core().release_owner(self.number, &self.memory)
    }

    /// As [`release`](Self::release), if none is held or being compiled: all are destroyed when it returns, or none. Who asks for one of them
    /// on another thread at that moment waits until this is decided, and holds it or finds it gone.
    ///
    /// # Errors
    /// The owner again, nothing changed, and how many are in use.
    pub fn release_unused(mut self) -> Result<RemovalCounts, (Self, u64)> {
        // Before destructors run, of which one may unwind.
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

    /// The keys of its shaders that are held, as of now; each once. Takes no memory.
    pub fn held_keys(&self) -> impl Iterator<Item = ShaderKey> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let (key, next) = self.cache.core().next_held(self.number, from)?;
            from = next;
            Some(key)
        })
    }

    /// How many of its shaders are held, or being compiled, as of now.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.cache.core().held_of(self.number)
    }

    /// What it has in the cache, as of now.
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

    /// The device that its entries are for.
    #[must_use]
    pub const fn device(&self) -> CacheDevice {
        self.device
    }

    /// The context that their payloads lie in.
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

/// What is in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Entries that can be found.
    pub entries: u64,
    /// Bytes of all that are there.
    pub bytes: u64,
    /// Entries removed from the table that are still referenced.
    pub dead: u64,
    /// Being compiled.
    pub compiling: u64,
    /// Compiled so far.
    pub compiled: u64,
    /// Compiles that failed.
    pub failed: u64,
    /// Times that a thread waited for another one's compile.
    pub joined: u64,
    /// Entries that went because of a limit.
    pub evicted: u64,
    /// Times that a shader was found, by threads that have a record.
    pub hits: u64,
    /// Holds in records of threads; those that count in their entry are not among them.
    pub refs: u64,
}

/// What an owner, or all owners of a device, have in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerStats {
    /// Entries that can be found.
    pub entries: u64,
    /// Bytes of all that are there.
    pub bytes: u64,
    /// Entries removed from the table that are still referenced.
    pub dead: u64,
    /// Compiled so far.
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
