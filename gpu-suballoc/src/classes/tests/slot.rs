//! A seat alone.

use crate::classes::slot::{LAST_GENERATION, SlotExtent, SlotState};
use crate::classes::types::FreeError;

const LIVE: u32 = 1 << 31;
const RETURNED: u32 = 1 << 30;

const SOMEBODY: SlotExtent = SlotExtent {
    first: 3,
    granules: 5,
    user_data: 7,
};

#[test]
fn a_seat_knows_stale_double_and_foreign() {
    let slot_state = SlotState::new();
    assert_eq!(slot_state.free(0, 7), Err(FreeError::Foreign));
    assert_eq!(slot_state.free(1, 7), Err(FreeError::Foreign));
    let first = slot_state.issue(SOMEBODY).unwrap();
    assert_eq!(slot_state.live_extent(first), Ok(SOMEBODY));
    for never in [0, first + 1, LIVE | first, RETURNED | first, u32::MAX] {
        assert_eq!(
            slot_state.free(never, 7),
            Err(FreeError::Foreign),
            "{never:x}"
        );
        assert_eq!(
            slot_state.claim(never, 7),
            Err(FreeError::Foreign),
            "{never:x}"
        );
    }
    assert_eq!(slot_state.set_user_data(first, 7, 9), Ok(7));
    assert_eq!(
        slot_state.set_user_data(first, 7, 8),
        Ok(9),
        "not what it was: nothing changed"
    );
    assert_eq!(slot_state.free(first, 7), Err(FreeError::Held));
    assert_eq!(slot_state.claim(first, 7), Err(FreeError::Held));
    assert_eq!(
        slot_state.free(first, 9),
        Ok(SlotExtent {
            user_data: 9,
            ..SOMEBODY
        })
    );
    assert_eq!(slot_state.free(first, 7), Err(FreeError::Double));
    assert_eq!(
        slot_state.set_user_data(first, 9, 1),
        Err(FreeError::Double)
    );
    let second = slot_state.issue(SOMEBODY).unwrap();
    assert_eq!(slot_state.free(first, 7), Err(FreeError::Stale));
    assert_eq!(slot_state.claim(first, 7), Err(FreeError::Stale));
    assert_eq!(slot_state.free(second, 7), Ok(SOMEBODY));
}

#[test]
fn a_claimed_seat_is_free_to_everybody_but_the_owner_who_settles_it_once() {
    let slot_state = SlotState::new();
    let generation = slot_state.issue(SOMEBODY).unwrap();
    assert_eq!(slot_state.reclaim(), None);
    assert_eq!(slot_state.current(), Some((generation, SOMEBODY)));
    assert_eq!(slot_state.claim(generation, 7), Ok(SOMEBODY));
    assert_eq!(slot_state.claim(generation, 7), Err(FreeError::Double));
    assert_eq!(slot_state.free(generation, 7), Err(FreeError::Double));
    assert_eq!(slot_state.live_extent(generation), Err(FreeError::Double));
    assert_eq!(slot_state.current(), None, "whoever looks sees it freed");
    assert_eq!(slot_state.reclaim(), Some(SOMEBODY));
    assert_eq!(slot_state.reclaim(), None);
    assert_eq!(slot_state.current(), None);
}

#[test]
fn a_seat_that_is_used_up_is_retired() {
    let slot_state = SlotState::new();
    slot_state.age(LAST_GENERATION - 1);
    let last = slot_state.issue(SOMEBODY).unwrap();
    assert_eq!(last, LAST_GENERATION);
    assert_eq!(slot_state.free(last, 7), Ok(SOMEBODY));
    assert_eq!(slot_state.issue(SOMEBODY), None);
    assert_eq!(slot_state.free(last, 7), Err(FreeError::Double));
}
