//! Who holds a shader while it goes: it stays as it is until the last has let go, and then it is destroyed, once.

use loom::thread::spawn;

use super::shelf::Shelf;
use crate::harness::{Mutant, holds_and_catches};

fn uses(shelf: &Shelf, slot: usize, key: u64) {
    if let Some(held) = shelf.finds(slot, key) {
        shelf.reads(held, key);
        shelf.lets_go(held);
    }
}

/// Two readers, one of each slot, while a writer deletes: nothing is left when all have ended.
fn deleted_under_two_readers(shelf: &'static Shelf) {
    shelf.makes(1, 0, true);
    let readers = [0, 1].map(|slot| spawn(move || uses(shelf, slot, 1)));
    shelf.deletes(1);
    for reader in readers {
        reader.join().expect("a reader ends");
    }
    assert_eq!(shelf.left(), 0);
}

#[test]
fn a_delete_and_two_readers_see_each_other() {
    holds_and_catches(Mutant::NoFences, || {
        let shelf = Shelf::new(true);
        deleted_under_two_readers(shelf);
    });
}

/// The entry is another shader's while a reader still has the word that led to it.
#[test]
fn an_entry_that_is_used_again_is_not_taken_for_what_it_was() {
    holds_and_catches(Mutant::LooksFirst, || {
        let shelf = Shelf::new(true);
        shelf.makes(1, 0, true);
        let reader = spawn(move || uses(shelf, 0, 1));
        shelf.deletes(1);
        if shelf.has_room() {
            shelf.makes(2, 0, true);
            let held = shelf.finds(1, 2).expect("it is there");
            shelf.reads(held, 2);
            shelf.lets_go(held);
        }
        reader.join().expect("the reader ends");
        shelf.left();
        uses(shelf, 1, 1);
    });
}

/// Neither reader has a record: one claims the word of the common one, the other one counts in the entry.
#[test]
fn holds_that_are_counted_and_holds_in_the_common_record_are_both_seen() {
    holds_and_catches(Mutant::NoFences, || {
        let shelf = Shelf::new(false);
        shelf.gets_common_record();
        deleted_under_two_readers(shelf);
    });
}

/// A reader names a block that is gone, and is another shader's by now, which is deleted meanwhile.
#[test]
fn who_named_what_it_does_not_hold_looks_among_the_dead() {
    holds_and_catches(Mutant::LooksAway, || {
        let shelf = Shelf::new(true);
        shelf.makes(1, 0, true);
        let reader = spawn(move || uses(shelf, 0, 1));
        shelf.deletes(1);
        if shelf.has_room() {
            shelf.makes(2, 0, true);
            shelf.deletes(2);
        }
        reader.join().expect("the reader ends");
        assert_eq!(shelf.left(), 0);
    });
}

/// A thread's first hold makes its record.
#[test]
fn a_record_that_is_new_is_seen() {
    holds_and_catches(Mutant::NoFences, || {
        let shelf = Shelf::new(false);
        shelf.makes(1, 0, true);
        let reader = spawn(move || {
            shelf.gets_record(0);
            uses(shelf, 0, 1);
        });
        shelf.deletes(1);
        reader.join().expect("the reader ends");
        assert_eq!(shelf.left(), 0);
    });
}

#[test]
fn a_hold_that_moves_to_the_count_is_held_all_the_time() {
    holds_and_catches(Mutant::LeavesFirst, || {
        let shelf = Shelf::new(true);
        shelf.makes(1, 0, true);
        let work = spawn(move || {
            if let Some(held) = shelf.finds(0, 1) {
                let held = shelf.counts(held);
                shelf.reads(held, 1);
                shelf.lets_go(held);
            }
        });
        shelf.deletes(1);
        work.join().expect("the work ends");
        assert_eq!(shelf.left(), 0);
    });
}

/// What is there before, during and after the growth is found, in whichever table the reader looks.
#[test]
fn a_growth_hides_nothing_from_a_reader() {
    holds_and_catches(Mutant::RelaxedStores, || {
        let shelf = Shelf::new(true);
        shelf.makes(1, 0, true);
        let readers = [0, 1].map(|slot| {
            spawn(move || {
                let held = shelf.finds(slot, 1).expect("it is there");
                shelf.reads(held, 1);
                shelf.lets_go(held);
            })
        });
        shelf.grows();
        for reader in readers {
            reader.join().expect("a reader ends");
        }
        assert_eq!(shelf.left(), 1);
    });
}

/// Nobody holds by a place of the older table what was deleted from the newer.
#[test]
fn what_an_older_table_said_is_not_believed() {
    holds_and_catches(Mutant::KeepsPlaces, || {
        let shelf = Shelf::new(true);
        shelf.makes(1, 0, true);
        let reader = spawn(move || uses(shelf, 0, 1));
        shelf.grows();
        shelf.deletes(1);
        reader.join().expect("the reader ends");
        assert_eq!(shelf.left(), 0);
    });
}
