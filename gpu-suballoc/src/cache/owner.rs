use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use alloc_core::{ContextHandle, HostError};

use super::compile::CompiledShader;
use super::entry::{CacheEntry, DestroyList, ShaderRef};
use super::key::{CacheDevice, ShaderKey};
use super::persist::StoredShaders;
use super::shader_cache::{CacheError, Cursor, RemovalCounts, ShaderCache};
use crate::shared_box::SharedBox;

pub(super) struct Owner {
    device: CacheDevice,
    pub(super) memory: ContextHandle,
    pub(super) compiled: AtomicU64,
}

/// Counts of an owner.
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

/// What became of a file's shaders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreCounts {
    /// In the cache now.
    pub restored: u64,
    /// Whose binary the loader refused.
    pub refused: u64,
}

/// Compiles, and owns the entries that it compiles: they lie in its memory and are removed with it.
///
/// Dropping it releases the entries. Keeps the cache alive.
pub struct CacheOwner<P, E> {
    pub(super) owner: SharedBox<Owner>,
    pub(super) cache: ShaderCache<P, E>,
    is_released: bool,
}

impl<P, E> CacheOwner<P, E> {
    pub(super) fn new(cache: ShaderCache<P, E>, device: CacheDevice, memory: ContextHandle) -> Result<Self, HostError> {
        let owner = Owner { device, memory, compiled: AtomicU64::new(0) };
        let owner = SharedBox::new(owner, cache.core().memory.clone())?;
        Ok(Self { owner, cache, is_released: false })
    }

    /// Adds the shaders of a file. `load` creates a shader from its binary; one that it refuses is counted.
    ///
    /// # Errors
    /// As [`get_or_compile`](Self::get_or_compile), without [`CacheError::Compile`]; what was added stays.
    pub fn restore(
        &self,
        file: &StoredShaders<'_>,
        mut load: impl FnMut(ShaderKey, &[u8]) -> Result<CompiledShader<P>, E>,
    ) -> Result<RestoreCounts, CacheError<E>>
    where
        E: Copy,
    {
        let mut counts = RestoreCounts::default();
        for shader in file.iter(self.device()) {
            let (key, binary) = (shader.key, shader.binary);
            match self.get_or_compile(key, || load(key, binary)) {
                Ok(_) => counts.restored += 1,
                Err(CacheError::Compile(_)) => counts.refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(counts)
    }

    /// Removes all of its entries. Lookups no longer find those that are referenced; their last reference destroys
    /// them.
    pub fn release(mut self) -> RemovalCounts {
        self.release_all()
    }

    /// As [`release`](Self::release), if no entry is referenced: destroys all entries before it returns, or none.
    ///
    /// # Errors
    /// The owner, unchanged, and the number of shaders in use.
    pub fn release_unused(mut self) -> Result<RemovalCounts, (Self, u64)> {
        match self.try_release_unused() {
            Ok(removed) => Ok(removed),
            Err(in_use) => Err((self, in_use)),
        }
    }

    /// The caller drops the owner then.
    pub(crate) fn try_release_unused(&mut self) -> Result<RemovalCounts, u64> {
        let core = self.cache.core();
        let mut shards = core.lock_all();
        let in_use: u64 = shards.iter().map(|shard| shard.in_use(&self.owner)).sum();
        if in_use != 0 {
            return Err(in_use);
        }
        let mut going = DestroyList::new();
        for shard in &mut shards {
            core.remove_where(shard, &mut going, |entry| entry.is_owned_by(&self.owner));
        }
        drop(shards);
        // Before any destructor runs, because a destructor may unwind.
        self.is_released = true;
        core.free_empty();
        Ok(going.destroy())
    }

    /// The caller drops the owner then.
    pub(crate) fn release_all(&mut self) -> RemovalCounts {
        self.is_released = true;
        let core = self.cache.core();
        let mut going = DestroyList::new();
        for shard in core.shards() {
            core.remove_where(&mut shard.lock(), &mut going, |entry| entry.is_owned_by(&self.owner));
        }
        // With those that were removed before.
        going.counts.held = self.stats().dead;
        core.free_empty();
        going.destroy()
    }

    /// The keys of its referenced shaders, each once.
    pub fn held_keys(&self) -> impl Iterator<Item = ShaderKey> + '_ {
        let mut cursor = Cursor::new(&self.cache);
        core::iter::from_fn(move || {
            let is_held = |entry: &CacheEntry<P>| entry.is_owned_by(&self.owner) && entry.references() != 0;
            cursor.advance(is_held).map(ShaderRef::key)
        })
    }

    /// Number of its shaders that are referenced or being compiled, at this moment.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        let shards = self.cache.core().shards();
        shards.map(|shard| shard.lock().in_use(&self.owner)).sum()
    }

    /// Its counts at this moment; takes time for each shader of the cache.
    #[must_use]
    pub fn stats(&self) -> OwnerStats {
        let compiled = self.owner.compiled.load(Relaxed);
        let mut stats = OwnerStats { compiled, ..OwnerStats::default() };
        for shard in self.cache.core().shards() {
            let shard = shard.lock();
            for entry in shard.entries().filter(|entry| entry.is_owned_by(&self.owner)) {
                let is_live = entry.is_live();
                stats.entries += u64::from(is_live);
                stats.dead += u64::from(!is_live);
                stats.bytes += entry.bytes;
            }
        }
        stats
    }

    /// The cache.
    #[must_use]
    pub const fn cache(&self) -> &ShaderCache<P, E> {
        &self.cache
    }

    /// The device of its entries.
    #[must_use]
    pub fn device(&self) -> CacheDevice {
        self.owner.device
    }

    /// The context of its payloads.
    #[must_use]
    pub fn memory(&self) -> &ContextHandle {
        &self.owner.memory
    }
}

impl<P, E> Drop for CacheOwner<P, E> {
    fn drop(&mut self) {
        if !self.is_released {
            self.release_all();
        }
    }
}

impl<P, E> fmt::Debug for CacheOwner<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheOwner").field("memory", &self.memory().name()).field("stats", &self.stats()).finish()
    }
}
