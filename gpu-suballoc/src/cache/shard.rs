use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use alloc_core::{ContextHandle, HostError, TryMap};

use super::compile::Compile;
use super::entry::{CacheEntry, DEAD, DestroyList, EntryLink};
use super::key::{KeyState, ShaderKey};
use super::owner::Owner;
use super::shader_cache::{CacheLimits, CacheStats};
use crate::sync::{StateGuard, StateMutex};

pub(super) const SHARDS: usize = 16;

pub(super) struct Core<P, E> {
    shards: [PaddedShard<P, E>; SHARDS],
    /// Both are changed before entries are looked at for eviction: a thread that drops a reference afterwards sees the
    /// change, and evicts again.
    pub(super) entries: AtomicU64,
    pub(super) bytes: AtomicU64,
    max_entries: AtomicU64,
    max_bytes: AtomicU64,
    hand: AtomicUsize,
    pub(super) memory: ContextHandle,
}

#[repr(align(128))]
struct PaddedShard<P, E>(StateMutex<Shard<P, E>>);

/// What a hit needs is in the line of the lock.
#[repr(C)]
pub(super) struct Shard<P, E> {
    index: TryMap<ShaderKey, NonNull<CacheEntry<P>>, ContextHandle, KeyState>,
    pub(super) hits: u64,
    pub(super) first: EntryLink<P>,
    hand: EntryLink<P>,
    pub(super) compiles: Option<NonNull<Compile<P, E>>>,
    pub(super) stats: CacheStats,
}

// SAFETY: what its pointers lead to is `Send`, and used by one thread at a time, under the lock.
unsafe impl<P: Send + Sync, E: Send> Send for Shard<P, E> {}

pub(super) type ShardGuard<'c, P, E> = StateGuard<'c, Shard<P, E>>;

impl<P, E> Shard<P, E> {
    fn new(memory: ContextHandle) -> Self {
        Self {
            index: TryMap::with_hasher_in(KeyState::new(), memory),
            hits: 0,
            first: None,
            hand: None,
            compiles: None,
            stats: CacheStats::default(),
        }
    }

    #[inline]
    pub(super) fn find(&self, key: ShaderKey) -> Option<&CacheEntry<P>> {
        // SAFETY: entries in the index are live, and die under the lock only.
        self.index.get(&key).map(|entry| unsafe { entry.as_ref() })
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &CacheEntry<P>> {
        self.entries_from(self.first)
    }

    pub(super) fn entries_after(&self, entry: &CacheEntry<P>) -> impl Iterator<Item = &CacheEntry<P>> {
        self.entries_from(entry.next.get())
    }

    fn entries_from(&self, first: EntryLink<P>) -> impl Iterator<Item = &CacheEntry<P>> + use<'_, P, E> {
        // SAFETY: entries in the list are destroyed after they left it, under the lock.
        let entry = |at: EntryLink<P>| at.map(|at| unsafe { at.as_ref() });
        core::iter::successors(entry(first), move |at| entry(at.next.get()))
    }

    pub(super) fn compiles(&self) -> impl Iterator<Item = &Compile<P, E>> {
        // SAFETY: compiles in the list end after they left it, under the lock.
        let compile = |at: Option<NonNull<Compile<P, E>>>| at.map(|at| unsafe { at.as_ref() });
        core::iter::successors(compile(self.compiles), move |at| compile(at.next.get()))
    }

    pub(super) fn in_use(&self, owner: &Owner) -> u64 {
        let is_held = |entry: &&CacheEntry<P>| entry.is_owned_by(owner) && entry.references() != 0;
        let compiles = self.compiles();
        let compiles = compiles.filter(|compile| ptr::eq(compile.owner, owner));
        (self.entries().filter(is_held).count() + compiles.count()) as u64
    }

    /// It counts places in use or reserved: an insertion takes at most one, and ends one compile.
    fn used(&self) -> usize {
        self.index.len() + self.stats.compiling as usize
    }

    pub(super) fn has_room(&self) -> bool {
        self.index.capacity() > self.used()
    }

