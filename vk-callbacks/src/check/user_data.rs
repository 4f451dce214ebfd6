//! User data of checked callbacks: numbers into a static table, so that unknown user data is never dereferenced.
//!
//! ```text
//!   pUserData = generation * 262144 + place       place: Slot { user data, address of what is watched, next free place }
//! ```
//!
//! A place is reused with another generation: a call with the old number is stray. Pages of the table that were never
//! used occupy no memory.

use core::ffi::c_void;
use core::num::NonZeroUsize;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use alloc_core::support::StateMutex;

const PLACES: usize = 1 << 18;

struct UserDataSlot {
    /// The last user data of this place; 0 before the first.
    user_data: AtomicUsize,
    /// NULL while the place is free.
    watched: AtomicPtr<c_void>,
    /// While the place is free: the one below in the stack of [`FREE`], plus 1; 0 for none.
    next_free: AtomicU32,
}

static SLOTS: [UserDataSlot; PLACES] = [const {
    UserDataSlot {
        user_data: AtomicUsize::new(0),
        watched: AtomicPtr::new(ptr::null_mut()),
        next_free: AtomicU32::new(0),
    }
}; PLACES];

struct FreePlaces {
    /// The top of the stack of places that were used before, plus 1; 0 for none.
    top: u32,
    unused: u32,
}

static FREE: StateMutex<FreePlaces> = StateMutex::new(FreePlaces { top: 0, unused: 0 });

pub(crate) fn claim(watched: *mut c_void) -> Option<*mut c_void> {
    let (place, slot) = {
        let mut free = FREE.lock();
        let place = free.top.checked_sub(1).unwrap_or(free.unused);
        let slot = SLOTS.get(place as usize)?;
        match free.top {
            0 => free.unused = free.unused.saturating_add(1),
            _ => free.top = slot.next_free.load(Ordering::Relaxed),
        }
        (place as usize, slot)
    };
    // From 1, so that no user data is NULL.
    let generation = (slot.user_data.load(Ordering::Relaxed) / PLACES).wrapping_add(1);
    let user_data = generation.wrapping_mul(PLACES) | place;
    slot.user_data.store(user_data, Ordering::Relaxed);
    slot.watched.store(watched, Ordering::Release);
    Some(ptr::without_provenance_mut(user_data))
}

#[inline]
pub(crate) fn find(user_data: *mut c_void) -> Option<*mut c_void> {
    let slot = SLOTS.get(user_data.addr() % PLACES)?;
    let watched = slot.watched.load(Ordering::Acquire);
    let is_current = slot.user_data.load(Ordering::Relaxed) == user_data.addr();
    (is_current && !watched.is_null()).then_some(watched)
}

pub(crate) fn is_current(user_data: NonZeroUsize) -> bool {
    find(ptr::without_provenance_mut(user_data.get())).is_some()
}

/// Frees the place, once; later calls with this user data are stray.
pub(crate) fn release(user_data: *mut c_void) {
    let place = user_data.addr() % PLACES;
    let Some(slot) = SLOTS.get(place) else { return };
    slot.watched.store(ptr::null_mut(), Ordering::Release);
    let mut free = FREE.lock();
    slot.next_free.store(free.top, Ordering::Relaxed);
    free.top = (place as u32).saturating_add(1);
}

static STRANGE: AtomicU64 = AtomicU64::new(0);

/// The number of calls with user data that no checker of this process returned, or whose checker ended, outside of any
/// checked command. They were answered with NULL, or ignored.
#[must_use]
pub fn stray_callbacks() -> u64 {
    STRANGE.load(Ordering::Relaxed)
}

pub(crate) fn one_more_stray() {
    STRANGE.fetch_add(1, Ordering::Relaxed);
}
