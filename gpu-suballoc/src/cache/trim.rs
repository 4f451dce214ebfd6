//! Frees unused memory of the cache itself.
//!
//! Readers acquire no lock, so a table or a chunk may be freed only if no thread can be reading: when the caller has exclusive access to
//! every handle and owner.

use core::ptr::NonNull;

use alloc_core::ContextHandle;

use super::block::{DetailedEntry, OwnerWithContext};
use super::entry::{FREE, ShaderHeader};
use super::segments::{NONE, Zeroed, ZeroedSegments};
use super::shader_cache::{CacheOwner, ShaderCache};
use super::state::CacheCore;
use super::table::NewTable;
use crate::sync::Ordering::{Acquire, Relaxed};

impl<P: Send + Sync, E: Copy + Send + Sync> ShaderCache<P, E> {
    /// Frees memory of the cache's own context that the present shaders do not need: tables of earlier sizes, unused entries, compiles and
    /// owner slots. Returns the number of bytes freed; `None`, and frees nothing, while there are other handles, owners not in `owners`, or
    /// work references, because their threads may be reading. Owners of other caches are not counted.
    ///
    /// Allocates a smaller table first; if that fails, the table stays as it is.
    pub fn trim(&mut self, owners: &mut [&mut CacheOwner<P, E>]) -> Option<u64> {
        let mine = owners
            .iter()
            .filter(|owner| owner.cache().is_same(self))
            .count();
        // Acquire: what released keepers did with the cache happens before what follows.
        let keepers = self.core().keepers.load(Acquire);
        if keepers.checked_sub(1)? != mine as u64 {
            return None;
        }
        // SAFETY: every keeper is this handle or one of the owners, which are all borrowed exclusively until this returns: no other
        // reference to the core exists or is created meanwhile.
        let core = unsafe { self.core_mut() };
        Some(core.trim())
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    /// Frees unused memory; returns the number of bytes. `&mut` excludes readers.
    fn trim(&mut self) -> u64 {
        let memory = self.memory.clone();
        let mut freed = self.shrink_table(&memory);
        let mut writer = self.writer.lock();
        if writer.running == NONE {
            writer.free_compile = NONE;
        }
        let no_compiles = writer.running == NONE;
        drop(writer);
        freed += pop_unused(&mut self.compiles, &memory, |_| no_compiles);
        freed += pop_unused(&mut self.entries, &memory, |entry| {
            entry.state.load(Relaxed) == FREE
        });
        freed += pop_unused(&mut self.owners, &memory, |slot| {
            slot.state.load(Relaxed) == 0
        });
        self.relink_free();
        freed
    }

    /// Shrinks the table to the live entries, or removes it if there are none; frees all others.
    fn shrink_table(&mut self, memory: &ContextHandle) -> u64 {
        let live = usize::try_from(self.writer.lock().live).unwrap_or(usize::MAX);
        let mut freed = 0u64;
        if live > 0 {
            let fresh = self
                .tables
                .smaller_size(live)
                .and_then(|buckets| NewTable::new(memory, buckets).ok());
            if let Some(fresh) = fresh {
                freed = freed.wrapping_sub(fresh.bytes());
                // SAFETY: blocks in the newest table are live, and `&mut` excludes other threads.
                let hash = |block: NonNull<ShaderHeader>| unsafe { block.as_ref() }.key.hash();
                self.tables.shrink(fresh, hash);
            }
        }
        while let Some(table) = if live > 0 {
            self.tables.pop_older()
        } else {
            self.tables.pop_table()
        } {
            freed = freed.wrapping_add(table.bytes());
            table.free(memory);
        }
        freed
    }

    /// Rebuilds the lists of free entries and owners from the remaining chunks.
    fn relink_free(&mut self) {
        let mut writer = self.writer.lock();
        writer.hand = 0;
        writer.free_entry = NONE;
        for number in (0..self.entries.count()).rev() {
            let is_free = |entry: &&DetailedEntry| entry.state.load(Relaxed) == FREE;
            if self.entries.get(number).filter(is_free).is_some() {
                self.push_entry(&mut writer, number);
            }
        }
        writer.free_owner = NONE;
        for number in (0..self.owners.count()).rev() {
            let is_free = |slot: &&OwnerWithContext| slot.state.load(Relaxed) == 0;
            if let Some(slot) = self.owners.get(number).filter(is_free) {
                slot.link.store(writer.free_owner, Relaxed);
                writer.free_owner = number;
            }
        }
    }
}

/// Frees the last chunks while all of their values are unused.
fn pop_unused<T: Zeroed>(
    segments: &mut ZeroedSegments<T>,
    memory: &ContextHandle,
    is_unused: impl Fn(&T) -> bool,
) -> u64 {
    let mut freed = 0;
    while let Some(numbers) = segments.last_chunk() {
        let unused = numbers
            .into_iter()
            .all(|number| segments.get(number).is_none_or(&is_unused));
        if !unused {
            break;
        }
        let Some(chunk) = segments.pop_chunk() else {
            break;
        };
        freed += chunk.bytes();
        chunk.free(memory);
    }
    freed
}
