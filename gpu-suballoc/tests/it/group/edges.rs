//! What two devices say for themselves, compared: I4 to I7, I21 to I31, IW6 to IW10.

use super::*;

use gpu_suballoc::group::CapabilityFlags as Flags;

fn driver(driver: u32) -> DeviceCapabilities {
    DeviceCapabilities { driver: Some(driver), ..DeviceCapabilities::default() }
}

#[track_caller]
fn edge(from: &DeviceCapabilities, to: &DeviceCapabilities) -> Edge {
    let edge = Edge::between(from, to).expect("neither is isolated");
    assert!(edge.is_consistent(), "{edge:?}");
    edge
}

#[test]
fn i4_i5_the_smaller_mode_is_the_better_and_an_unknown_link_is_the_default() {
    use UseMode::{Copy, Import, Native, None};
    assert!(Native < Import && Import < Copy && Copy < None);
    assert_eq!(LinkClass::default(), LinkClass::Unknown);
}

#[test]
fn iw7_an_edge_that_contradicts_itself_says_so() {
    let sound = edge(&driver(1), &driver(1));
    let wrong = [
        Edge { read: UseMode::Import, ..sound },
        Edge { write: UseMode::Import, ..sound },
        Edge { wait: UseMode::Import, ..sound },
        Edge { signal: UseMode::Import, ..sound },
        Edge { read: UseMode::Native, link: LinkClass::HostStaged, ..sound },
    ];
    assert!(wrong.iter().all(|edge| !edge.is_consistent()));
    // A copy over the host is no copy between peers, whatever the flags say.
    let staged = Edge { flags: Flags::PEER_COPY | Flags::SAME_DRIVER, link: LinkClass::HostStaged, ..sound };
    assert!(!staged.is_peer_to_peer() && Edge { link: LinkClass::PcieSameRoot, ..staged }.is_peer_to_peer());
}
