//! A map from addresses and handles to records, without a lock.
//!
//! ```text
//!   256 slots, then chunks of twice as many each:  [ turn, key, value, reach | .. ] -> [ .. ] -> ..
//!                                                     |
//!   a key's own slot, by its hash; the key is there, or at most `reach` slots behind it, or in a later chunk
//! ```
//!
//! Chunks are added and never removed. A lookup of an absent key reads a few slots in each of few chunks.

mod slot;

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use alloc_core::TryVec;

use crate::record::{Own, free_record, new_record, own};
use slot::{NO_KEY, Slot};

const SLOTS: usize = 256;

pub(crate) struct HandleMap<T>(AddressMap, PhantomData<AtomicPtr<T>>);

impl<T> HandleMap<T> {
    pub(crate) const fn new() -> Self {
        Self(AddressMap::new(), PhantomData)
    }

    /// `false` when there is no memory for another chunk, or the key is 0.
    pub(crate) fn insert(&self, key: usize, value: NonNull<T>) -> bool {
        self.0.insert(key, value.cast())
    }

    /// Of several pairs with one key any: a record that is read must be the only one with its key, since another thread may remove the
    /// one that is found. Tables whose handles need not be unique are locked.
    #[inline]
    pub(crate) fn get(&self, key: usize) -> Option<NonNull<T>> {
        self.0.get(key).map(NonNull::cast)
    }

    /// Of several threads each removes another pair with this key, or none. (Two objects may have one handle.) The caller guarantees that
    /// the answer of [`HandleMap::get`] for it is no longer used.
    pub(crate) fn remove(&self, key: usize) -> Option<NonNull<T>> {
        self.0.remove(key).map(NonNull::cast)
    }

    pub(crate) fn remove_pair(&self, key: usize, value: NonNull<T>) -> bool {
        self.0.remove_pair(key, value.cast())
    }

    pub(crate) fn pop(&mut self) -> Option<NonNull<T>> {
        self.0.pop().map(NonNull::cast)
    }
}

/// The map does not know the type of its records, so that its functions are compiled once.
struct AddressMap {
    slots: [Slot; SLOTS],
    state: ChunkState,
}

struct ChunkState {
    /// No less than the number of slots in use: an insertion counts before it claims a slot, a removal after it has freed one.
    used: AtomicUsize,
    next: AtomicPtr<LaterChunk>,
}

struct LaterChunk {
    slots: TryVec<Slot, Own>,
    state: ChunkState,
}

struct Chunk<'m> {
    slots: &'m [Slot],
    state: &'m ChunkState,
}

pub(crate) const fn key(handle: u64) -> usize {
    (handle as usize).wrapping_add(1)
}

impl AddressMap {
    const fn new() -> Self {
        Self {
            slots: [const { Slot::new() }; SLOTS],
            state: ChunkState::new(),
        }
    }

    fn insert(&self, key: usize, value: NonNull<()>) -> bool {
        if key == NO_KEY {
            return false;
        }
        let mut chunk = Some(self.first());
        while let Some(here) = chunk {
            if here.insert(key, value) {
                return true;
            }
            chunk = here.following_or_new();
        }
        false
    }

    #[inline]
    fn get(&self, key: usize) -> Option<NonNull<()>> {
        let own = self.slots.get(own_slot(key, SLOTS))?;
        let slot = if own.has(key) && key != NO_KEY {
            own
        } else {
            self.find(key)?
        };
        slot.value()
    }

    fn remove(&self, key: usize) -> Option<NonNull<()>> {
        self.remove_first(key, None)
    }

    fn remove_pair(&self, key: usize, value: NonNull<()>) -> bool {
        self.remove_first(key, Some(value)).is_some()
    }

