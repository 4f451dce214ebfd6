//! A hash table in locked shards, in the checker's memory.
//!
//! ```text
//!   key --keyed hash--> hash   four bits in the middle: the shard (of a block: of its address), the others: hashbrown's
//!   shard: lock, HashTable [entry | gone entry | free ..], the number of promised places
//! ```
//!
//! Removal frees nothing: the entry stays as *gone* until its key comes again or the shard is rebuilt. No lock is held
//! while memory is allocated and freed: a full shard is moved into a table that was allocated meanwhile.
#![expect(
    clippy::disallowed_types,
    reason = "entries are found by hash and an equality that is no key, and room is allocated while no lock is held: TryMap has neither"
)]

use core::alloc::Layout;
use core::marker::PhantomData;
use core::mem;
use core::sync::atomic::{AtomicUsize, Ordering};

use alloc_core::support::StateMutex;
use alloc_core::{HostAllocator, HostError, Scoped};
use hashbrown::HashTable;

use crate::command::thread::enter_growth;
use crate::fence::fenced;
use crate::keyed_hash::HashKey;
use crate::pinned::{Memory, SCOPE};

const FIRST_ENTRIES: usize = 28;

pub(crate) trait TableEntry: Copy {
    fn key(&self) -> u64;
    /// What chooses the shard. The hash is the key's.
    #[inline]
    fn shard(&self, hash: u64) -> u64 {
        hash >> 32
    }
    /// Such entries have the same key.
    fn same(&self, other: &Self) -> bool;
    fn gone(&self) -> bool;
}

pub(crate) struct ShardedTable<'h, E: TableEntry, const SHARDS: usize = 16> {
    memory: PhantomData<Memory<'h>>,
    keeps_gone: bool,
    max_entries: usize,
    /// Keys come from a driver or a file, which must not know their places.
    hash_key: HashKey,
    /// How often entries moved: an iteration meanwhile may have missed some.
    moves: AtomicUsize,
    shards: [Shard<E>; SHARDS],
}

/// Two lines of a cache: processors fetch them in pairs.
#[repr(align(128))]
struct Shard<E>(StateMutex<ShardEntries<E>>);

/// Behind a lock the lifetime of the memory would make every checker invariant.
type Own = Scoped<&'static (dyn HostAllocator + Sync)>;

struct ShardEntries<E> {
    table: HashTable<E, Own>,
    promised: usize,
    /// It has its maximum, and nothing was shown to anybody since who might have removed it.
    full: bool,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    shard: usize,
    bucket: usize,
}

pub(crate) struct Promised<'a, 'h, E: TableEntry, const SHARDS: usize = 16>(&'a ShardedTable<'h, E, SHARDS>);

impl<'h, E: TableEntry, const SHARDS: usize> ShardedTable<'h, E, SHARDS> {
    pub(crate) fn new(memory: Memory<'h>, keeps_gone: bool, max_entries: usize) -> Self {
        // SAFETY: the lifetime alone changes; the table, which nobody copies the memory from, ends before `'h` does.
        let own = Scoped::new(unsafe { mem::transmute::<Memory<'h>, Memory<'static>>(memory) }, SCOPE);
        let shard =
            |_| Shard(StateMutex::new(ShardEntries { table: HashTable::new_in(own), promised: 0, full: false }));
        Self {
            memory: PhantomData,
            keeps_gone,
            max_entries,
            hash_key: HashKey::fresh(),
            moves: AtomicUsize::new(0),
            shards: core::array::from_fn(shard),
        }
    }

    /// Shows `look` the entry that is the same as `like`, gone or not.
    #[inline]
    pub(crate) fn with<R>(&self, like: &E, look: impl FnOnce(&mut E) -> R) -> Option<R> {
        let (hash, shard) = self.place_of(like);
        let mut entries = shard?.0.lock();
        entries.full = false;
        entries.table.find_mut(hash, |there| there.same(like)).map(look)
    }

    /// Shows `look` the entries of this key, gone or not, until it returns true. Their shard is that of the hash.
    pub(crate) fn among(&self, key: u64, mut look: impl FnMut(&mut E) -> bool) {
        let hash = self.hash_key.hash(key);
        if let Some(shard) = self.shards.get((hash >> 32) as usize % SHARDS) {
            let mut entries = shard.0.lock();
            entries.full = false;
            let _ = entries.table.iter_hash_mut(hash).any(|there| there.key() == key && look(there));
        }
    }

