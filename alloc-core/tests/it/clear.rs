//! Clearing a context: what it owned when the call began is destroyed, and nothing that came later.
//!
//! Runs under miri.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::thread;

use crate::scene::{DropLog, Last, own, root_over};
use crate::witness::Witness;

/// A clear within a clear destroys what the outer one has not come to, and what came in between.
#[test]
fn clear_within_a_clear_destroys_what_was_there_when_it_began_itself() {
    let (witness, log) = (Witness::new(), DropLog::default());
    let root = root_over(&witness);
    let child = Arc::new(root.child("child").unwrap());
    own(&child, log.value(1));
    let (context, notes) = (Arc::downgrade(&child), log.clone());
    own(
        &child,
        Last(move || {
            let context = context.upgrade().expect("it is being cleared");
            notes.note(2);
            own(&context, notes.value(4));
            context.clear();
            own(&context, notes.value(5));
        }),
    );
    own(&child, log.value(3));
    child.clear();
    assert_eq!(log.take(), [3, 2, 4, 1]);
    assert_eq!(child.owned_values(), 1);
    drop((child, root));
    assert_eq!(log.take(), [5]);
    witness.assert_empty();
}

/// Two threads clear, a third gives: every value goes once, and none that came before both began is left.
#[test]
fn clear_on_two_threads_beside_a_third_that_gives() {
    let rounds = if cfg!(miri) { 1 } else { 200 };
    let witness = Witness::new();
    let root = root_over(&witness);
    for _ in 0..rounds {
        let log = DropLog::default();
        let before: Vec<_> = (0..20).map(|_| root.own(log.value(0)).map_err(|back| back.error).unwrap()).collect();
        let start = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    start.wait();
                    root.clear();
                });
            }
            start.wait();
            for _ in 0..20 {
                own(&root, log.value(1));
            }
        });
        assert!(before.into_iter().all(|id| root.get_mut(id).is_err()));
        let (gone, left) = (log.take().len(), root.owned_values());
        assert_eq!(gone + left, 40);
        root.clear();
        assert_eq!((log.take().len(), root.owned_values()), (left, 0));
    }
    drop(root);
    witness.assert_empty();
}

/// Where a destructor panics, the rest of what was there goes all the same, and nothing that came later.
#[test]
fn clear_goes_on_after_a_panic_to_the_same_end() {
    let (witness, log) = (Witness::new(), DropLog::default());
    let root = root_over(&witness);
    own(&root, log.value(1));
    let (handle, notes) = (root.handle(), log.clone());
    own(
        &root,
        Last(move || {
            own(&handle, notes.value(3));
            panic!("on purpose")
        }),
    );
    own(&root, log.value(2));
    assert!(catch_unwind(AssertUnwindSafe(|| root.clear())).is_err());
    assert_eq!((log.take(), root.owned_values()), (vec![2, 1], 1));
    drop(root);
    assert_eq!(log.take(), [3]);
    witness.assert_empty();
}
