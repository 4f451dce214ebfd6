//! Making and ending groups: I32 to I39, I42 to I45, IW2, IW3, and what a refusal leaves behind.

use std::cell::RefCell;

use alloc_core::{HostError, Scope, Scoped};
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::DeviceGroup;
use gpu_suballoc::group::{CapabilityFlags, GroupError, GroupStep, LinkClass, TopologyError};

use super::card::{Card, Log, No, Refuses, SYSTEM, added, cards, memory};

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.borrow_mut())
}

#[test]
fn i32_devices_are_numbered_as_they_come_and_the_65th_is_refused() {
    let log = RefCell::default();
    let all = cards(65, &log);
    let mut builder = DeviceGroup::builder(memory());
    for (index, card) in all.iter().take(64).enumerate() {
        assert_eq!(builder.add(card).ok(), Some(index));
    }
    let refused = builder.add(&all[64]).expect_err("one too many");
    assert_eq!(
        (refused.error, refused.value.name, builder.count()),
        (GroupError::Full, 64, 64)
    );
    let group = builder
        .finish()
        .map_err(|refused| refused.error)
        .expect("64 devices");
    assert!((0..64).all(|index| group.device(index).map(|card| card.name) == Some(index as u32)));
    assert_eq!(all[64].seat.membership(), None);
}

#[test]
fn i33_a_group_of_none_is_refused() {
    let refused = DeviceGroup::<&Card<'_>, _>::builder(memory())
        .finish()
        .expect_err("empty");
    assert_eq!((refused.error, refused.value.len()), (GroupError::Empty, 0));
}

#[test]
fn i34_a_builder_that_is_dropped_touches_no_device_and_frees_its_seats() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let mut builder = DeviceGroup::builder(memory());
    builder.add(&all[0]).expect("the first");
    assert_eq!(
        builder.add(&all[0]).expect_err("twice").error,
        GroupError::Duplicate
    );
    drop(builder);
    assert_eq!(taken(&log), [""; 0]);
    let mut again = DeviceGroup::builder(memory());
    again.add(&all[0]).expect("it is in no group");
    again.finish().expect("one device");
}

#[test]
fn i35_i36_everybody_is_asked_then_compared_then_joins_in_order() {
    let log = RefCell::default();
    let mut all = cards(3, &log);
    all[2].says.driver = Some(2);
    let builder = added(&all);
    let group = builder.finish().expect("three devices");
    // Only devices of one driver are asked about each other, each pair in both directions, none about itself.
    let made = [
        "capabilities 0",
        "capabilities 1",
        "capabilities 2",
        "refine 0 1",
        "refine 1 0",
        "join 0",
        "join 1",
        "join 2",
    ];
    assert_eq!(taken(&log), made);
    drop(group);
    assert_eq!(taken(&log), ["leave 2", "leave 1", "leave 0"]);
}

#[test]
fn i36_n_devices_of_one_driver_are_refined_n_times_n_less_one() {
    for count in [1, 2, 5, 64] {
        let log = RefCell::default();
        let all = cards(count, &log);
        let builder = added(&all);
        builder.finish().expect("a group");
        let refined = log
            .borrow()
            .iter()
            .filter(|line| line.starts_with("refine"))
            .count();
        assert_eq!(refined as u32, count * (count - 1));
    }
}

#[test]
fn i36_refinements_that_disagree_about_a_link_make_no_group() {
    let log = RefCell::default();
    let mut all = cards(2, &log);
    all[0].link = Some(LinkClass::PeerLink);
    let builder = added(&all);
    let refused = builder.finish().expect_err("one link, two names");
    assert_eq!(
        refused.error,
        GroupError::Topology(TopologyError::Asymmetric { from: 0, to: 1 })
    );
    assert!(all.iter().all(|card| card.seat.membership().is_none()));
    assert!(!log.borrow().iter().any(|line| line.starts_with("join")));
}

