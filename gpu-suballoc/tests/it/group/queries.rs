//! Asking a group: I39 to I41, I43, I46, I48, IW2.

use std::cell::RefCell;

use gpu_suballoc::group::{CapabilityFlags as Flags, HandleTypes, UseMode};
use gpu_suballoc::{DeviceGroup, RegionId};

use super::card::{Card, added, cards, memory};

#[test]
fn i39_i43_a_device_knows_its_group_and_number_while_the_group_lives() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let builder = added(&all);
    assert!(
        all.iter().all(|card| card.seat.membership().is_none()),
        "not yet"
    );
    let group = builder.finish().expect("two devices");
    for (index, card) in all.iter().enumerate() {
        let membership = card.seat.membership().expect("in a group");
        assert_eq!((membership.group, membership.index), (group.id(), index));
    }
    drop(group);
    assert!(all.iter().all(|card| card.seat.membership().is_none()));
}

#[test]
fn i40_bit_sets_say_who_reaches_whom_and_never_oneself() {
    let log = RefCell::default();
    let mut all = cards(3, &log);
    // 0 takes in what 1 gives out; 1 and 2 copy between themselves; 2 is of another driver.
    all[0].says.buffer_import = HandleTypes::DMA_BUF;
    all[1].says.buffer_export = HandleTypes::DMA_BUF;
    all[1].says.flags = Flags::PEER_COPY;
    all[0].says.flags = Flags::PEER_COPY;
    all[2].says.driver = Some(9);
    let builder = added(&all);
    let group = builder.finish().expect("three devices");
    let reach: Vec<_> = (0..3)
        .filter_map(|index| group.topology().reach(index))
        .collect();
    assert_eq!(
        reach
            .iter()
            .map(|reach| reach.can_wait_on)
            .collect::<Vec<_>>(),
        [0b110, 0b101, 0b011]
    );
    assert_eq!(
        reach
            .iter()
            .map(|reach| reach.can_signal)
            .collect::<Vec<_>>(),
        [0b110, 0b101, 0b011]
    );
    assert_eq!(
        reach
            .iter()
            .map(|reach| reach.can_import_from)
            .collect::<Vec<_>>(),
        [0b010, 0, 0]
    );
    assert_eq!(
        reach
            .iter()
            .map(|reach| reach.can_copy_from)
            .collect::<Vec<_>>(),
        [0b010, 0b001, 0]
    );
}

#[test]
fn i41_a_number_that_no_device_has_is_none() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let builder = added(&all);
    let group = builder.finish().expect("two devices");
    assert_eq!(
        (
            group.count(),
            group.device(1).map(|card| card.name),
            group.device(2).is_none()
        ),
        (2, Some(1), true)
    );
}

#[test]
fn i46_iw2_devices_of_two_groups_have_no_edge() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let one = DeviceGroup::of_one(&all[0], memory())
        .map_err(|refused| refused.error)
        .expect("a device");
    let other = DeviceGroup::of_one(&all[1], memory())
        .map_err(|refused| refused.error)
        .expect("a device");
    let [a, b] = [0, 1].map(|index: usize| all[index].seat.membership().expect("in a group"));
    assert!(one.edge(a, a).is_some() && other.edge(b, b).is_some());
    assert_eq!(
        [
            one.edge(a, b),
            one.edge(b, a),
            one.edge(b, b),
            other.edge(a, b)
        ],
        [None; 4]
    );
}

/// A thousand groups, most of them in the memory of the one before: nobody ever answers for another.
#[test]
fn iw2_a_membership_that_outlives_its_group_means_nothing_to_the_next() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let (mut old, mut addresses) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let builder = added(&all);
        let group = builder.finish().expect("two devices");
        addresses.push(group.devices().as_ptr().addr());
        let now = all[0].seat.membership().expect("in a group");
        assert!(group.edge(now, now).is_some());
        assert!(
            old.iter()
                .all(|old| group.edge(*old, now).is_none() && group.edge(now, *old).is_none())
        );
        assert!(old.iter().all(|old| group.edge(*old, *old).is_none()));
        old.push(now);
        log.borrow_mut().clear();
    }
    addresses.sort_unstable();
    addresses.dedup();
    assert!(
        addresses.len() < 500,
        "addresses came again: {}",
        addresses.len()
    );
}

#[test]
fn i48_queries_run_on_all_threads_at_once() {
    let log = RefCell::default();
    let all = cards(3, &log);
    let builder = added(&all);
    let group = builder.finish().expect("three devices");
    let topology = group.topology();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(move || {
                for round in 0..10_000 {
                    let (from, to) = (round % 3, (round + 1) % 3);
                    assert_eq!(
                        topology.edge(from, to).map(|edge| edge.read),
                        Some(UseMode::Copy)
                    );
                }
            });
        }
    });
}

#[test]
fn i10_a_region_knows_its_device_and_how_others_reach_it() {
    let log = RefCell::default();
    let mut all = cards(2, &log);
    all[0].says.buffer_import = HandleTypes::DMA_BUF;
    all[1].says.buffer_export = HandleTypes::DMA_BUF;
    let builder = added(&all);
    let group = builder.finish().expect("two devices");
    let on = |card: &Card<'_>| RegionId::from_raw([card.name + 1000, 0, 0, 1]);
    let imports = group.access(on(&all[1]), 0).expect("an edge");
    assert_eq!(
        (
            imports.owner,
            imports.read,
            imports.copy_cost,
            imports.is_peer_to_peer
        ),
        (1, UseMode::Import, None, false)
    );
    let copies = group.access(on(&all[0]), 1).expect("an edge");
    assert_eq!((copies.owner, copies.read), (0, UseMode::Copy));
    assert_eq!(
        group.access(on(&all[0]), 0).map(|own| own.read),
        Some(UseMode::Native)
    );
    assert_eq!(
        group.access(RegionId::from_raw([5, 0, 0, 1]), 0),
        None,
        "a region of nobody here"
    );
    assert_eq!(group.access(on(&all[0]), 2), None, "no such device");
}
