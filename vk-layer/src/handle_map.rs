//! A map from addresses and handles to records. Lookups take no lock; insertions and removals take turns.
//!
//! ```text
//!   256 slots, then chunks of twice as many each:  [ key, value, reach | .. ] -> [ .. ] -> ..
//!                                                     |
//!   a key's own slot, by its hash; the key is there, or at most `reach` slots behind it, or in a later chunk
//! ```
//!
//! Chunks are added and never removed. A lookup of an absent key reads a few slots in each of few chunks. A fork may
//! leave a thread that writes behind: the map is whole at any time, and what is counted as used is never less than what
//! is.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use alloc_core::TryVec;

use crate::once::LockAcrossForks;
use crate::record::{Own, free_record, new_record, own};

const SLOTS: usize = 256;
const NO_KEY: usize = 0;

pub(crate) struct HandleMap<T> {
    slots: [Slot<T>; SLOTS],
    state: ChunkState<T>,
    writers: LockAcrossForks,
}

struct Slot<T> {
    key: AtomicUsize,
    value: AtomicPtr<T>,
    /// The largest distance from this slot of a key whose own slot this is. It never decreases.
    reach: AtomicUsize,
}

struct ChunkState<T> {
    used: AtomicUsize,
    next: AtomicPtr<LaterChunk<T>>,
}

struct LaterChunk<T> {
    slots: TryVec<Slot<T>, Own>,
    state: ChunkState<T>,
}

struct Chunk<'m, T> {
    slots: &'m [Slot<T>],
    state: &'m ChunkState<T>,
}

pub(crate) const fn key(handle: u64) -> usize {
    (handle as usize).wrapping_add(1)
}

impl<T> HandleMap<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: [const { Slot::new() }; SLOTS], state: ChunkState::new(), writers: LockAcrossForks::new() }
    }

    /// `false` when there is no memory for another chunk, or the key is 0.
    pub(crate) fn insert(&self, key: usize, value: NonNull<T>) -> bool {
        let mut chunk = Some(self.first()).filter(|_| key != NO_KEY);
        while let Some(here) = chunk {
            let held = self.writers.lock();
            let is_inserted = here.insert(key, value);
            drop(held);
            if is_inserted {
                return true;
            }
            chunk = here.following_or_new();
        }
        false
    }

    /// Of several pairs with one key any: a record that is read must be the only one with its key, since another thread
    /// may remove the one that is found. Where handles need not be unique, [`HandleMap::with`] is for it.
    #[inline]
    pub(crate) fn get(&self, key: usize) -> Option<NonNull<T>> {
        let own = self.slots.get(own_slot(key, SLOTS))?;
        let slot = if own.has(key) && key != NO_KEY { own } else { self.find(key)? };
        slot.value()
    }

    /// Meanwhile no pair is added or removed.
    pub(crate) fn with<R>(&self, key: usize, look: impl FnOnce(NonNull<T>) -> R) -> Option<R> {
        let _held = self.writers.lock();
        self.get(key).map(look)
    }

    /// Of several threads each removes another pair with this key, or none. (Two objects may have one handle.) The
    /// caller guarantees that the answer of [`HandleMap::get`] for it is no longer used.
    pub(crate) fn remove(&self, key: usize) -> Option<NonNull<T>> {
        self.remove_like(key, |_| true)
    }

    pub(crate) fn remove_like(&self, key: usize, is_like: impl Fn(NonNull<T>) -> bool) -> Option<NonNull<T>> {
        let _held = self.writers.lock();
        let mut chunk = Some(self.first()).filter(|_| key != NO_KEY);
        while let Some(here) = chunk {
            let mut slots = here.probe(key).filter(|slot| slot.has(key));
            if let Some(slot) = slots.find(|slot| slot.value().is_some_and(&is_like)) {
                slot.key.store(NO_KEY, Ordering::Release);
                here.state.used.fetch_sub(1, Ordering::Relaxed);
                return slot.value();
            }
            chunk = here.following();
        }
        None
    }

    /// What is left, each once.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(NonNull<T>)) {
        let mut chunk = Some(self.first());
        while let Some(here) = chunk {
            let used = here.slots.iter().filter(|slot| !slot.has(NO_KEY));
            for slot in used {
                slot.key.store(NO_KEY, Ordering::Release);
                here.state.used.fetch_sub(1, Ordering::Relaxed);
                slot.value().map(&mut each);
            }
            chunk = here.following();
        }
    }

    fn first(&self) -> Chunk<'_, T> {
        Chunk { slots: &self.slots, state: &self.state }
    }

    #[inline(never)]
    fn find(&self, key: usize) -> Option<&Slot<T>> {
        let mut chunk = Some(self.first()).filter(|_| key != NO_KEY);
        while let Some(here) = chunk {
            let found = here.probe(key).find(|slot| slot.has(key));
            if found.is_some() {
                return found;
            }
            chunk = here.following();
        }
        None
    }
}

