//! Making and ending groups: I32 to I37, I42, I44, IW3, IW6, and what a refusal leaves behind.

use super::*;

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.borrow_mut())
}

#[test]
fn i35_i36_everybody_is_asked_then_compared_in_order() {
    let log = RefCell::default();
    let mut all = cards(3, &log);
    all[2].says.driver = Some(2);
    let group = group(&all).expect("three devices");
    // Only devices of one driver are asked about each other, each pair in both directions, none about itself.
    let made = ["capabilities 0", "capabilities 1", "capabilities 2", "refine 0 1", "refine 1 0"];
    assert_eq!(taken(&log), made);
    drop(group);
    assert_eq!(taken(&log), [""; 0]);
    assert!(all.iter().all(|card| card.seat.membership().is_none()));
}

#[test]
fn i16_i36_refinements_that_disagree_about_a_link_make_no_group() {
    let log = RefCell::default();
    let mut all = cards(3, &log);
    all[2].link = Some(LinkClass::PeerLink);
    let refused = group(&all).expect_err("one link, two names");
    assert_eq!(refused.error, GroupError::Asymmetric { from: 0, to: 2 });
    assert!(all.iter().all(|card| card.seat.membership().is_none()));
}

#[test]
fn i42_devices_are_dropped_in_order_when_the_group_goes() {
    let log = RefCell::default();
    let group = group(cards(3, &log)).expect("three devices");
    taken(&log);
    drop(group);
    assert_eq!(taken(&log), ["drop 0", "drop 1", "drop 2"]);
}

/// What a device does while it is asked: it is reserved already, and refused elsewhere.
#[test]
fn iw3_a_device_of_a_group_that_is_being_built_is_refused_elsewhere() {
    struct Asking<'l>(&'l Card<'l>);
    impl GroupDevice for Asking<'_> {
        type Error = Infallible;
        fn membership_cell(&self) -> &MembershipCell {
            &self.0.seat
        }
        fn capabilities(&self) -> Result<DeviceCapabilities, Infallible> {
            let refused = group([self.0]).expect_err("it is being grouped");
            assert!(matches!(refused.error, GroupError::InGroup { index: 0, .. }));
            self.0.capabilities()
        }
    }
    let log = RefCell::default();
    let card = Card::new(1, &log);
    group([Asking(&card)]).expect("one device");
}

/// Whatever a device unwinds from: all are in no group, and the next group has them.
#[test]
fn a_device_that_unwinds_leaves_no_seat_taken() {
    for what in ["capabilities", "refine"] {
        let log = RefCell::default();
        let mut all = cards(3, &log);
        all[1].unwinds = Some(what);
        let unwinds = catch_unwind(AssertUnwindSafe(|| drop(group(&all).map(DeviceGroup::dissolve))));
        assert!(unwinds.is_err(), "{what}");
        assert!(all.iter().all(|card| card.seat.membership().is_none()), "{what}");
        all[1].unwinds = None;
        drop(group(&all).map_err(|refused| refused.error).expect("they are in no group"));
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
    assert!(boxed.devices().iter().all(|card| card.seat.membership().is_some()));
}
