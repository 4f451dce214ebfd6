//! The matrix by hand: I1, I14, I16 to I18, IW1, IW5.

use gpu_suballoc::group::{
    DeviceCapabilities, Edge, LinkClass, MAX_DEVICES, Topology, TopologyBuilder, TopologyError,
    UseMode,
};

use super::card::{Memory, memory};

fn itself() -> Edge {
    Edge::to_itself(&DeviceCapabilities::default())
}

fn between() -> Edge {
    Edge::between(
        &DeviceCapabilities::default(),
        &DeviceCapabilities::default(),
    )
    .expect("not isolated")
}

fn builder(count: usize) -> TopologyBuilder<Memory> {
    TopologyBuilder::new(count, |_| itself(), memory()).expect("memory of the system")
}

fn full(count: usize) -> TopologyBuilder<Memory> {
    let mut builder = builder(count);
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            builder.set(from, to, between()).expect("two devices");
        }
    }
    builder
}

#[test]
fn i1_iw5_one_to_sixty_four_devices_and_no_more() {
    for count in [0, 65, usize::MAX] {
        let refused = TopologyBuilder::new(count, |_| itself(), memory()).err();
        assert_eq!(refused, Some(TopologyError::Count { count }));
    }
    let topology: Topology<Memory> = full(MAX_DEVICES).finish().expect("all is set");
    assert_eq!(topology.count(), 64);
    assert_eq!(
        topology.reach(63).map(|reach| reach.can_wait_on),
        Some(u64::MAX >> 1)
    );
    assert!((0..64).all(|from| (0..64).all(|to| topology.edge(from, to).is_some())));
}

#[test]
fn iw1_what_is_out_of_range_has_no_edge() {
    let topology = full(2).finish().expect("all is set");
    for (from, to) in [
        (0, 2),
        (2, 0),
        (usize::MAX, 0),
        (0, usize::MAX),
        (1, 3),
        (usize::MAX / 2 + 1, 0),
    ] {
        assert_eq!(topology.edge(from, to), None, "{from} {to}");
    }
    assert_eq!(topology.reach(2), None);
    assert!(topology.edge(1, 0).is_some());
}

#[test]
fn i14_the_last_word_counts_and_what_is_no_pair_is_refused() {
    let mut builder = full(2);
    builder
        .set(
            0,
            1,
            Edge {
                wait: UseMode::None,
                ..between()
            },
        )
        .expect("a pair");
    assert_eq!(
        builder.set(0, 2, between()),
        Err(TopologyError::NoDevice {
            device: 2,
            count: 2
        })
    );
    assert_eq!(
        builder.set(7, 0, between()),
        Err(TopologyError::NoDevice {
            device: 7,
            count: 2
        })
    );
    assert_eq!(
        builder.set(1, 1, between()),
        Err(TopologyError::Itself { device: 1 })
    );
    assert_eq!(builder.cut(0, 0), Err(TopologyError::Itself { device: 0 }));
    let topology = builder.finish().expect("all is set");
    assert_eq!(
        topology.edge(0, 1).map(|edge| edge.wait),
        Some(UseMode::None)
    );
    assert_eq!(topology.reach(0).map(|reach| reach.can_wait_on), Some(0));
    assert_eq!(topology.reach(1).map(|reach| reach.can_wait_on), Some(1));
}

#[test]
fn iw4_the_edge_to_itself_is_one() {
    let copies = Edge {
        read: UseMode::Copy,
        ..itself()
    };
    assert_eq!(
        TopologyBuilder::new(2, |_| copies, memory()).err(),
        Some(TopologyError::Itself { device: 0 })
    );
    assert_eq!(
        TopologyBuilder::new(2, |_| between(), memory()).err(),
        Some(TopologyError::Itself { device: 0 })
    );
}

#[test]
fn i16_every_pair_is_set_and_links_are_the_same_both_ways() {
    let mut builder = builder(3);
    builder.set(0, 1, between()).expect("a pair");
    assert_eq!(
        builder.finish().err(),
        Some(TopologyError::Missing { from: 0, to: 2 })
    );
    let mut builder = full(3);
    builder
        .set(
            2,
            0,
            Edge {
                link: LinkClass::PeerLink,
                ..between()
            },
        )
        .expect("a pair");
    assert_eq!(
        builder.finish().err(),
        Some(TopologyError::Asymmetric { from: 0, to: 2 })
    );
    let mut builder = full(3);
    builder.cut(2, 1).expect("a pair");
    assert_eq!(
        builder.finish().err(),
        Some(TopologyError::Asymmetric { from: 1, to: 2 })
    );
    // All else may differ.
    let mut builder = full(3);
    builder
        .set(
            2,
            0,
            Edge {
                signal: UseMode::None,
                ..between()
            },
        )
        .expect("a pair");
    assert!(builder.finish().is_ok());
}

#[test]
fn iw7_a_contradiction_is_refused_at_once() {
    let contradicts = Edge {
        read: UseMode::Import,
        ..between()
    };
    let refused = full(2).set(0, 1, contradicts).expect_err("no handle");
    assert!(
        refused
            .to_string()
            .ends_with("memory is imported through no handle: refine both"),
        "{refused}"
    );
}

#[test]
fn i18_a_matrix_is_drawn_with_its_legend() {
    let mut builder = full(3);
    builder.cut(0, 2).expect("a pair");
    builder.cut(2, 0).expect("a pair");
    let drawn = builder.finish().expect("all is set").to_string();
    assert_eq!(
        drawn,
        " N C -\n C N C\n - C N\nN native, I import, C copy through the host, - none\n"
    );
    let edge = between().to_string();
    assert_eq!(
        edge,
        "wait copy, signal copy, read copy, write copy, coherent copy/copy, unknown link, copy cost unknown"
    );
}