impl<T> Slot<T> {
    const fn new() -> Self {
        Self { key: AtomicUsize::new(NO_KEY), value: AtomicPtr::new(ptr::null_mut()), reach: AtomicUsize::new(0) }
    }

    #[inline]
    fn has(&self, key: usize) -> bool {
        self.key.load(Ordering::Acquire) == key
    }

    #[inline]
    fn value(&self) -> Option<NonNull<T>> {
        NonNull::new(self.value.load(Ordering::Acquire))
    }
}

impl<T> ChunkState<T> {
    const fn new() -> Self {
        Self { used: AtomicUsize::new(0), next: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<'m, T> Chunk<'m, T> {
    fn probe(&self, key: usize) -> impl Iterator<Item = &'m Slot<T>> + use<'m, T> {
        let own = self.slots.get(own_slot(key, self.slots.len()));
        let reach = own.map_or(0, |own| own.reach.load(Ordering::Acquire));
        self.slots_from_own(key).take(reach.saturating_add(1))
    }

    fn slots_from_own(&self, key: usize) -> impl Iterator<Item = &'m Slot<T>> + use<'m, T> {
        let (before, from) = self.slots.split_at_checked(own_slot(key, self.slots.len())).unwrap_or_default();
        from.iter().chain(before)
    }

    /// `false` where three quarters of the slots are used: free slots keep the distances short.
    fn insert(&self, key: usize, value: NonNull<T>) -> bool {
        if self.state.used.load(Ordering::Relaxed) >= self.slots.len() / 4 * 3 {
            return false;
        }
        let mut slots = self.slots_from_own(key).enumerate();
        let free = slots.find(|(_, slot)| slot.has(NO_KEY));
        let (Some((distance, slot)), Some(own)) = (free, self.slots_from_own(key).next()) else {
            return false;
        };
        self.state.used.fetch_add(1, Ordering::Relaxed);
        slot.value.store(value.as_ptr(), Ordering::Release);
        // Before the key is stored, so that a thread that knows of the insertion finds the key.
        own.reach.fetch_max(distance, Ordering::Release);
        slot.key.store(key, Ordering::Release);
        true
    }

    fn following(&self) -> Option<Self> {
        // SAFETY: null, or a chunk of `following_or_new`, which stays until the map is dropped.
        let later = unsafe { self.state.next.load(Ordering::Acquire).as_ref() }?;
        Some(Self { slots: &later.slots, state: &later.state })
    }

    /// Called without the lock, since it allocates.
    fn following_or_new(&self) -> Option<Self> {
        let following = self.following();
        if following.is_some() {
            return following;
        }
        let new = new_record(LaterChunk::new(self.slots.len().checked_mul(2)?)?)?;
        let added =
            self.state.next.compare_exchange(ptr::null_mut(), new.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
        if added.is_err() {
            // SAFETY: from `new_record`, and no other thread has seen it.
            drop(unsafe { free_record(new) });
        }
        self.following()
    }
}

impl<T> LaterChunk<T> {
    fn new(number: usize) -> Option<Self> {
        let mut slots = TryVec::new_in(own());
        slots.try_reserve(number).ok()?;
        for _ in 0..number {
            slots.try_push(Slot::new()).ok()?;
        }
        Some(Self { slots, state: ChunkState::new() })
    }
}

const fn own_slot(key: usize, slots: usize) -> usize {
    // Addresses differ in their middle bits, numbers in their low ones: the product mixes both into its upper half.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) & slots.wrapping_sub(1)
}

impl<T> Drop for HandleMap<T> {
    fn drop(&mut self) {
        let mut next = NonNull::new(*self.state.next.get_mut());
        while let Some(chunk) = next {
            // SAFETY: from `new_record`; only this map knew it.
            let mut chunk = unsafe { free_record(chunk) };
            next = NonNull::new(*chunk.state.next.get_mut());
        }
    }
}

#[cfg(test)]
mod tests;
