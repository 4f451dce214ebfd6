//! User data of checked callbacks: numbers into a static table, so that unknown user data is never dereferenced.
//!
//! ```text
//!   pUserData = generation * 262144 + place       place: Slot { user data, address of what is watched, next free place }
//! ```
//!
//! A place is reused when its callbacks ended, with another generation: a call with the old number is stray. Pages of the table that
//! were never used occupy no memory.

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const PLACES: usize = 1 << 18;

struct UserDataSlot {
    /// The last user data of this place; 0 before the first.
    user_data: AtomicUsize,
    /// NULL while the place is free.
    watched: AtomicPtr<c_void>,
    /// While the place is free: the next free place in [`FREE`], plus 1; 0 for none.
    next_free: AtomicU32,
}

static SLOTS: [UserDataSlot; PLACES] = [const {
    UserDataSlot {
        user_data: AtomicUsize::new(0),
        watched: AtomicPtr::new(ptr::null_mut()),
        next_free: AtomicU32::new(0),
    }
}; PLACES];

/// The stack of free places: in the low half the top one plus 1, in the high half the number of changes, against the ABA problem.
static FREE: AtomicU64 = AtomicU64::new(0);

/// The first place that was never used.
static UNUSED: AtomicUsize = AtomicUsize::new(0);

/// Claims a place. Returns the user data; `None` if all places are in use.
pub(crate) fn claim(watched: *mut c_void) -> Option<*mut c_void> {
    let place = pop_free().or_else(never_used)?;
    let slot = SLOTS.get(place)?;
    // From 1, so that no user data is NULL.
    let generation = (slot.user_data.load(Ordering::Relaxed) / PLACES).wrapping_add(1);
    let user_data = generation.wrapping_mul(PLACES) | place;
    slot.user_data.store(user_data, Ordering::Relaxed);
    slot.watched.store(watched, Ordering::Release);
    Some(ptr::without_provenance_mut(user_data))
}

/// The value of the user data, while it is claimed.
#[inline]
pub(crate) fn find(user_data: *mut c_void) -> Option<*mut c_void> {
    let slot = SLOTS.get(user_data.addr() % PLACES)?;
    let watched = slot.watched.load(Ordering::Acquire);
    let is_current = slot.user_data.load(Ordering::Relaxed) == user_data.addr();
    (is_current && !watched.is_null()).then_some(watched)
}

/// Whether the user data is claimed.
pub(crate) fn is_current(user_data: NonZeroUsize) -> bool {
    find(ptr::without_provenance_mut(user_data.get())).is_some()
}

/// Frees the place, once; later calls with this user data are stray.
pub(crate) fn release(user_data: *mut c_void) {
    let place = user_data.addr() % PLACES;
    let Some(slot) = SLOTS.get(place) else { return };
    slot.watched.store(ptr::null_mut(), Ordering::Release);
    let mut free = FREE.load(Ordering::Relaxed);
    loop {
        slot.next_free.store(free as u32, Ordering::Relaxed);
        let pushed = changed(free) | (place as u64).wrapping_add(1);
        match FREE.compare_exchange_weak(free, pushed, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => free = other,
        }
    }
}

fn pop_free() -> Option<usize> {
    let mut free = FREE.load(Ordering::Acquire);
    loop {
        let place = (free as u32).checked_sub(1)? as usize;
        let below = SLOTS.get(place)?.next_free.load(Ordering::Relaxed);
        let popped = changed(free) | u64::from(below);
        match FREE.compare_exchange_weak(free, popped, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return Some(place),
            Err(other) => free = other,
        }
    }
}

/// The high half of the stack's word, after one more change.
const fn changed(free: u64) -> u64 {
    (free >> 32).wrapping_add(1) << 32
}

fn never_used() -> Option<usize> {
    let next = |unused: usize| (unused < PLACES).then(|| unused.wrapping_add(1));
    UNUSED
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
        .ok()
}

static STRANGE: AtomicU64 = AtomicU64::new(0);

/// The number of calls with user data that no checker of this process returned, or whose checker ended, outside of any checked
/// command. They were answered with NULL, or ignored.
#[must_use]
pub fn stray_callbacks() -> u64 {
    STRANGE.load(Ordering::Relaxed)
}

pub(crate) fn one_more_stray() {
    STRANGE.fetch_add(1, Ordering::Relaxed);
}
