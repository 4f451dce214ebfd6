//! Asking a group: IW2.

use super::*;

/// A thousand groups, most of them in the memory of the one before: nobody ever answers for another.
#[test]
fn iw2_a_membership_that_outlives_its_group_means_nothing_to_the_next() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let (mut old, mut addresses) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let group = group(&all).expect("two devices");
        addresses.push(group.devices().as_ptr().addr());
        let now = all[0].seat.membership().expect("in a group");
        assert!(group.edge(now, now).is_some());
        assert!(old.iter().all(|old| group.edge(*old, now).is_none() && group.edge(now, *old).is_none()));
        assert!(old.iter().all(|old| group.edge(*old, *old).is_none()));
        old.push(now);
        log.borrow_mut().clear();
    }
    addresses.sort_unstable();
    addresses.dedup();
    assert!(addresses.len() < 500, "addresses came again: {}", addresses.len());
}