    pub(super) fn add(&mut self, entry: NonNull<CacheEntry<P>>) {
        // SAFETY: not destroyed, and seen by nobody else yet.
        let added = unsafe { entry.as_ref() };
        if let Some(next) = self.first.replace(entry) {
            added.next.set(Some(next));
            // SAFETY: in the list.
            unsafe { next.as_ref() }.before.set(Some(entry));
        }
        if added.is_live() {
            // The compile reserved the place; see `has_room`.
            let _ = self.index.try_insert(added.key, entry);
            self.stats.entries += 1;
        } else {
            self.stats.dead += 1;
        }
    }
}

impl<P, E> Core<P, E> {
    pub(super) fn new(memory: ContextHandle, limits: CacheLimits) -> Self {
        let shard = |_| PaddedShard(StateMutex::new(Shard::new(memory.clone())));
        Self {
            shards: core::array::from_fn(shard),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            max_entries: AtomicU64::new(limits.entries),
            max_bytes: AtomicU64::new(limits.bytes),
            hand: AtomicUsize::new(0),
            memory,
        }
    }

    #[inline]
    pub(super) fn shard(&self, key: ShaderKey) -> &StateMutex<Shard<P, E>> {
        let [first, ..] = &self.shards;
        // Bits that the index does not look at.
        let number = (key.mixed() >> 48) as usize % SHARDS;
        &self.shards.get(number).unwrap_or(first).0
    }

    pub(super) fn shards(&self) -> impl Iterator<Item = &StateMutex<Shard<P, E>>> {
        self.shards.iter().map(|shard| &shard.0)
    }

    pub(super) fn lock_all(&self) -> [ShardGuard<'_, P, E>; SHARDS] {
        self.shards.each_ref().map(|shard| shard.0.lock())
    }

    /// Counts as far as the sum can hold.
    pub(super) fn count_bytes(&self, bytes: u64) -> u64 {
        let add = |sum: u64| Some(sum.saturating_add(bytes));
        let (Ok(before) | Err(before)) = self.bytes.fetch_update(SeqCst, SeqCst, add);
        bytes.min(u64::MAX - before)
    }

    pub(super) fn set_limits(&self, limits: CacheLimits) {
        self.max_entries.store(limits.entries, SeqCst);
        self.max_bytes.store(limits.bytes, SeqCst);
    }

    #[inline]
    fn is_over_limits(&self) -> bool {
        self.entries.load(SeqCst) > self.max_entries.load(SeqCst)
            || self.bytes.load(SeqCst) > self.max_bytes.load(SeqCst)
    }

    pub(super) fn remove(
        &self,
        shard: &mut Shard<P, E>,
        entry: NonNull<CacheEntry<P>>,
        going: &mut DestroyList<P>,
    ) -> bool {
        // SAFETY: a live entry of this shard, whose lock is held.
        let dying = unsafe { entry.as_ref() };
        shard.index.remove(&dying.key);
        shard.stats.entries -= 1;
        shard.stats.dead += 1;
        self.entries.fetch_sub(1, SeqCst);
        let unreferenced = dying.kill();
        if unreferenced {
            self.forget(shard, entry, going);
            going.counts.destroyed += 1;
        } else {
            going.counts.held += 1;
        }
        unreferenced
    }

    fn forget(&self, shard: &mut Shard<P, E>, entry: NonNull<CacheEntry<P>>, going: &mut DestroyList<P>) {
        // SAFETY: not destroyed yet.
        let dead = unsafe { entry.as_ref() };
        let (next, before) = (dead.next.get(), dead.before.get());
        // SAFETY: a neighbour is destroyed under the lock, after it left the list.
        match before.map(|before| unsafe { before.as_ref() }) {
            Some(before) => before.next.set(next),
            None => shard.first = next,
        }
        // SAFETY: a neighbour is destroyed under the lock, after it left the list.
        if let Some(next) = next.map(|next| unsafe { next.as_ref() }) {
            next.before.set(before);
        }
        if shard.hand == Some(entry) {
            shard.hand = next;
        }
        shard.stats.dead -= 1;
        self.bytes.fetch_sub(dead.bytes, SeqCst);
        // SAFETY: in no list any more, and without references; dead entries get none then.
        unsafe { going.add(entry) };
    }

    pub(super) fn remove_where(
        &self,
        shard: &mut Shard<P, E>,
        going: &mut DestroyList<P>,
        which: impl Fn(&CacheEntry<P>) -> bool,
    ) {
        let mut at = shard.first;
        while let Some(entry) = at {
            // SAFETY: in the list.
            let there = unsafe { entry.as_ref() };
            at = there.next.get();
            if there.is_live() && which(there) {
                self.remove(shard, entry, going);
            }
        }
    }

