//! Which user data was handed out: numbers into one table of the process, so that a strange one is found without following it.
//!
//! ```text
//!   pUserData = generation * 4096 + place         place: Slot { generation, address of what is watched }
//! ```
//!
//! A place is used again once its checker is gone, under another generation: who calls with the old number is not let in.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const PLACES: usize = 4096;

struct Slot {
    /// The user data of whoever is here; 0 while nobody is or somebody is moving in.
    user_data: AtomicUsize,
    generation: AtomicUsize,
    watched: AtomicPtr<c_void>,
}

static SLOTS: [Slot; PLACES] = [const {
    Slot { user_data: AtomicUsize::new(0), generation: AtomicUsize::new(0), watched: AtomicPtr::new(ptr::null_mut()) }
}; PLACES];

/// Takes a place for what is watched. Answers with the user data to hand out; `None` when all places are taken.
pub(crate) fn claim(watched: *mut c_void) -> Option<*mut c_void> {
    for (place, slot) in SLOTS.iter().enumerate() {
        let free = slot.watched.load(Ordering::Relaxed).is_null();
        if free && slot.watched.compare_exchange(ptr::null_mut(), watched, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // From 1, so that no user data is NULL.
            let generation = slot.generation.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let user_data = generation.wrapping_mul(PLACES) | place;
            slot.user_data.store(user_data, Ordering::Release);
            return Some(ptr::without_provenance_mut(user_data));
        }
    }
    None
}

/// What the user data was handed out for, if it was and still is.
#[inline]
pub(crate) fn find(user_data: *mut c_void) -> Option<*mut c_void> {
    let slot = SLOTS.get(user_data.addr() % PLACES)?;
    if slot.user_data.load(Ordering::Acquire) != user_data.addr() || user_data.is_null() {
        return None;
    }
    Some(slot.watched.load(Ordering::Acquire))
}

/// Gives the place back; calls with this user data are strange from here on.
pub(crate) fn release(user_data: *mut c_void) {
    if let Some(slot) = SLOTS.get(user_data.addr() % PLACES)
        && slot.user_data.compare_exchange(user_data.addr(), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        slot.watched.store(ptr::null_mut(), Ordering::Release);
    }
}

static STRANGE: AtomicU64 = AtomicU64::new(0);

/// How many calls came with user data that no checker of this process handed out, or whose checker is gone, and outside of any
/// command that a checker watched. They were answered with NULL, or nothing was done.
#[must_use]
pub fn stray_callbacks() -> u64 {
    STRANGE.load(Ordering::Relaxed)
}

pub(crate) fn one_more_stray() {
    STRANGE.fetch_add(1, Ordering::Relaxed);
}
