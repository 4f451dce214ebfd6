//! Which threads wait for which compiles, in all caches of the process. Threads in a cycle would wait for ever, so the call that would
//! close the cycle fails.
//!
//! ```text
//!   thread 1: compiles A, waits for B  -->  led by thread 2: compiles B, waits for A  -->  led by thread 1
//! ```
//!
//! A list through the stacks of the waiting threads: it needs no memory and has no limit. Of a cache it refers only to the state of a
//! waiting thread.

use core::cell::Cell;
use core::ptr::NonNull;

use super::compile::RUNNING;
use crate::sync::{AtomicU32, Ordering::Acquire, StateMutex};

/// Acquired while a cache's lock may be held, never the other way round.
static WAITING: StateMutex<List> = StateMutex::new(List(None));

struct List(Option<NonNull<Wait>>);

// SAFETY: its nodes are accessed only under its lock, and removed before they are dropped.
unsafe impl Send for List {}

pub(super) struct Wait {
    /// The waiting thread, and the leader of its compile. All fields are accessed only under the list's lock.
    thread: Cell<u64>,
    leader: Cell<u64>,
    /// Its state while the compile runs.
    state: Cell<Option<NonNull<AtomicU32>>>,
    next: Cell<Option<NonNull<Wait>>>,
}

impl Wait {
    pub(super) const fn new() -> Self {
        Self {
            thread: Cell::new(0),
            leader: Cell::new(0),
            state: Cell::new(None),
            next: Cell::new(None),
        }
    }

    /// Starts to wait for a compile that `leader` runs. False, and nothing changed, if `leader` is this thread or waits for it, directly or
    /// through others.
    ///
    /// # Safety
    /// It must not be waiting; it must be neither moved nor forgotten before it is [ended](Self::end) or dropped; and `state` must live as
    /// long.
    pub(super) unsafe fn begin(&self, thread: u64, leader: u64, state: &AtomicU32) -> bool {
        let mut list = WAITING.lock();
        let mut after = leader;
        while after != thread {
            let Some(next) = list.leader_of(after) else {
                self.thread.set(thread);
                self.leader.set(leader);
                self.state.set(Some(NonNull::from(state)));
                self.next.set(list.0);
                list.0 = Some(NonNull::from(self));
                return true;
            };
            after = next;
        }
        false
    }

    /// Stops waiting.
    pub(super) fn end(&self) {
        if self.state.get().is_none() {
            return;
        }
        let mut list = WAITING.lock();
        self.state.set(None);
        let (this, next) = (NonNull::from(self), self.next.take());
        if list.0 == Some(this) {
            list.0 = next;
        } else if let Some(before) = list.find(|wait| wait.next.get() == Some(this)) {
            before.next.set(next);
        }
    }

    /// True if the thread waits for a compile that still runs. Once the compile ended, the thread does not count, even if it has not woken
    /// yet.
    fn is_for(&self, thread: u64) -> bool {
        // SAFETY: the state lives until this is removed from the list, as the caller of `begin` promised.
        let flies = |state: NonNull<AtomicU32>| unsafe { state.as_ref() }.load(Acquire) == RUNNING;
        self.thread.get() == thread && self.state.get().is_some_and(flies)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.end();
    }
}

impl List {
    fn find(&self, is: impl Fn(&Wait) -> bool) -> Option<&Wait> {
        let mut at = self.0;
        while let Some(there) = at {
            // SAFETY: in the list, so not dropped yet: `end` removes it, under this lock.
            let wait = unsafe { there.as_ref() };
            if is(wait) {
                return Some(wait);
            }
            at = wait.next.get();
        }
        None
    }

    /// The leader of the compile that a thread waits for.
    fn leader_of(&self, thread: u64) -> Option<u64> {
        self.find(|wait| wait.is_for(thread))
            .map(|wait| wait.leader.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering::Release;

    /// Thread numbers from here on are not used in this process.
    const FROM: u64 = 1 << 60;

    #[test]
    fn whoever_would_close_a_circle_is_told_and_one_that_has_landed_is_none() {
        let flights = [const { AtomicU32::new(RUNNING) }; 4];
        let waits = [const { Wait::new() }; 4];
        // SAFETY: none is moved; each is ended or dropped before its state.
        let begin = |thread: usize, leader: usize| unsafe {
            waits[thread].begin(FROM + thread as u64, FROM + leader as u64, &flights[leader])
        };
        assert!(!begin(0, 0), "it leads what it asks for");
        assert!(begin(0, 1) && begin(1, 2) && begin(2, 3));
        assert!(!begin(3, 0) && !begin(3, 2) && !begin(3, 3));
        flights[2].store(2, Release);
        assert!(
            begin(3, 0),
            "1 does not wait for 2 any more, though it has not noticed"
        );
        waits[3].end();
        waits[1].end();
        flights[2].store(RUNNING, Release);
        assert!(begin(3, 1), "and 1 waits for nobody");
        waits.iter().for_each(Wait::end);
        waits.iter().for_each(Wait::end);
        assert!(begin(3, 0), "nobody waits");
    }
}
