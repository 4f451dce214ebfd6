//! The bridges of this process by number: a block goes back through its own bridge (law 4).
//!
//! A bridge with a live block does not end. So the header of a live block, which is verified first, shows that the
//! state is there.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use alloc_core::ContextHandle;

use super::block_header::key_of;
use super::entry::callbacks_of;
use super::state::BridgeState;
use crate::header::Word0;
use crate::raw::RawCallbacks;

type State = BridgeState<ContextHandle>;

/// Numbers are consecutive: bridges share a place only if very many live.
const PLACES: usize = 1 << 14;
/// A bridge without a place is not known to the others.
const TRIES: usize = 8;

struct BridgePlace {
    /// 0 while the place is free, or not ready.
    number: AtomicU32,
    /// NULL while the place is free.
    state: AtomicPtr<State>,
}

static TABLE: [BridgePlace; PLACES] =
    [const { BridgePlace { number: AtomicU32::new(0), state: AtomicPtr::new(ptr::null_mut()) } }; PLACES];

fn places_of(number: u32) -> impl Iterator<Item = &'static BridgePlace> {
    let first = number as usize;
    (first..first.saturating_add(TRIES)).filter_map(|place| TABLE.get(place % PLACES))
}

/// Adds a bridge with its number, before its callbacks are handed out.
pub(super) fn add(number: u32, state: NonNull<State>) {
    let null = ptr::null_mut();
    let is_mine = |place: &&BridgePlace| {
        let state = state.as_ptr();
        let taken = place.state.compare_exchange(null, state, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    };
    if let Some(place) = places_of(number).find(is_mine) {
        place.number.store(number, Ordering::Release);
    }
}

pub(super) fn remove(number: u32) {
    let is_mine = |place: &&BridgePlace| place.number.load(Ordering::Acquire) == number;
    if let Some(place) = places_of(number).find(is_mine) {
        place.number.store(0, Ordering::Release);
        place.state.store(ptr::null_mut(), Ordering::Release);
    }
}

#[cold]
pub(super) fn callbacks_of_block(payload: NonNull<u8>, word0: Word0, word1: u64) -> Option<RawCallbacks> {
    let number = word1 as u32;
    let is_it = |place: &&BridgePlace| place.number.load(Ordering::Acquire) == number;
    let place = places_of(number).filter(|_| number != 0).find(is_it)?;
    let state = NonNull::new(place.state.load(Ordering::Acquire))?;
    // If the bridge has ended meanwhile, the state is another's or gone, and so is its key: nothing is read from it
    // yet.
    let key = key_of(state.as_ptr().addr(), number);
    if word1 != key.live(payload.addr().get(), word0) {
        return None;
    }
    // SAFETY: the header is that of a live block of this state's bridge, which therefore has not ended.
    let alive = unsafe { state.as_ref() };
    Some(callbacks_of(alive, state.as_ptr()))
}