    fn remove_first(&self, key: usize, named: Option<NonNull<()>>) -> Option<NonNull<()>> {
        let mut chunk = Some(self.first()).filter(|_| key != NO_KEY);
        while let Some(here) = chunk {
            if let Some(value) = here.probe(key).find_map(|slot| slot.remove(key, named)) {
                here.state.used.fetch_sub(1, Ordering::Relaxed);
                return Some(value);
            }
            chunk = here.following();
        }
        None
    }

    fn pop(&mut self) -> Option<NonNull<()>> {
        let mut chunk = Some(self.first());
        while let Some(here) = chunk {
            let used = |slot: &&Slot| !slot.has(NO_KEY);
            if let Some(slot) = here.slots.iter().find(used) {
                return self.remove(slot.key.load(Ordering::Acquire));
            }
            chunk = here.following();
        }
        None
    }

    fn first(&self) -> Chunk<'_> {
        Chunk {
            slots: &self.slots,
            state: &self.state,
        }
    }

    #[inline(never)]
    fn find(&self, key: usize) -> Option<&Slot> {
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

impl ChunkState {
    const fn new() -> Self {
        Self {
            used: AtomicUsize::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

impl<'m> Chunk<'m> {
    fn probe(&self, key: usize) -> impl Iterator<Item = &'m Slot> + use<'m> {
        let own = self.slots.get(own_slot(key, self.slots.len()));
        let reach = own.map_or(0, |own| own.reach.load(Ordering::Acquire));
        self.slots_from_own(key).take(reach.saturating_add(1))
    }

    fn slots_from_own(&self, key: usize) -> impl Iterator<Item = &'m Slot> + use<'m> {
        let (before, from) = self
            .slots
            .split_at_checked(own_slot(key, self.slots.len()))
            .unwrap_or_default();
        from.iter().chain(before)
    }

    /// `false` where three quarters of the slots are used: free slots keep the distances short.
    fn insert(&self, key: usize, value: NonNull<()>) -> bool {
        let used = &self.state.used;
        if used.load(Ordering::Relaxed) >= self.slots.len() / 4 * 3 {
            return false;
        }
        used.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots_from_own(key).enumerate();
        let claimed = slots.find(|(_, slot)| slot.claim());
        let (Some((distance, slot)), Some(own)) = (claimed, self.slots_from_own(key).next()) else {
            used.fetch_sub(1, Ordering::Relaxed);
            return false;
        };
        slot.fill(key, value, || {
            // Before the key is stored, so that a thread that knows of the insertion finds the key.
            if own.reach.load(Ordering::Relaxed) < distance {
                own.reach.fetch_max(distance, Ordering::Relaxed);
            }
        });
        true
    }

    fn following(&self) -> Option<Self> {
        // SAFETY: null, or a chunk of `following_or_new`, which stays until the map is dropped.
        let later = unsafe { self.state.next.load(Ordering::Acquire).as_ref() }?;
        Some(Self {
            slots: &later.slots,
            state: &later.state,
        })
    }

    fn following_or_new(&self) -> Option<Self> {
        let following = self.following();
        if following.is_some() {
            return following;
        }
        let new = new_record(LaterChunk::new(self.slots.len().checked_mul(2)?)?)?;
        let added = self.state.next.compare_exchange(
            ptr::null_mut(),
            new.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if added.is_err() {
            // SAFETY: from `new_record`, and no other thread has seen it.
            drop(unsafe { free_record(new) });
        }
        self.following()
    }
}

impl LaterChunk {
    fn new(number: usize) -> Option<Self> {
        let mut slots = TryVec::new_in(own());
        slots.try_reserve(number).ok()?;
        for _ in 0..number {
            slots.try_push(Slot::new()).ok()?;
        }
        Some(Self {
            slots,
            state: ChunkState::new(),
        })
    }
}

const fn own_slot(key: usize, slots: usize) -> usize {
    // Addresses differ in their middle bits, numbers in their low ones: the product mixes both into its upper half.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) & slots.wrapping_sub(1)
}

impl Drop for AddressMap {
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
