//! Handlers that are changed while dispatches begin and end, and turns at one context.

use loom::cell::UnsafeCell;
use loom::thread::spawn;

use super::dispatch_lock::DispatchLock;
use super::error::ContextError;
use super::register::ContextRegister;
use crate::harness::{Mutant, holds_and_catches, mutant};

/// What a pair of handlers works on; its halves are one object's, so none may be called after the pair was taken out.
struct Pair {
    /// Read by its handlers, written when it was replaced: loom reports what is not ordered.
    acquired: UnsafeCell<bool>,
}

// SAFETY: loom watches over the cell.
unsafe impl Sync for Pair {}
// SAFETY: loom watches over the cell.
unsafe impl Send for Pair {}

struct Table {
    register: ContextRegister<(), &'static Pair>,
}

impl Table {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self { register: ContextRegister::new() }))
    }

    fn pair() -> &'static Pair {
        Box::leak(Box::new(Pair { acquired: UnsafeCell::new(true) }))
    }

    /// As a dispatch does: acquire, release, with what was read in the beginning.
    fn dispatches(&self) {
        let (handlers, _) = self.register.begin();
        if mutant() == Mutant::Uncounted {
            self.register.end();
        }
        let pair = handlers.expect("a pair was set");
        for half in ["acquire", "release"] {
            // SAFETY: loom panics where the replacement is not ordered with this.
            pair.acquired.with(|there| assert!(unsafe { *there }, "{half} of a pair that was taken out"));
        }
        if mutant() != Mutant::Uncounted {
            self.register.end();
        }
    }

    /// Another pair; the one before is given up at once. True where it was changed.
    fn changes(&self) -> bool {
        match self.register.set_handlers(Some(Self::pair())) {
            Ok(before) => {
                let before = before.expect("a pair was set");
                // SAFETY: loom panics where the replacement is not ordered with other uses.
                before.acquired.with_mut(|there| unsafe { *there = false });
                true
            }
            Err(error) => {
                assert_eq!(error, ContextError::HandlersInUse);
                false
            }
        }
    }
}

fn handlers_changed_under_dispatches() {
    let table = Table::new();
    assert!(matches!(table.register.set_handlers(Some(Table::pair())), Ok(None)));
    let dispatch = spawn(move || table.dispatches());
    let other = spawn(move || table.changes());
    table.changes();
    dispatch.join().expect("the dispatch ends");
    other.join().expect("the other one ends");
    assert!(table.changes(), "nobody has one any more");
}

#[test]
fn a_dispatch_has_both_handlers_of_one_pair() {
    holds_and_catches(Mutant::Uncounted, handlers_changed_under_dispatches);
}

#[test]
fn handlers_change_and_dispatches_begin_one_after_the_other() {
    holds_and_catches(Mutant::NoLocks, handlers_changed_under_dispatches);
}

/// What a dispatch writes in its turn the next one reads.
fn turns_of_two() {
    let all: &'static (DispatchLock, DispatchCount) =
        Box::leak(Box::new((DispatchLock::new(), DispatchCount(UnsafeCell::new(0)))));
    let turn = |thread| {
        let held = all.0.enter(thread).expect("this thread is in no turn");
        assert!(all.0.enter(thread).is_none(), "it would wait for itself");
        // SAFETY: loom panics where two are not ordered.
        all.1.0.with_mut(|count| unsafe { *count += 1 });
        drop(held);
    };
    let other = spawn(move || turn(2));
    turn(1);
    turn(1);
    other.join().expect("it has had its turn");
    // SAFETY: loom panics where two uses are not ordered.
    assert_eq!(all.1.0.with(|count| unsafe { *count }), 3);
}

struct DispatchCount(UnsafeCell<u32>);

// SAFETY: loom watches over the cell.
unsafe impl Sync for DispatchCount {}

#[test]
fn one_dispatch_at_a_time_has_a_context() {
    holds_and_catches(Mutant::RelaxedExchanges, turns_of_two);
}
