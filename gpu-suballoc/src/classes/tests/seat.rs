//! A seat alone.

use crate::classes::seat::{LAST_GENERATION, Seat, Sitting};
use crate::classes::types::GiveError;

const LIVE: u32 = 1 << 31;
const RETURNED: u32 = 1 << 30;

const SOMEBODY: Sitting = Sitting { first: 3, granules: 5, word: 7 };

#[test]
fn a_seat_knows_stale_double_and_foreign() {
    let seat = Seat::new();
    assert_eq!(seat.give(0, 7), Err(GiveError::Foreign));
    assert_eq!(seat.give(1, 7), Err(GiveError::Foreign));
    let first = seat.issue(SOMEBODY).unwrap();
    assert_eq!(seat.sitting(first), Ok(SOMEBODY));
    for never in [0, first + 1, LIVE | first, RETURNED | first, u32::MAX] {
        assert_eq!(seat.give(never, 7), Err(GiveError::Foreign), "{never:x}");
        assert_eq!(seat.claim(never, 7), Err(GiveError::Foreign), "{never:x}");
    }
    assert_eq!(seat.set_word(first, 7, 9), Ok(7));
    assert_eq!(seat.set_word(first, 7, 8), Ok(9), "not what it was: nothing changed");
    assert_eq!(seat.give(first, 7), Err(GiveError::Held));
    assert_eq!(seat.claim(first, 7), Err(GiveError::Held));
    assert_eq!(seat.give(first, 9), Ok(Sitting { word: 9, ..SOMEBODY }));
    assert_eq!(seat.give(first, 7), Err(GiveError::Double));
    assert_eq!(seat.set_word(first, 9, 1), Err(GiveError::Double));
    let second = seat.issue(SOMEBODY).unwrap();
    assert_eq!(seat.give(first, 7), Err(GiveError::Stale));
    assert_eq!(seat.claim(first, 7), Err(GiveError::Stale));
    assert_eq!(seat.give(second, 7), Ok(SOMEBODY));
}

#[test]
fn a_claimed_seat_is_free_to_everybody_but_the_owner_who_settles_it_once() {
    let seat = Seat::new();
    let generation = seat.issue(SOMEBODY).unwrap();
    assert_eq!(seat.settle(), None);
    assert_eq!(seat.claim(generation, 7), Ok(SOMEBODY));
    assert_eq!(seat.claim(generation, 7), Err(GiveError::Double));
    assert_eq!(seat.give(generation, 7), Err(GiveError::Double));
    assert_eq!(seat.sitting(generation), Err(GiveError::Double));
    assert_eq!(seat.seated(), Some((generation, SOMEBODY)));
    assert_eq!(seat.settle(), Some(SOMEBODY));
    assert_eq!(seat.settle(), None);
    assert_eq!(seat.seated(), None);
}

#[test]
fn a_seat_that_is_used_up_is_retired() {
    let seat = Seat::new();
    seat.age(LAST_GENERATION - 1);
    let last = seat.issue(SOMEBODY).unwrap();
    assert_eq!(last, LAST_GENERATION);
    assert_eq!(seat.give(last, 7), Ok(SOMEBODY));
    assert_eq!(seat.issue(SOMEBODY), None);
    assert_eq!(seat.give(last, 7), Err(GiveError::Double));
}
