//! A place for one pair, without a lock.
//!
//! Whoever takes a pair out names the turn in which it saw it: a slot that went to another pair meanwhile has another turn. So nobody takes
//! out, nor hides for a moment, what it did not mean, though key, value and turn are three words.
#![forbid(unsafe_code)]

use std::ptr::{self, NonNull};

use crate::sync::{AtomicPtr, AtomicUsize, Ordering};

/// What stands for a key where there is none.
pub(crate) const NO_KEY: usize = 0;

/// What a turn means, by its rest: free, then used, then being taken out, then free again, in the next turn.
const FREE: usize = 0;
const USED: usize = 1;
const MEANINGS: usize = 4;

pub(crate) struct Slot {
    turn: AtomicUsize,
    pub(crate) key: AtomicUsize,
    value: AtomicPtr<()>,
    /// Keys whose own slot this is lie at most so many slots behind it. Never less than it was.
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

    /// Makes a free slot this thread's, which fills it.
    pub(crate) fn claim(&self) -> bool {
        // A look first, since an exchange takes the slot's line from threads that read it.
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

    /// Puts a pair into a slot that this thread has claimed; `before` runs before the key is there.
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

    /// Takes the pair out if it has this key, and this value if one is named. `None` too where another thread is taking it out.
    pub(crate) fn remove(&self, key: usize, named: Option<NonNull<()>>) -> Option<NonNull<()>> {
        let turn = self.turn.load(Ordering::Acquire);
        if turn % MEANINGS != USED || !self.has(key) {
            return None;
        }
        let value = self.value()?;
        if named.is_some_and(|named| named != value) {
            return None;
        }
        // What was read is of this turn, and this turn is not over.
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
