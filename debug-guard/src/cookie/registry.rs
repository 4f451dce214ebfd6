//! The keys of all living guards.
//!
//! A block that is freed through the wrong guard is found by trying the others' keys (T35). A guard without a slot works too: its blocks
//! are foreign to the others, and its threads share one cache.

use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::keys::Keys;
use crate::lock::ForkSafeSpinLock;

/// Guards that can have a slot at once.
pub(super) const SLOTS: usize = 32;

static REGISTRY: [KeyEntry; SLOTS] = [const { KeyEntry::new() }; SLOTS];
static TICKETS: AtomicU64 = AtomicU64::new(1);

struct KeyEntry {
    lock: ForkSafeSpinLock,
    /// Unique number of the guard's stay; 0: free.
    ticket: AtomicU64,
    guard: AtomicU64,
    keys: [AtomicU64; Keys::COUNT],
}

impl KeyEntry {
    const fn new() -> Self {
        Self {
            lock: ForkSafeSpinLock::new(),
            ticket: AtomicU64::new(0),
            guard: AtomicU64::new(0),
            keys: [const { AtomicU64::new(0) }; Keys::COUNT],
        }
    }
}

/// A slot of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeySlot {
    /// `SLOTS` if none was free.
    pub(super) index: usize,
    pub(super) ticket: u64,
}

/// Registers a guard.
pub(super) fn enter(guard: u64, keys: &Keys) -> KeySlot {
    let ticket = TICKETS.fetch_add(1, Relaxed);
    for (index, entry) in REGISTRY.iter().enumerate() {
        let _held = entry.lock.lock();
        if entry.ticket.load(Relaxed) == 0 {
            entry.guard.store(guard, Relaxed);
            for (place, key) in entry.keys.iter().zip(keys.0) {
                place.store(key, Relaxed);
            }
            entry.ticket.store(ticket, Release);
            return KeySlot { index, ticket };
        }
    }
    KeySlot {
        index: SLOTS,
        ticket,
    }
}

/// Frees a slot. Afterwards no ending thread refers to a cache of the guard.
pub(super) fn leave(slot: KeySlot) {
    if let Some(entry) = REGISTRY.get(slot.index) {
        let _held = entry.lock.lock();
        entry.ticket.store(0, Relaxed);
        for key in &entry.keys {
            key.store(0, Relaxed);
        }
    }
}

/// Runs `f` if the guard of `slot` lives, and keeps it alive meanwhile.
#[cfg(feature = "std")]
pub(super) fn while_registered(slot: KeySlot, f: impl FnOnce()) {
    if let Some(entry) = REGISTRY.get(slot.index) {
        let _held = entry.lock.lock();
        if entry.ticket.load(Relaxed) == slot.ticket {
            f();
        }
    }
}

/// Calls `f` with the keys of other guards until one is accepted. Returns its result and the guard's number.
pub(super) fn others<T>(own: KeySlot, mut f: impl FnMut(&Keys) -> Option<T>) -> Option<(T, u64)> {
    REGISTRY.iter().find_map(|entry| {
        let ticket = entry.ticket.load(Acquire);
        if ticket == 0 || ticket == own.ticket {
            return None;
        }
        let mut keys = Keys::default();
        for (key, place) in keys.0.iter_mut().zip(&entry.keys) {
            *key = place.load(Relaxed);
        }
        let guard = entry.guard.load(Relaxed);
        // Keys of a guard that leaves at this moment are mixed and fit nothing.
        Some((f(&keys)?, guard))
    })
}
