//! An owner is released while others ask for its shader: strictly, all of it goes or none; by force, what is held goes with its last hold.

use loom::thread::spawn;

use super::shelf::Shelf;
use crate::harness::{Mutant, holds_and_catches};

fn uses(shelf: &Shelf, slot: usize) -> bool {
    let Some(held) = shelf.finds(slot, 1) else {
        return false;
    };
    shelf.reads(held, 1);
    shelf.lets_go(held);
    true
}

/// When it says that it released, the owner's memory goes at once: a hold that came in between would give its shader back to it later.
fn released_while_others_ask() {
    let shelf = Shelf::new(true);
    shelf.makes(1, 0, true);
    let readers = [0, 1].map(|slot| spawn(move || uses(shelf, slot)));
    let released = shelf.releases();
    if released {
        shelf.owner_ends();
    }
    for reader in readers {
        reader.join().expect("a reader ends");
    }
    assert_eq!(shelf.left(), usize::from(!released));
}

#[test]
fn a_strict_release_and_a_hold_see_each_other() {
    holds_and_catches(Mutant::ChecksFirst, released_while_others_ask);
}

#[test]
fn a_strict_release_and_a_hold_are_in_one_order_for_all() {
    holds_and_catches(Mutant::NoFences, released_while_others_ask);
}

/// It is held all the time, so the release is refused: nobody sees that it was tried.
#[test]
fn a_strict_release_that_is_refused_changes_nothing() {
    holds_and_catches(Mutant::LooksOnce, || {
        let shelf = Shelf::new(true);
        shelf.makes(1, 1, true);
        let reader = spawn(move || assert!(uses(shelf, 0), "it is there"));
        assert!(!shelf.releases(), "it is held");
        shelf.lets_go(Shelf::counted(0));
        reader.join().expect("the reader ends");
        assert_eq!(shelf.left(), 1);
    });
}

/// By force: what somebody holds is destroyed by whoever lets go last, be it at that moment, on another thread.
#[test]
fn a_forced_release_and_a_hold_that_is_let_go_destroy_once() {
    holds_and_catches(Mutant::NoFences, || {
        let shelf = Shelf::new(true);
        shelf.makes(1, 1, true);
        let held = Shelf::counted(0);
        let work = spawn(move || {
            shelf.reads(held, 1);
            shelf.lets_go(held);
        });
        let reader = spawn(move || uses(shelf, 0));
        shelf.deletes(1);
        work.join().expect("the work ends");
        reader.join().expect("the reader ends");
        assert!(!uses(shelf, 1), "nobody finds it");
        assert_eq!(shelf.left(), 0);
    });
}
