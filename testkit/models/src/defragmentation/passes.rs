//! A pass beside readers, mappings and frees. Rows DF3, DF4 and DF6.

use loom::thread::spawn;

use super::moved_region::{COMMIT, Freed, MovedRegion};
use super::root_state::MoveOutcome;
use crate::harness::{Mutant, holds_and_catches};

fn moved_beside_two_readers() {
    let region = MovedRegion::new(true);
    let readers = [(); 2].map(|()| spawn(move || region.reads()));
    assert!(region.moves(COMMIT), "reading is no use");
    for reader in readers {
        reader.join().expect("the reader ends");
    }
    region.reads();
    assert_eq!(region.left(), 1);
}

#[test]
fn df4_place_and_resource_change_in_one_step() {
    holds_and_catches(Mutant::ReadsApart, moved_beside_two_readers);
}

#[test]
fn df6_the_two_locks_are_taken_in_one_order() {
    holds_and_catches(Mutant::LocksCrosswise, moved_beside_two_readers);
}

/// Two free it during the pass: one of them has freed it, and the device copied what was there.
#[test]
fn df6_a_region_that_is_freed_meanwhile_goes_once_and_with_the_pass() {
    holds_and_catches(Mutant::FreesAtOnce, || {
        let region = MovedRegion::new(true);
        let freeing = [(); 2].map(|()| spawn(move || region.frees(false)));
        region.moves(COMMIT);
        let freed = freeing.map(|thread| thread.join().expect("a thread ends"));
        assert!(freed == [Freed::Yes, Freed::Stale] || freed == [Freed::Stale, Freed::Yes]);
        assert_eq!(region.left(), 0);
        assert_eq!(region.frees(false), Freed::Stale);
    });
}

#[test]
fn df6_what_is_mapped_meanwhile_stays_where_it_is() {
    holds_and_catches(Mutant::UnnotedUse, || {
        let region = MovedRegion::new(true);
        let user = spawn(move || region.maps());
        let reader = spawn(move || region.reads());
        region.moves(COMMIT);
        assert!(user.join().expect("the user ends"));
        reader.join().expect("the reader ends");
        assert_eq!(region.left(), 1);
        assert!(region.maps());
    });
}

/// Freed while it is mapped and moved: the last of the three that end frees it.
fn freed_while_mapped_and_moved(ending: MoveOutcome) {
    let region = MovedRegion::new(true);
    let user = spawn(move || region.maps());
    let freer = spawn(move || region.frees(true));
    region.moves(ending);
    user.join().expect("the user ends");
    // The end of the move may have been first.
    assert!(freer.join().expect("the freer ends") == Freed::Yes || ending == MoveOutcome::Destroyed);
    assert_eq!(region.left(), 0);
}

#[test]
fn df6_a_region_that_waits_for_its_mapping_goes_with_the_last_of_both() {
    holds_and_catches(Mutant::FreesAtOnce, || freed_while_mapped_and_moved(COMMIT));
}

#[test]
fn df3_what_the_pass_destroys_and_others_free_goes_once() {
    holds_and_catches(Mutant::NoLocks, || {
        freed_while_mapped_and_moved(MoveOutcome::Destroyed);
    });
}

/// A bare region is freed under the pool's lock alone, while a record is attached to it.
#[test]
fn df6_a_bare_region_is_freed_or_gets_its_record_and_never_both() {
    holds_and_catches(Mutant::TornExchanges, || {
        let region = MovedRegion::new(false);
        let freer = spawn(move || region.frees(false));
        if region.attaches_record() {
            region.moves(COMMIT);
            assert_eq!(freer.join().expect("the freer ends"), Freed::Yes);
            assert_eq!(region.left(), 0);
        } else {
            assert_eq!(freer.join().expect("the freer ends"), Freed::Yes);
            assert_eq!(region.left(), 1, "the reservation");
        }
    });
}
