//! An insertion evicts what nobody holds, and moves it out of its block under the lock; what is held goes with its hold.

use loom::thread::spawn;

use super::shelf::Shelf;
use crate::harness::{Mutant, holds_and_catches};

/// A reader meets an eviction, whose block the next shader has at once.
fn evicted_while_others_ask() {
    let shelf = Shelf::with_limit(true, true);
    shelf.makes(1, 0, true);
    let reader = spawn(move || {
        if let Some(held) = shelf.finds(0, 1) {
            shelf.reads(held, 1);
            shelf.lets_go(held);
        }
    });
    if shelf.evicts() {
        shelf.makes(2, 0, true);
        // The reader may name it for a moment, as what lay there before.
        shelf.evicts();
    }
    reader.join().expect("the reader ends");
    assert_eq!(shelf.left(), 0);
}

#[test]
fn a_shader_that_moves_out_is_held_by_nobody() {
    holds_and_catches(Mutant::NoFences, evicted_while_others_ask);
}

/// What an eviction met named by a reader who held nothing goes with that name.
#[test]
fn what_was_named_for_a_moment_does_not_stay_above_the_limit() {
    holds_and_catches(Mutant::LooksAway, evicted_while_others_ask);
}

/// What an eviction met held does not stay above the limit when its hold, counted or not, is let go at that moment.
#[test]
fn what_was_held_above_the_limit_goes_with_its_hold() {
    holds_and_catches(Mutant::NoFences, || {
        let shelf = Shelf::with_limit(true, true);
        shelf.makes(1, 1, true);
        let work = spawn(move || shelf.lets_go(Shelf::counted(0)));
        let reader = spawn(move || {
            if let Some(held) = shelf.finds(0, 1) {
                shelf.reads(held, 1);
                shelf.lets_go(held);
            }
        });
        shelf.evicts();
        work.join().expect("the work ends");
        reader.join().expect("the reader ends");
        assert_eq!(shelf.left(), 0);
    });
}
