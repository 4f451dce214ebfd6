//! Asking a group: I10, I39, I41, I43, I46, I48, IW2.

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

#[test]
fn i10_a_region_knows_its_device_and_how_others_reach_it() {
    let log = RefCell::default();
    let mut all = cards(2, &log);
    all[0].says.buffer_import = HandleTypes::DMA_BUF;
    all[1].says.buffer_export = HandleTypes::DMA_BUF;
    let group = group(&all).expect("two devices");
    let on = |card: &Card<'_>| RegionId::from_raw([card.name + 1000, 0, 0, 1]);
    let read = |region, user| {
        let owner = group.owner_of(region)?;
        Some((owner, group.edge_between(user, owner)?.read))
    };
    assert_eq!(read(on(&all[1]), 0), Some((1, UseMode::Import)));
    assert_eq!(read(on(&all[0]), 1), Some((0, UseMode::Copy)));
    assert_eq!(read(on(&all[0]), 0), Some((0, UseMode::Native)));
    assert_eq!(group.owner_of(RegionId::from_raw([5, 0, 0, 1])), None, "a region of nobody here");
    assert_eq!(read(on(&all[0]), 2), None, "no such device");
}
