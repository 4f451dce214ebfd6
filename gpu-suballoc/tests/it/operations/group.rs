//! Groups of devices.

use std::convert::Infallible;

use alloc_core::{Scope, Scoped};
use gpu_suballoc::group::{
    CapabilityFlags, Cost, DeviceCapabilities, DeviceGroupBuilder, Edge, GroupDevice, HandleTypes,
    LinkClass, Membership, MembershipCell, TopologyBuilder, UseMode,
};
use gpu_suballoc::{DeviceGroup, RegionId};
use testkit::{MemoryUse, Sink, Stage};

use super::{GpuOperation, NONE};

#[derive(Default)]
struct Card {
    seat: MembershipCell,
}

impl GroupDevice for &Card {
    type Error = Infallible;

    fn membership_cell(&self) -> &MembershipCell {
        &self.seat
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, Infallible> {
        Ok(DeviceCapabilities {
            driver: Some(1),
            flags: CapabilityFlags::PEER_ADDRESSABLE,
            ..DeviceCapabilities::default()
        })
    }

    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Infallible> {
        assert!(!std::ptr::eq(*self, *other) && edge.contradiction().is_none());
        Ok(())
    }

    fn join(&self, membership: Membership) -> Result<(), Infallible> {
        assert_eq!(self.seat.membership(), Some(membership));
        Ok(())
    }

    fn leave(&self, membership: Membership) {
        assert_eq!(self.seat.membership(), Some(membership));
    }

    fn region_tag(&self) -> Option<u32> {
        Some(9)
    }
}

fn memory<S: Stage>(stage: &S) -> Scoped<&S::Host> {
    Scoped::new(stage.host(), Scope::Device)
}

fn two<'c, S: Stage>(
    stage: &'c S,
    cards: &'c [Card; 2],
) -> DeviceGroupBuilder<&'c Card, Scoped<&'c S::Host>> {
    let mut builder = DeviceGroup::builder(memory(stage));
    cards
        .iter()
        .for_each(|card| assert!(builder.add(card).is_ok()));
    builder
}

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        GpuOperation {
            names: &[
                "DeviceGroupBuilder::new",
                "DeviceGroupBuilder::add",
                "DeviceGroupBuilder::count",
                "MembershipCell::new",
            ],
            how: "the first device",
            takes: MemoryUse::Memory,
            body: |stage| {
                let card = Card {
                    seat: MembershipCell::new(),
                };
                let builder = std::cell::RefCell::new(DeviceGroupBuilder::new(memory(stage)));
                let seen = || (builder.borrow().count(), card.seat.membership());
                stage.attempt(seen, || {
                    builder
                        .borrow_mut()
                        .add(&card)
                        .map_err(|refused| refused.error)
                });
                assert_eq!(builder.borrow().count(), 1);
            },
        },
        GpuOperation {
            names: &[
                "DeviceGroup::of_one",
                "MembershipCell::membership",
                "GroupId::get",
                "DeviceGroup::id",
            ],
            how: "",
            takes: MemoryUse::Memory,
            body: |stage| {
                let card = Card::default();
                let made =
                    || DeviceGroup::of_one(&card, memory(stage)).map_err(|refused| refused.error);
                let group = stage.attempt(|| card.seat.membership(), made);
                assert_eq!(
                    card.seat.membership().map(|seat| seat.group.get()),
                    Some(group.id().get())
                );
            },
        },
        GpuOperation {
            names: &[
                "DeviceGroup::builder",
                "DeviceGroupBuilder::finish",
                "GroupDevice::capabilities",
                "GroupDevice::join",
                "GroupDevice::leave",
                "GroupDevice::refine",
                "GroupDevice::membership_cell",
            ],
            how: "of two",
            takes: MemoryUse::Memory,
            body: |stage| {
                let cards = [Card::default(), Card::default()];
                let seen = || cards.each_ref().map(|card| card.seat.membership());
                let group = stage.attempt(seen, || {
                    let mut builder = DeviceGroup::builder(memory(stage));
                    for card in &cards {
                        builder.add(card).map_err(|refused| refused.error)?;
                    }
                    builder.finish().map_err(|refused| refused.error)
                });
                assert_eq!(group.count(), 2);
            },
        },
        GpuOperation {
            names: &["DeviceGroup::with_stand_ins", "DeviceGroup::dissolve"],
            how: "",
            takes: MemoryUse::Memory,
            body: |stage| {
                let (cards, others) = (
                    [Card::default(), Card::default()],
                    [Card::default(), Card::default()],
                );
                let group = two(stage, &cards)
                    .finish()
                    .map_err(|refused| refused.error)
                    .expect("refused nothing");
                let seen = || others.each_ref().map(|card| card.seat.membership());
                let copy = stage.attempt(seen, || {
                    group.with_stand_ins(memory(stage), |index, _| Ok(&others[index]))
                });
                assert_eq!(copy.count(), 2);
                assert_eq!(group.dissolve().len(), 2);
            },
        },
        GpuOperation {
            names: &[
                "DeviceGroup::access",
                "GroupDevice::region_tag",
                "DeviceGroup::count",
                "DeviceGroup::device",
                "DeviceGroup::devices",
                "DeviceGroup::edge",
                "DeviceGroup::topology",
                "Topology::count",
                "Topology::edge",
                "Topology::reach",
            ],
            how: "",
            takes: MemoryUse::Nothing("all was worked out when the group was made"),
            body: |stage| {
                let cards = [Card::default(), Card::default()];
                let group = two(stage, &cards)
                    .finish()
                    .map_err(|refused| refused.error)
                    .expect("refused nothing");
                stage.attempt_plainly(|| {
                    assert_eq!(
                        (
                            group.count(),
                            group.devices().len(),
                            group.topology().count()
                        ),
                        (2, 2, 2)
                    );
                    let seats = cards
                        .each_ref()
                        .map(|card| card.seat.membership().expect("seated"));
                    assert_eq!(group.edge(seats[0], seats[1]), group.topology().edge(0, 1));
                    assert!(group.device(2).is_none() && group.topology().reach(1).is_some());
                    assert_eq!(
                        group
                            .access(RegionId::from_raw([9, 0, 0, 0]), 1)
                            .map(|access| access.owner),
                        Some(0)
                    );
                    assert_eq!(group.access(RegionId::from_raw([8, 0, 0, 0]), 1), None);
                });
            },
        },
        GpuOperation {
            names: &[
                "TopologyBuilder::new",
                "TopologyBuilder::set",
                "TopologyBuilder::cut",
                "TopologyBuilder::finish",
            ],
            how: "",
            takes: MemoryUse::Memory,
            body: |stage| {
                let says = DeviceCapabilities::default();
                let itself = |_| Edge::to_itself(&says);
                let mut builder =
                    stage.attempt(|| (), || TopologyBuilder::new(3, itself, memory(stage)));
                let edge = Edge::between(&says, &says).expect("nobody is isolated");
                for (from, to) in [(0, 1), (1, 0)] {
                    builder.set(from, to, edge).expect("no contradiction");
                }
                for (from, to) in [(0, 2), (2, 0), (1, 2), (2, 1)] {
                    builder.cut(from, to).expect("two devices");
                }
                assert_eq!(builder.finish().map(|made| made.count()).ok(), Some(3));
            },
        },
        GpuOperation {
            names: &[
                "DeviceCapabilities::is_same_driver",
                "DeviceCapabilities::is_same_hardware",
                "DeviceCapabilities::shares_opaque_handles",
                "DeviceCapabilities::combine",
                "CapabilityFlags::bits",
                "Cost::clamped",
                "Cost::get",
                "Cost::of_numa_distance",
                "Edge::between",
                "Edge::contradiction",
                "Edge::is_peer_to_peer",
                "Edge::to_itself",
                "Edge::worse",
                "HandleTypes::bits",
                "LinkClass::farther",
                "LinkClass::name",
                "LinkClass::rank",
                "UseMode::is_direct",
                "UseMode::or",
            ],
            how: "",
            takes: NONE,
            body: |stage| {
                stage.attempt_plainly(|| {
                    let says = DeviceCapabilities {
                        driver: Some(1),
                        ..DeviceCapabilities::default()
                    };
                    assert!(
                        says.is_same_driver(&says)
                            && !says.is_same_hardware(&says)
                            && !says.shares_opaque_handles(&says)
                    );
                    assert_eq!(says.combine(&says), says);
                    let flags = CapabilityFlags::PEER_COPY | CapabilityFlags::ISOLATED;
                    assert!(
                        flags.contains(CapabilityFlags::ISOLATED)
                            && flags.without(flags).bits() == 0
                    );
                    assert_eq!(
                        (Cost::clamped(99).get(), Cost::of_numa_distance(12).get()),
                        (15, 1)
                    );
                    let edge = Edge::between(&says, &says).expect("nobody is isolated");
                    assert!(!edge.is_peer_to_peer() && edge.contradiction().is_none());
                    assert_eq!(edge.worse(&Edge::to_itself(&says)).link, LinkClass::Unknown);
                    assert!(
                        HandleTypes::NONE.is_empty()
                            && HandleTypes::METAL.contains(HandleTypes::NONE)
                    );
                    assert!(HandleTypes::METAL.bits() > 0);
                    let link = LinkClass::PeerLink.farther(LinkClass::Fabric);
                    assert_eq!((link.name(), link.rank()), ("fabric", Some(5)));
                    assert!(UseMode::Copy.or(UseMode::Import).is_direct());
                    assert!(Sink::debug(edge) > 0);
                });
            },
        },
    ]
}
