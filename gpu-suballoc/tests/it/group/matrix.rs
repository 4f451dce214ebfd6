//! The matrix of a group: IW7.

use super::*;

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
