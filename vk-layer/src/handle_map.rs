//! A map from addresses and handles to records, without a lock: chunks of 256 slots, of which more are added and none removed.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::record::{free_record, new_record};

const SLOTS: usize = 256;
/// No key: the slot is free.
const FREE: usize = 0;
/// No key either, since handles are aligned: the slot's value is being written.
const CLAIMED: usize = 1;

/// Maps keys above 1 to records of the caller, of which it only keeps the addresses.
pub(crate) struct HandleMap<T> {
    slots: [Slot<T>; SLOTS],
    /// At least as many slots as are not free: an insertion counts before it looks for one, a removal after it has freed one.
    used: AtomicUsize,
    next: AtomicPtr<HandleMap<T>>,
}

struct Slot<T> {
    key: AtomicUsize,
    value: AtomicPtr<T>,
}

/// The key of a handle that may be a small number, and is 0 for none.
pub(crate) const fn key(handle: u64) -> usize {
    (handle as usize).wrapping_add(CLAIMED)
}

impl<T> HandleMap<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const {
                Slot {
                    key: AtomicUsize::new(FREE),
                    value: AtomicPtr::new(ptr::null_mut()),
                }
            }; SLOTS],
            used: AtomicUsize::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds a pair. `false` when there is no memory for a further chunk, or the key is none.
    pub(crate) fn insert(&self, key: usize, value: NonNull<T>) -> bool {
        if key <= CLAIMED {
            return false;
        }
        let mut chunk = self;
        loop {
            if chunk.insert_here(key, value) {
                return true;
            }
            match chunk.following_or_new() {
                Some(following) => chunk = following,
                None => return false,
            }
        }
    }

    /// The value of the key.
    pub(crate) fn get(&self, key: usize) -> Option<NonNull<T>> {
        let first = self.slots.get(start_of(key))?;
        // Most keys are where they are looked for first.
        let slot = if first.key.load(Ordering::Acquire) == key && key > CLAIMED {
            first
        } else {
            self.find(key)?.1
        };
        NonNull::new(slot.value.load(Ordering::Acquire))
    }

    /// Removes one pair with this key: of several threads each removes another one, or none. (Two objects may have one handle.)
    /// The caller sees to it that nobody uses what [`HandleMap::get`] answered for it.
    pub(crate) fn remove(&self, key: usize) -> Option<NonNull<T>> {
        loop {
            let (chunk, slot) = self.find(key)?;
            let claimed =
                slot.key
                    .compare_exchange(key, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
            // Else another thread was first, and the slot may be another key's already.
            if claimed.is_ok() {
                let value = NonNull::new(slot.value.load(Ordering::Relaxed));
                slot.key.store(FREE, Ordering::Release);
                chunk.used.fetch_sub(1, Ordering::Relaxed);
                return value;
            }
        }
    }

    /// As [`HandleMap::remove`], of a pair with this very value, which is compared as an address. `false` when there is none.
    pub(crate) fn remove_pair(&self, key: usize, value: NonNull<T>) -> bool {
        let of_pair = |slot: &Slot<T>| {
            slot.key.load(Ordering::Acquire) == key
                && slot.value.load(Ordering::Relaxed) == value.as_ptr()
        };
        let mut chunk = Some(self).filter(|_| key > CLAIMED);
        while let Some(here) = chunk {
            for slot in here.probe(key).filter(|slot| of_pair(slot)) {
                let claimed =
                    slot.key
                        .compare_exchange(key, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
                if claimed.is_err() {
                    continue;
                }
                if slot.value.load(Ordering::Relaxed) == value.as_ptr() {
                    slot.key.store(FREE, Ordering::Release);
                    here.used.fetch_sub(1, Ordering::Relaxed);
                    return true;
                }
                // The slot went to another value of the key meanwhile.
                slot.key.store(key, Ordering::Release);
            }
            chunk = here.following();
        }
        false
    }

    /// Takes any value out. `None` when there is none left.
    pub(crate) fn pop(&mut self) -> Option<NonNull<T>> {
        let mut chunk = Some(&*self);
        while let Some(here) = chunk {
            let used = |slot: &&Slot<T>| slot.key.load(Ordering::Acquire) > CLAIMED;
            if let Some(slot) = here.slots.iter().find(used) {
                return self.remove(slot.key.load(Ordering::Acquire));
            }
            chunk = here.following();
        }
        None
    }

    /// A slot with this key, and its chunk.
    #[inline(never)]
    fn find(&self, key: usize) -> Option<(&Self, &Slot<T>)> {
        if key <= CLAIMED {
            return None;
        }
        let mut chunk = Some(self);
        while let Some(here) = chunk {
            let of_key = |slot: &&Slot<T>| slot.key.load(Ordering::Acquire) == key;
            if let Some(slot) = here.probe(key).find(of_key) {
                return Some((here, slot));
            }
            chunk = here.following();
        }
        None
    }

    /// All slots, from the one where the key is put if that is free.
    fn probe(&self, key: usize) -> impl Iterator<Item = &Slot<T>> {
        let start = start_of(key);
        (0..SLOTS).filter_map(move |at| self.slots.get(start.wrapping_add(at) % SLOTS))
    }

    /// `false` where no slot is free. A full chunk is passed by without a look at its slots.
    fn insert_here(&self, key: usize, value: NonNull<T>) -> bool {
        if self.used.load(Ordering::Relaxed) >= SLOTS {
            return false;
        }
        self.used.fetch_add(1, Ordering::Relaxed);
        let claimed = self.probe(key).find(|slot| {
            // A look first, since an exchange takes the slot's line from threads that read it.
            slot.key.load(Ordering::Relaxed) == FREE
                && slot
                    .key
                    .compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        let Some(slot) = claimed else {
            self.used.fetch_sub(1, Ordering::Relaxed);
            return false;
        };
        slot.value.store(value.as_ptr(), Ordering::Release);
        slot.key.store(key, Ordering::Release);
        true
    }

    fn following(&self) -> Option<&Self> {
        // SAFETY: null, or a chunk that `following_or_new` added, which stays until `self` is dropped.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    fn following_or_new(&self) -> Option<&Self> {
        if let Some(following) = self.following() {
            return Some(following);
        }
        let new = new_record(Self::new())?;
        let added = self.next.compare_exchange(
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

/// Where a key is put if that slot is free.
const fn start_of(key: usize) -> usize {
    // Addresses differ in their middle bits, numbers in their low ones: the product mixes both into its middle.
    (key.wrapping_mul(0x9e37_79b9) >> 16) % SLOTS
}

impl<T> Drop for HandleMap<T> {
    fn drop(&mut self) {
        let mut next = NonNull::new(*self.next.get_mut());
        while let Some(chunk) = next {
            // SAFETY: from `new_record`; only this map knew it.
            let mut chunk = unsafe { free_record(chunk) };
            // Else its own drop would recurse, once for each chunk.
            next = NonNull::new(std::mem::replace(chunk.next.get_mut(), ptr::null_mut()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Barrier;
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::{HandleMap, SLOTS};

    #[test]
    fn ly21_slots_of_full_chunks_are_used_again_and_their_count_is_exact() {
        let map = HandleMap::<u8>::new();
        let value = NonNull::dangling();
        let used = || {
            let chunks = std::iter::successors(Some(&map), |chunk| chunk.following());
            chunks
                .map(|chunk| chunk.used.load(Ordering::Relaxed))
                .collect::<Vec<_>>()
        };
        let keys = || (0..2 * SLOTS + 1).map(|number| 16 + number);
        for _ in 0..3 {
            assert!(keys().all(|key| map.insert(key, value)));
            assert_eq!(used(), [SLOTS, SLOTS, 1]);
            // What was freed in the first chunk is where the next pairs go.
            assert!(map.remove(16).is_some() && map.remove(16).is_none());
            assert!(map.insert(17 * SLOTS, value));
            assert_eq!(used(), [SLOTS, SLOTS, 1]);
            assert!(map.remove(17 * SLOTS).is_some());
            assert!(keys().skip(1).all(|key| map.remove(key).is_some()));
            assert_eq!(used(), [0, 0, 0]);
        }
    }

    #[test]
    fn ly4_threads_that_remove_one_key_each_remove_another_record() {
        const ROUNDS: usize = 3000;
        let map = HandleMap::<u8>::new();
        let round = Barrier::new(2);
        let remove = |_| {
            round.wait();
            let removed = map.remove(40).map(NonNull::addr);
            round.wait();
            removed
        };
        let record = |address: usize| NonNull::new(std::ptr::without_provenance_mut(address));
        thread::scope(|scope| {
            let other = scope.spawn(|| (0..ROUNDS).map(remove).collect::<Vec<_>>());
            // Two objects with one handle, as Vulkan allows, and in each third round one.
            let mine: Vec<_> = (0..ROUNDS)
                .map(|number| {
                    let pair = [16, 32];
                    for address in &pair[..1 + usize::from(number % 3 != 0)] {
                        assert!(map.insert(40, record(*address).expect("an address")));
                    }
                    remove(number)
                })
                .collect();
            let other = other.join().expect("a thread that ends");
            for (number, pair) in mine.into_iter().zip(other).enumerate() {
                let mut pair = [pair.0, pair.1].map(|address| address.map_or(0, usize::from));
                pair.sort_unstable();
                let expected = if number % 3 == 0 { [0, 16] } else { [16, 32] };
                assert_eq!(pair, expected, "round {number}");
            }
        });
        assert!(map.get(40).is_none());
    }
}
