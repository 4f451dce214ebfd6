//! Making and ending groups: I32 to I38, I42, I44, IW3, IW6, and what a refusal leaves behind.

use std::cell::RefCell;

use alloc_core::{HostError, Scope, Scoped, TryVec};
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::DeviceGroup;
use gpu_suballoc::group::{
    CapabilityFlags, DeviceCapabilities, GroupDevice, GroupError, GroupStep, LinkClass,
    MembershipCell,
};

use super::card::{Card, Log, No, Refuses, SYSTEM, cards, group};

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.borrow_mut())
}

#[test]
fn i32_devices_are_numbered_as_they_come_and_the_65th_is_refused() {
    let log = RefCell::default();
    let all = cards(65, &log);
    let refused = group(&all).expect_err("one too many");
    assert_eq!(
        (refused.error, refused.value.len()),
        (GroupError::TooMany, 65)
    );
    let group = group(&all[..64]).expect("64 devices");
    assert!((0..64).all(|index| group.devices()[index].name == index as u32));
    assert_eq!(all[64].seat.membership(), None);
}

#[test]
fn i33_a_group_of_none_is_refused() {
    let refused = group::<&Card<'_>>([]).expect_err("empty");
    assert_eq!((refused.error, refused.value.len()), (GroupError::Empty, 0));
}

#[test]
fn i35_i36_everybody_is_asked_then_compared_then_joins_in_order() {
    let log = RefCell::default();
    let mut all = cards(3, &log);
    all[2].says.driver = Some(2);
    let group = group(&all).expect("three devices");
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
        group(&all).expect("a group");
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
    let refused = group(&all).expect_err("one link, two names");
    assert_eq!(refused.error, GroupError::Asymmetric { from: 0, to: 1 });
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
                let made = group(&all);
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
                group(&all).expect("nobody refuses");
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
        let failing = FailingAllocator::new(&SYSTEM, Fault::Never);
        let memory = Scoped::new(&failing, Scope::Device);
        let mut devices = TryVec::new_in(memory);
        devices.try_extend(&all).expect("memory of the system");
        failing.arm(Fault::Nth(nth));
        let Err(refused) = DeviceGroup::new(devices) else {
            break;
        };
        assert!(
            matches!(
                refused.error,
                GroupError::Host(HostError::OutOfHostMemory { .. })
            ),
            "{}",
            refused.error
        );
        assert_eq!(refused.value.len(), 3);
        assert!(
            all.iter().all(|card| card.seat.membership().is_none()),
            "request {nth}"
        );
        refusals += 1;
    }
    assert!(refusals >= 2, "what they say, edges: {refusals}");
}

#[test]
fn i42_devices_are_dropped_in_order_when_the_group_goes() {
    let log = RefCell::default();
    let group = group(cards(3, &log)).expect("three devices");
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
    let devices = group(cards(2, &log)).expect("two devices").dissolve();
    assert!(
        devices.iter().map(|card| card.name).eq(0..2)
            && devices.iter().all(|card| card.seat.membership().is_none())
    );
    assert!(!log.borrow().iter().any(|line| line.starts_with("drop")));
}

#[test]
fn i44_one_device_makes_a_group_in_one_call() {
    let log = RefCell::default();
    let one = group([Card::new(7, &log)]).expect("one device");
    assert!(one.devices().len() == 1 && one.edge_between(0, 0).is_some());
    for refuses in [Refuses::Capabilities, Refuses::Join] {
        let mut card = Card::new(8, &log);
        card.refuses = refuses;
        let refused = group([card]).expect_err("it refuses").value;
        assert!(refused[0].seat.membership().is_none() && refused[0].name == 8);
    }
    let refused = group([&one.devices()[0]]).expect_err("it has a group");
    let (index, group) = (0, one.id());
    assert_eq!(refused.error, GroupError::InGroup { index, group });
}

#[test]
fn iw3_a_device_is_in_one_living_group() {
    let log = RefCell::default();
    let all = cards(3, &log);
    let refused = group([&all[0], &all[1], &all[0]]).expect_err("twice");
    assert_eq!(refused.error, GroupError::Duplicate { index: 2 });
    assert!(log.borrow().is_empty(), "nobody was asked");
    let first = group([&all[0]]).expect("one device");
    let refused = group([&all[1], &all[0], &all[2]]).expect_err("one of them has a group");
    assert_eq!(
        refused.error,
        GroupError::InGroup {
            index: 1,
            group: first.id()
        }
    );
    assert_eq!(
        refused.error.to_string(),
        format!("device 1 is in {}: end that one first", first.id())
    );
    assert!(
        all[0].seat.membership().is_some() && all[1].seat.membership().is_none(),
        "the first group is as it was, and nobody else is in one"
    );
    drop((refused, first));
    group(&all).expect("that group is gone");
}

/// What a device does while it is asked: it is reserved already, and refused elsewhere.
#[test]
fn iw3_a_device_of_a_group_that_is_being_built_is_refused_elsewhere() {
    struct Asking<'l>(&'l Card<'l>);
    impl GroupDevice for Asking<'_> {
        type Error = No;
        fn membership_cell(&self) -> &MembershipCell {
            &self.0.seat
        }
        fn capabilities(&self) -> Result<DeviceCapabilities, No> {
            let refused = group([self.0]).expect_err("it is being grouped");
            assert!(matches!(
                refused.error,
                GroupError::InGroup { index: 0, .. }
            ));
            self.0.capabilities()
        }
    }
    let log = RefCell::default();
    let card = Card::new(1, &log);
    group([Asking(&card)]).expect("one device");
}

#[test]
fn iw6_an_isolated_device_has_an_edge_to_itself_alone() {
    let log = RefCell::default();
    let mut all = cards(3, &log);
    all[1].says.flags = CapabilityFlags::ISOLATED;
    let group = group(&all).expect("three devices");
    let edges = [0, 1, 2]
        .map(|from: usize| [0, 1, 2].map(|to: usize| group.edge_between(from, to).is_some()));
    assert_eq!(
        edges,
        [
            [true, false, true],
            [false, true, false],
            [true, false, true]
        ]
    );
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
            drop(group(&all).map(DeviceGroup::dissolve))
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
            group(&all)
                .map_err(|refused| refused.error)
                .expect("they are in no group"),
        );
    }
}

#[test]
fn ge13_a_group_takes_whatever_points_at_a_device() {
    let log = Log::default();
    let shared = [1, 2].map(|name| std::rc::Rc::new(Card::new(name, &log)));
    let of_shared = group(shared.iter().cloned()).expect("in no group");
    assert!(shared.iter().all(|card| card.seat.membership().is_some()));
    drop(of_shared);
    assert!(shared.iter().all(|card| card.seat.membership().is_none()));

    let boxed = group([3, 4].map(|name| Box::new(Card::new(name, &log)))).expect("in no group");
    assert_eq!(boxed.devices().len(), 2);
    assert!(
        boxed
            .devices()
            .iter()
            .all(|card| card.seat.membership().is_some())
    );
}
