//! The matrix of a group: I1, IW1, IW5.

use super::*;

#[test]
fn iw1_what_is_out_of_range_has_no_edge() {
    let log = RefCell::default();
    let all = cards(2, &log);
    let group = group(&all).expect("two devices");
    for (from, to) in [(0, 2), (2, 0), (usize::MAX, 0), (0, usize::MAX), (1, 3), (usize::MAX / 2 + 1, 0)] {
        assert_eq!(group.edge_between(from, to), None, "{from} {to}");
    }
    assert!(group.edge_between(1, 0).is_some());
}

#[test]
fn iw7_a_refinement_that_contradicts_the_edge_is_refused_at_once() {
    let log = RefCell::default();
    let mut all = cards(2, &log);
    for card in &mut all {
        card.says.flags = CapabilityFlags::PEER_ADDRESSABLE;
        card.link = Some(LinkClass::HostStaged);
    }
    let refused = group(&all).expect_err("native, and through the host");
    assert_eq!(refused.error, GroupError::Contradiction { from: 0, to: 1 });
    assert!(refused.error.to_string().ends_with(": refine both"));
    assert!(!log.borrow().iter().any(|line| line == "refine 1 0"));
}