/// Every k of 1..n refuses, at every question: the group is not there, and all devices are as they were, ready for another.
#[test]
fn i37_i38_whoever_refuses_all_are_as_before() {
    for count in [1_usize, 2, 5, 64] {
        for refuses in [Refuses::Capabilities, Refuses::Refine, Refuses::Join] {
            for k in 0..count {
                let log = RefCell::default();
                let mut all = cards(count as u32, &log);
                all[k].refuses = refuses;
                let builder = added(&all);
                let made = builder.finish();
                if refuses == Refuses::Refine && count == 1 {
                    made.expect("nobody to be refined with");
                    continue;
                }
                let refused = made.expect_err("one refuses");
                let GroupError::Device { index, step, error } = refused.error else {
                    panic!("{:?}", refused.error)
                };
                assert_eq!((index, error), (k, No(k as u32)));
                assert_eq!(step == GroupStep::Join, refuses == Refuses::Join);
                assert!(
                    refused
                        .value
                        .iter()
                        .map(|card| card.name as usize)
                        .eq(0..count),
                    "all are given back, in order"
                );
                let left: Vec<String> = log
                    .borrow()
                    .iter()
                    .filter(|line| line.starts_with("leave"))
                    .cloned()
                    .collect();
                let reverse: Vec<String> =
                    (0..k).rev().map(|index| format!("leave {index}")).collect();
                assert_eq!(
                    left,
                    if refuses == Refuses::Join {
                        reverse
                    } else {
                        Vec::new()
                    }
                );
                assert!(all.iter().all(|card| card.seat.membership().is_none()));
                drop(refused);
                all[k].refuses = Refuses::Nothing;
                let again = added(&all);
                again.finish().expect("nobody refuses");
            }
        }
    }
}

#[test]
fn i37_every_refusal_of_host_memory_leaves_all_as_before() {
    let log = RefCell::default();
    let all = cards(3, &log);
    let mut refusals = 0;
    for nth in 0.. {
        let failing = FailingAllocator::new(&SYSTEM, Fault::Nth(nth));
        let memory = Scoped::new(&failing, Scope::Device);
        let mut builder = DeviceGroup::builder(memory);
        let mut refused = all
            .iter()
            .find_map(|card| builder.add(card).err().map(|refused| refused.error));
        refused = match refused {
            Some(error) => Some(error),
            None => builder.finish().err().map(|refused| refused.error),
        };
        assert!(
            all.iter().all(|card| card.seat.membership().is_none()),
            "request {nth}"
        );
        match refused {
            None => break,
            Some(error) => assert!(
                matches!(error, GroupError::Host(HostError::OutOfHostMemory { .. })),
                "{error}"
            ),
        }
        refusals += 1;
    }
    assert!(
        refusals >= 4,
        "devices, what they say, edges, reach: {refusals}"
    );
}

#[test]
fn i42_devices_are_dropped_in_order_when_the_group_goes() {
    let log = RefCell::default();
    let builder = added(cards(3, &log));
    let group = builder.finish().expect("three devices");
    taken(&log);
    drop(group);
    assert_eq!(
        taken(&log),
        [
            "leave 2", "leave 1", "leave 0", "drop 0", "drop 1", "drop 2"
        ]
    );
}

#[test]
fn i42_a_dissolved_group_gives_its_devices_back() {
    let log = RefCell::default();
    let builder = added(cards(2, &log));
    let devices = builder.finish().expect("two devices").dissolve();
    assert!(
        devices.iter().map(|card| card.name).eq(0..2)
            && devices.iter().all(|card| card.seat.membership().is_none())
    );
    assert!(!log.borrow().iter().any(|line| line.starts_with("drop")));
}

#[test]
fn i44_one_device_makes_a_group_in_one_call() {
    let log = RefCell::default();
    let group = DeviceGroup::of_one(Card::new(7, &log), memory())
        .map_err(|refused| refused.error)
        .expect("one device");
    assert_eq!((group.count(), group.topology().count()), (1, 1));
    assert_eq!(
        group.topology().reach(0).copied(),
        Some(gpu_suballoc::group::Reach::default())
    );
    for refuses in [Refuses::Capabilities, Refuses::Join] {
        let mut card = Card::new(8, &log);
        card.refuses = refuses;
        let refused = DeviceGroup::of_one(card, memory())
            .map(drop)
            .expect_err("it refuses");
        assert!(refused.value.seat.membership().is_none() && refused.value.name == 8);
    }
    let member = group.device(0).expect("it is there");
    assert!(
        matches!(DeviceGroup::of_one(member, memory()).map(drop).expect_err("it has a group").error, GroupError::InGroup(id) if id == group.id())
    );
}