    pub(super) fn evict(&self) {
        let mut going = DestroyList::new();
        let start = self.hand.load(Relaxed);
        let order = self.shards.iter().enumerate().cycle().skip(start);
        // The first of two further rounds makes entries old, the second evicts them.
        for (number, PaddedShard(shard)) in order.take(3 * SHARDS) {
            if !self.is_over_limits() {
                break;
            }
            let mut shard = shard.lock();
            let mut at = shard.hand.or(shard.first);
            while let Some(entry) = at
                && self.is_over_limits()
            {
                // SAFETY: in the list.
                let there = unsafe { entry.as_ref() };
                at = there.next.get();
                if there.is_live() && there.references() == 0 && !there.touched.replace(false) {
                    shard.stats.evicted += u64::from(self.remove(&mut shard, entry, &mut going));
                }
            }
            shard.hand = at;
            self.hand.store(number + usize::from(at.is_none()), Relaxed);
        }
        going.destroy();
    }

    #[cold]
    fn evict_released(&self, key: ShaderKey) {
        let mut going = DestroyList::new();
        let mut shard = self.shard(key).lock();
        let entry = shard.find(key).filter(|entry| entry.references() == 0);
        if let Some(entry) = entry.map(NonNull::from)
            && self.is_over_limits()
        {
            shard.stats.evicted += u64::from(self.remove(&mut shard, entry, &mut going));
        }
        drop(shard);
        going.destroy();
    }

    #[inline]
    pub(super) fn release(&self, entry: NonNull<CacheEntry<P>>) {
        // SAFETY: referenced until it is released.
        let key = unsafe { entry.as_ref() }.key;
        // SAFETY: the reference that is released here is the caller's, and was counted.
        match unsafe { CacheEntry::release(entry) } {
            DEAD => self.destroy_released(key, entry),
            0 if self.is_over_limits() => self.evict_released(key),
            _ => {}
        }
    }

    #[cold]
    fn destroy_released(&self, key: ShaderKey, entry: NonNull<CacheEntry<P>>) {
        let mut going = DestroyList::new();
        self.forget(&mut self.shard(key).lock(), entry, &mut going);
        going.destroy();
    }

    pub(super) fn grow(&self, shard: &StateMutex<Shard<P, E>>) -> Result<(), HostError> {
        let room = 2 * (shard.lock().used() + 1);
        self.resize(shard, room).map(drop)
    }

    pub(super) fn shrink(&self, shard: &StateMutex<Shard<P, E>>) -> u64 {
        let locked = shard.lock();
        let (used, capacity) = (locked.used(), locked.index.capacity());
        drop(locked);
        let is_spare = capacity > 0 && capacity >= 4 * used;
        if is_spare { self.resize(shard, 2 * used).unwrap_or(0) } else { 0 }
    }

    pub(super) fn free_empty(&self) {
        for shard in self.shards() {
            if shard.lock().used() == 0 {
                // Allocates nothing.
                let _ = self.resize(shard, 0);
            }
        }
    }

    /// Memory is allocated and freed without the lock.
    fn resize(&self, shard: &StateMutex<Shard<P, E>>, room: usize) -> Result<u64, HostError> {
        let mut index = TryMap::with_hasher_in(KeyState::new(), self.memory.clone());
        index.try_reserve(room)?;
        let new = index.allocation_size();
        let mut locked = shard.lock();
        let old = locked.index.allocation_size();
        let fits = index.capacity() >= locked.used();
        if fits {
            for (key, entry) in locked.index.drain() {
                let _ = index.try_insert(key, entry);
            }
            core::mem::swap(&mut locked.index, &mut index);
        }
        drop(locked);
        Ok(if fits { old.saturating_sub(new) as u64 } else { 0 })
    }
}

impl<P, E> Drop for Core<P, E> {
    fn drop(&mut self) {
        let mut going = DestroyList::new();
        for shard in &mut self.shards {
            let mut at = shard.0.get_mut().first.take();
            while let Some(entry) = at {
                // SAFETY: in the list.
                at = unsafe { entry.as_ref() }.next.get();
                // SAFETY: without handles there are no references, and the lists are not used any more.
                unsafe { going.add(entry) };
            }
        }
        going.destroy();
    }
}
