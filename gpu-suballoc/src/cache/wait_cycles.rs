//! Which threads wait for which compiles, in all caches of the process. Threads in a cycle would wait for ever, so the call that would close
//! the cycle fails instead.
//!
//! ```text
//!   thread 1: compiles A, waits for B  -->  led by thread 2: compiles B, waits for A  -->  led by thread 1
//! ```
//!
//! A list through the stacks of the waiting threads: it needs no memory and has no limit. Of a cache it refers only to the state of an
//! in-flight compile.

use core::cell::Cell;
use core::ptr::NonNull;

use super::in_flight_compile::RUNNING;
use crate::sync::{AtomicU32, Ordering::Acquire, StateMutex};

/// Acquired within a cache's lock, never the other way round.
static WAITING: StateMutex<List> = StateMutex::new(List(None));

struct List(Option<NonNull<Wait>>);

// SAFETY: what it leads to is touched under its lock alone, and is taken out before it goes.
unsafe impl Send for List {}

/// One waiting thread.
pub(super) struct Wait {
    /// The waiting thread, and the leader of its compile. Under the list's lock, as the whole struct.
    thread: Cell<u64>,
    leader: Cell<u64>,
    /// Of the flight.
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

    /// The thread waits for a flight of `leader`'s from now on. False where that waits for this thread, by way of others or at once: then
    /// nothing is changed.
    ///
    /// # Safety
    /// It waits for nothing now; it is neither moved nor forgotten before it was [ended](Self::end) or dropped; and `state` stays as long.
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

    /// The thread does not wait any more.
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

    /// True while the compile runs: once it ended, the thread does not wait, even if it has not woken yet.
    fn is_for(&self, thread: u64) -> bool {
        // SAFETY: the state stays until this is taken out of the list, as `begin` was promised.
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
            // SAFETY: in the list, so not dropped yet: `end` takes it out, under this lock.
            let wait = unsafe { there.as_ref() };
            if is(wait) {
                return Some(wait);
            }
            at = wait.next.get();
        }
        None
    }

    /// Who leads what a thread waits for.
    fn leader_of(&self, thread: u64) -> Option<u64> {
        self.find(|wait| wait.is_for(thread))
            .map(|wait| wait.leader.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering::Release;

    /// Numbers that no thread of this process has.
    const FROM: u64 = 1 << 60;

    #[test]
    fn whoever_would_close_a_circle_is_told_and_one_that_has_landed_is_none() {
        let flights = [const { AtomicU32::new(RUNNING) }; 4];
        let waits = [const { Wait::new() }; 4];
        // SAFETY: none is moved, each is ended or dropped before its flight.
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
