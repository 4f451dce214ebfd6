//! The keys of all guards that are alive, and which thread has which cache of which guard.
//!
//! A block that was given back to the wrong guard is found by trying the others' keys (T35). A guard that finds no seat works all the
//! same: its blocks are foreign to the others, and its threads share one cache.

use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::keys::Keys;
use crate::lock::ForkSafeSpinLock;

/// Guards that may be alive at once and have a seat.
pub(super) const SEATS: usize = 32;

static REGISTRY: [KeyEntry; SEATS] = [const { KeyEntry::new() }; SEATS];
static TICKETS: AtomicU64 = AtomicU64::new(1);

struct KeyEntry {
    lock: ForkSafeSpinLock,
    /// Which seat this is; never used twice; 0: nobody's.
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

/// A place in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeySeat {
    /// `SEATS` where none was free.
    pub(super) index: usize,
    pub(super) ticket: u64,
}

/// Enters a guard.
pub(super) fn enter(guard: u64, keys: &Keys) -> KeySeat {
    let ticket = TICKETS.fetch_add(1, Relaxed);
    for (index, entry) in REGISTRY.iter().enumerate() {
        let _held = entry.lock.lock();
        if entry.ticket.load(Relaxed) == 0 {
            entry.guard.store(guard, Relaxed);
            for (place, key) in entry.keys.iter().zip(keys.0) {
                place.store(key, Relaxed);
            }
            entry.ticket.store(ticket, Release);
            return KeySeat { index, ticket };
        }
    }
    KeySeat {
        index: SEATS,
        ticket,
    }
}

/// Ends a seat. When this returns no thread's end refers to a cache of it any more.
pub(super) fn leave(seat: KeySeat) {
    if let Some(entry) = REGISTRY.get(seat.index) {
        let _held = entry.lock.lock();
        entry.ticket.store(0, Relaxed);
        for key in &entry.keys {
            key.store(0, Relaxed);
        }
    }
}

/// Runs `f` while the guard of `seat` cannot go, if it is still there.
#[cfg(feature = "std")]
pub(super) fn while_registered(seat: KeySeat, f: impl FnOnce()) {
    if let Some(entry) = REGISTRY.get(seat.index) {
        let _held = entry.lock.lock();
        if entry.ticket.load(Relaxed) == seat.ticket {
            f();
        }
    }
}

/// The other guards: what `f` makes of the keys of the first that it accepts, and the guard's number.
pub(super) fn others<T>(own: KeySeat, mut f: impl FnMut(&Keys) -> Option<T>) -> Option<(T, u64)> {
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
        // Keys of a guard that goes at this moment are a mixture and fit nothing.
        Some((f(&keys)?, guard))
    })
}