    /// Adds an entry, or shows `merge` the same one in the table.
    #[inline]
    pub(crate) fn put(&self, entry: E, merge: impl FnOnce(&mut E)) -> Result<(), HostError> {
        let (hash, shard) = self.place_of(&entry);
        let Some(shard) = shard else { return Ok(()) };
        let mut merge = merge;
        loop {
            match shard.0.lock().put(entry, merge, hash, 0) {
                Ok(()) => return Ok(()),
                Err(back) => merge = back,
            }
            self.make_room(shard)?;
        }
    }

    /// As [`put`](Self::put), in existing room. The second result is false if the shard is nearly full:
    /// [`make_ready`](Self::make_ready) should be called soon.
    pub(crate) fn put_within(&self, entry: E, merge: impl FnOnce(&mut E)) -> (bool, bool) {
        let (hash, shard) = self.place_of(&entry);
        let Some(shard) = shard else {
            return (false, true);
        };
        let mut entries = shard.0.lock();
        (entries.put(entry, merge, hash, 0).is_ok(), entries.is_roomy())
    }

    /// From here on the shard of an entry is the same in each process: how much room a run has must not depend on
    /// chance.
    pub(crate) fn reserve(&mut self, entries: usize) -> Result<(), HostError> {
        self.hash_key = HashKey::FIXED;
        for shard in &self.shards {
            let fresh = self.allocate(shard, entries)?;
            shard.0.lock().table = fresh;
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn make_ready(&self) {
        for shard in &self.shards {
            let is_roomy = shard.0.lock().is_roomy();
            if !is_roomy {
                let _ = self.make_room(shard);
            }
        }
    }

    /// Promises room for one entry in each shard: for an entry whose key is not known in advance.
    pub(crate) fn promise(&self) -> Result<Promised<'_, 'h, E, SHARDS>, HostError> {
        for (done, shard) in self.shards.iter().enumerate() {
            while !shard.0.lock().promise() {
                if let Err(refused) = self.make_room(shard) {
                    self.shards.iter().take(done).for_each(Shard::release);
                    return Err(refused);
                }
            }
        }
        Ok(Promised(self))
    }

    pub(crate) fn moves(&self) -> usize {
        self.moves.load(Ordering::Acquire)
    }

    /// What an entry stands for is in the table under another key from now on: an iteration may have missed both.
    pub(crate) fn entry_moved(&self) {
        self.moves.fetch_add(1, Ordering::Release);
    }

    /// Entries that are added or removed meanwhile may be missed. If [`moves`](Self::moves) changes, any entry may be
    /// missed or come twice.
    pub(crate) fn next(&self, cursor: &mut Cursor, mut pick: impl FnMut(&mut E) -> bool) -> Option<E> {
        while let Some(shard) = self.shards.get(cursor.shard) {
            let mut entries = shard.0.lock();
            entries.full = false;
            while cursor.bucket < entries.table.num_buckets() {
                let entry = entries.table.get_bucket_mut(cursor.bucket);
                cursor.bucket = cursor.bucket.saturating_add(1);
                if let Some(entry) = entry
                    && pick(entry)
                {
                    return Some(*entry);
                }
            }
            *cursor = Cursor { shard: cursor.shard.saturating_add(1), bucket: 0 };
        }
        None
    }

    pub(crate) fn count(&self) -> usize {
        let of_shard = |shard: &Shard<E>| shard.0.lock().kept(false);
        self.shards.iter().map(of_shard).sum()
    }

    #[inline]
    fn place_of(&self, entry: &E) -> (u64, Option<&Shard<E>>) {
        let hash = self.hash_key.hash(entry.key());
        (hash, self.shards.get(entry.shard(hash) as usize % SHARDS))
    }

    /// No lock is held while it allocates and frees.
    #[cold]
    fn make_room(&self, shard: &Shard<E>) -> Result<(), HostError> {
        let needed = {
            let mut entries = shard.0.lock();
            if entries.is_roomy() {
                return Ok(());
            }
            if entries.full {
                return Err(HostError::TooLarge);
            }
            let (needed, free) = (entries.needed(self.keeps_gone), entries.free());
            // A shard of the maximum without gone entries would be rebuilt for nothing.
            entries.full = self.max_entries < needed.saturating_add(free);
            if entries.full {
                return Err(HostError::TooLarge);
            }
            needed
        };
        // A rebuild is paid for by the entries that come before the next one.
        let room = needed.saturating_add(needed / 2).max(FIRST_ENTRIES);
        let room = room.min(self.max_entries);
        // What is closed meanwhile may be this table: it is in use until the old entries are freed.
        let _nested = enter_growth().ok_or(HostError::TooLarge)?;
        let mut fresh = self.allocate(shard, room)?;
        let mut entries = shard.0.lock();
        // Another thread may have rebuilt the shard.
        if !entries.is_roomy() && entries.needed(self.keeps_gone) <= fresh.capacity() {
            for entry in entries.table.iter().filter(|entry| self.keeps_gone || !entry.gone()) {
                // There is room, so nothing is hashed again.
                fresh.insert_unique(self.hash_key.hash(entry.key()), *entry, |_| 0);
            }
            mem::swap(&mut entries.table, &mut fresh);
            self.entry_moved();
        }
        drop(entries);
        let _ = fenced(|| drop(fresh));
        Ok(())
    }

    /// A panic of the memory must not reach the driver.
    fn allocate(&self, shard: &Shard<E>, entries: usize) -> Result<HashTable<E, Own>, HostError> {
        let own = *shard.0.lock().table.allocator();
        let mut fresh = HashTable::new_in(own);
        match fenced(|| fresh.try_reserve(entries, |_| 0)) {
            Ok(Ok(())) => Ok(fresh),
            _ => Err(own.host().refusal(Layout::new::<E>(), SCOPE)),
        }
    }
}

impl<E> Shard<E> {
    fn release(&self) {
        let mut entries = self.0.lock();
        entries.promised = entries.promised.saturating_sub(1);
        entries.full = false;
    }
}

impl<E> ShardEntries<E> {
    /// Free room that is not promised.
    #[inline]
    fn free(&self) -> usize {
        let used = self.table.len().saturating_add(self.promised);
        self.table.capacity().saturating_sub(used)
    }

    fn is_roomy(&self) -> bool {
        self.free() > self.table.capacity() / 4
    }

    fn promise(&mut self) -> bool {
        let is_free = self.free() > 0;
        self.promised = self.promised.saturating_add(usize::from(is_free));
        is_free
    }
}

impl<E: TableEntry> ShardEntries<E> {
    /// Returns `merge` if there is no room; `promised` places of it are the caller's.
    #[inline]
    fn put<F: FnOnce(&mut E)>(&mut self, entry: E, merge: F, hash: u64, promised: usize) -> Result<(), F> {
        if let Some(there) = self.table.find_mut(hash, |there| there.same(&entry)) {
            merge(there);
            return Ok(());
        }
        if self.free().saturating_add(promised) == 0 {
            return Err(merge);
        }
        self.table.insert_unique(hash, entry, |_| 0);
        Ok(())
    }

    fn kept(&self, keeps_gone: bool) -> usize {
        self.table.iter().filter(|entry| keeps_gone || !entry.gone()).count()
    }

    fn needed(&self, keeps_gone: bool) -> usize {
        self.kept(keeps_gone).saturating_add(self.promised).saturating_add(1)
    }
}

impl<E: TableEntry, const SHARDS: usize> Promised<'_, '_, E, SHARDS> {
    pub(crate) fn put(&self, entry: E, merge: impl FnOnce(&mut E)) {
        let (hash, shard) = self.0.place_of(&entry);
        if let Some(shard) = shard {
            let _ = shard.0.lock().put(entry, merge, hash, 1);
        }
    }
}

impl<E: TableEntry, const SHARDS: usize> Drop for Promised<'_, '_, E, SHARDS> {
    fn drop(&mut self) {
        self.0.shards.iter().for_each(Shard::release);
    }
}

impl<E: TableEntry, const SHARDS: usize> Drop for ShardedTable<'_, E, SHARDS> {
    /// Does nothing, but for the compiler, which keeps the memory longer than the table.
    fn drop(&mut self) {}
}

#[cfg(test)]
mod tests;
