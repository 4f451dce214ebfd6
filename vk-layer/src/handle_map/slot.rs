//! A thread that removes a pair names the turn in which it saw the pair: a slot that holds another pair meanwhile has another turn. So no
//! thread removes, or hides for a moment, another pair than it meant, though key, value and turn are three words.
#![forbid(unsafe_code)]

use std::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

pub(crate) const NO_KEY: usize = 0;

/// The meaning of a turn, by its remainder: free, then used, then being removed, then free again in the next turn.
const FREE: usize = 0;
const USED: usize = 1;
const MEANINGS: usize = 4;

pub(crate) struct Slot {
    turn: AtomicUsize,
    pub(crate) key: AtomicUsize,
    value: AtomicPtr<()>,
    /// The largest distance from this slot of a key whose own slot this is. It never decreases.
    pub(crate) reach: AtomicUsize,
}

impl Slot {
    pub(crate) const fn new() -> Self {
        Self {
            turn: AtomicUsize::new(0),
            key: AtomicUsize::new(NO_KEY),
            value: AtomicPtr::new(ptr::null_mut()),
            reach: AtomicUsize::new(0),
        }
    }

    pub(crate) fn claim(&self) -> bool {
        // Loads first, since an exchange takes the slot's cache line from threads that read it.
        let turn = self.turn.load(Ordering::Relaxed);
        turn % MEANINGS == FREE
            && self
                .turn
                .compare_exchange(
                    turn,
                    turn.wrapping_add(USED),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    pub(crate) fn fill(&self, key: usize, value: NonNull<()>, before: impl FnOnce()) {
        self.value.store(value.as_ptr(), Ordering::Release);
        before();
        self.key.store(key, Ordering::Release);
    }

    #[inline]
    pub(crate) fn has(&self, key: usize) -> bool {
        self.key.load(Ordering::Acquire) == key
    }

    #[inline]
    pub(crate) fn value(&self) -> Option<NonNull<()>> {
        NonNull::new(self.value.load(Ordering::Acquire))
    }

    pub(crate) fn remove(&self, key: usize, named: Option<NonNull<()>>) -> Option<NonNull<()>> {
        let turn = self.turn.load(Ordering::Acquire);
        if turn % MEANINGS != USED || !self.has(key) {
            return None;
        }
        let value = self.value()?;
        if named.is_some_and(|named| named != value) {
            return None;
        }
        // The key and the value are of this turn, and this turn is not over.
        self.turn
            .compare_exchange(
                turn,
                turn.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .ok()?;
        self.key.store(NO_KEY, Ordering::Release);
        let next = turn.wrapping_add(MEANINGS - USED);
        self.turn.store(next, Ordering::Release);
        Some(value)
    }
}