#[test]
fn i45_stand_ins_have_the_same_edges_and_a_group_of_their_own() {
    let log = RefCell::default();
    let mut all = cards(2, &log);
    all.iter_mut()
        .for_each(|card| card.link = Some(LinkClass::PeerLink));
    let builder = added(&all);
    let group = builder.finish().expect("two devices");
    taken(&log);
    let stand_ins = group
        .with_stand_ins(memory(), |index, card| {
            Ok(Card::new(card.name + 10 + index as u32, &log))
        })
        .expect("two stand-ins");
    assert_eq!(
        taken(&log),
        ["join 10", "join 12"],
        "they are not asked: the edges are known"
    );
    assert_eq!(stand_ins.topology().edge(0, 1), group.topology().edge(0, 1));
    assert_ne!(stand_ins.id(), group.id());
    // One that cannot be made, or refuses, takes those before it along.
    let refused = group.with_stand_ins(memory(), |index, _| {
        if index == 1 {
            Err(No(1))
        } else {
            Ok(Card::new(20, &log))
        }
    });
    let expected = GroupError::Device {
        index: 1,
        step: GroupStep::StandIn,
        error: No(1),
    };
    assert_eq!(refused.err(), Some(expected));
    assert!(taken(&log).ends_with(&["drop 20".to_owned()]));
    assert!(
        all.iter().all(|card| card.seat.membership().is_some()),
        "the first group is as it was"
    );
}

#[test]
fn iw3_a_device_is_in_one_living_group() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let mut first = DeviceGroup::builder(memory());
    first.add(&all[0]).expect("a device");
    assert_eq!(
        first.add(&all[0]).expect_err("twice").error,
        GroupError::Duplicate
    );
    let mut second = DeviceGroup::builder(memory());
    assert!(matches!(
        second.add(&all[0]).expect_err("it is being grouped").error,
        GroupError::InGroup(_)
    ));
    let group = first.finish().expect("one device");
    let refused = second.add(&all[0]).expect_err("it has a group");
    assert_eq!(refused.error, GroupError::InGroup(group.id()));
    assert_eq!(
        refused.error.to_string(),
        format!("the device is in {}: end that one first", group.id())
    );
    drop(group);
    second.add(&all[0]).expect("that group is gone");
}

#[test]
fn iw6_an_isolated_device_is_in_nobodys_reach() {
    let log = RefCell::default();
    let mut all = cards(3, &log);
    all[1].says.flags = CapabilityFlags::ISOLATED;
    let builder = added(&all);
    let group = builder.finish().expect("three devices");
    let reach = |index| {
        group
            .topology()
            .reach(index)
            .map(|reach| (reach.can_wait_on, reach.can_signal))
            .expect("a device")
    };
    assert_eq!([reach(0), reach(1), reach(2)], [(4, 4), (0, 0), (1, 1)]);
    assert!(group.topology().edge(1, 1).is_some() && group.topology().edge(0, 1).is_none());
    assert!(
        !log.borrow().iter().any(|line| line.starts_with("refine 1")
            || line.ends_with("1 0")
            || line == "refine 0 1")
    );
}

/// Whatever a device unwinds from: those that joined leave, the last first, all are in no group, and the next group has them.
#[test]
fn a_device_that_unwinds_leaves_no_seat_taken() {
    for (what, left) in [
        ("capabilities", &[][..]),
        ("refine", &[]),
        ("join", &["leave 0"]),
        ("leave", &["leave 2", "leave 1", "leave 0"]),
    ] {
        let log = RefCell::default();
        let mut all = cards(3, &log);
        all[1].refuses = Refuses::Unwinding(what);
        let unwinds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(added(&all).finish().map(DeviceGroup::dissolve))
        }));
        assert!(unwinds.is_err(), "{what}");
        let leaves: Vec<_> = taken(&log)
            .into_iter()
            .filter(|line| line.starts_with("leave"))
            .collect();
        assert_eq!(leaves, left, "{what}");
        assert!(
            all.iter().all(|card| card.seat.membership().is_none()),
            "{what}"
        );
        all[1].refuses = Refuses::Nothing;
        drop(
            added(&all)
                .finish()
                .map_err(|refused| refused.error)
                .expect("they are in no group"),
        );
    }
}

#[test]
fn ge13_a_group_takes_whatever_points_at_a_device() {
    let log = Log::default();
    let shared = [1, 2].map(|name| std::rc::Rc::new(Card::new(name, &log)));
    let mut builder = DeviceGroup::builder(memory());
    for card in &shared {
        builder
            .add(std::rc::Rc::clone(card))
            .map_err(|_| ())
            .expect("in no group");
    }
    let group = builder.finish().expect("memory");
    assert!(shared.iter().all(|card| card.seat.membership().is_some()));
    drop(group);
    assert!(shared.iter().all(|card| card.seat.membership().is_none()));

    let mut builder = DeviceGroup::builder(memory());
    for name in [3, 4] {
        builder
            .add(Box::new(Card::new(name, &log)))
            .map_err(|_| ())
            .expect("in no group");
    }
    let group = builder.finish().expect("memory");
    assert_eq!(group.devices().len(), 2);
    assert!(
        group
            .devices()
            .iter()
            .all(|card| card.seat.membership().is_some())
    );
}
