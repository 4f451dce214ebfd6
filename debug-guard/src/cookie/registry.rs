//! The keys of all living guards.
//!
//! A block that is freed through the wrong guard is found by trying the others' keys (T35). A guard without a slot works too: its blocks
//! are foreign to the others.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::keys::Keys;

/// Guards that can have a slot at once.
const SLOTS: usize = 32;
/// In the place of a guard's number: its keys are being written.
const ENTERING: u64 = u64::MAX;

struct KeyEntry {
    /// The guard's number; 0: free.
    guard: AtomicU64,
    keys: [AtomicU64; Keys::COUNT],
}

static REGISTRY: [KeyEntry; SLOTS] = [const {
    KeyEntry {
        guard: AtomicU64::new(0),
        keys: [const { AtomicU64::new(0) }; Keys::COUNT],
    }
}; SLOTS];

/// Registers a guard. Returns its slot, if one is free.
pub(super) fn enter(guard: u64, keys: &Keys) -> Option<usize> {
    let slot = REGISTRY.iter().position(|entry| {
        let free = entry.guard.compare_exchange(0, ENTERING, Acquire, Relaxed);
        free.is_ok()
    })?;
    let entry = REGISTRY.get(slot)?;
    for (place, key) in entry.keys.iter().zip(keys.0) {
        place.store(key, Relaxed);
    }
    entry.guard.store(guard, Release);
    Some(slot)
}

/// Frees a slot.
pub(super) fn leave(slot: Option<usize>) {
    if let Some(entry) = slot.and_then(|slot| REGISTRY.get(slot)) {
        for key in &entry.keys {
            key.store(0, Relaxed);
        }
        entry.guard.store(0, Release);
    }
}

/// Calls `f` with the keys of other guards until one is accepted. Returns its result and the guard's number.
pub(super) fn others<T>(
    own: Option<usize>,
    mut f: impl FnMut(&Keys) -> Option<T>,
) -> Option<(T, u64)> {
    REGISTRY.iter().enumerate().find_map(|(slot, entry)| {
        let guard = entry.guard.load(Acquire);
        if guard == 0 || guard == ENTERING || own == Some(slot) {
            return None;
        }
        // Keys of a guard that leaves at this moment are mixed and fit nothing.
        let mut keys = Keys::default();
        for (key, place) in keys.0.iter_mut().zip(&entry.keys) {
            *key = place.load(Relaxed);
        }
        Some((f(&keys)?, guard))
    })
}
