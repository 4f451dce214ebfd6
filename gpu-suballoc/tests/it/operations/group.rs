//! Groups of devices.

use std::convert::Infallible;

use alloc_core::{Scope, Scoped, TryVec};
use gpu_suballoc::group::{
    CapabilityFlags, DeviceCapabilities, Edge, GroupDevice, HandleTypes, LinkClass, Membership,
    MembershipCell, UseMode,
};
use gpu_suballoc::{DeviceGroup, RegionId};
use testkit::{MemoryUse, Sink, Stage};

use super::{GpuOperation, NONE, operation};

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

type Listed<'c, S> = TryVec<&'c Card, Scoped<&'c <S as Stage>::Host>>;

/// The list is made before what is attempted: it is the caller's.
fn listed<'c, S: Stage>(stage: &'c S, cards: &'c [Card; 2]) -> Listed<'c, S> {
    let mut list = TryVec::new_in(Scoped::new(stage.host(), Scope::Device));
    list.try_extend(cards).expect("refused nothing");
    list
}

pub(super) fn table<S: Stage>() -> Vec<GpuOperation<S>> {
    vec![
        operation(
            &[
                "DeviceGroup::new",
                "DeviceGroup::id",
                "DeviceGroup::dissolve",
                "MembershipCell::new",
                "MembershipCell::membership",
                "GroupId::get",
                "GroupDevice::capabilities",
                "GroupDevice::join",
                "GroupDevice::leave",
                "GroupDevice::refine",
                "GroupDevice::membership_cell",
            ],
            "of two",
            MemoryUse::Memory,
            |stage| {
                let cards = [(); 2].map(|()| Card {
                    seat: MembershipCell::new(),
                });
                let list = std::cell::Cell::new(Some(listed(stage, &cards)));
                let seen = || cards.each_ref().map(|card| card.seat.membership());
                let group = stage.attempt(seen, || {
                    let devices = list.take().expect("it comes back");
                    DeviceGroup::new(devices).map_err(|refused| {
                        list.set(Some(refused.value));
                        refused.error
                    })
                });
                assert_eq!(
                    cards[1].seat.membership().map(|seat| seat.group.get()),
                    Some(group.id().get())
                );
                assert_eq!(group.dissolve().len(), 2);
            },
        ),
        operation(
            &[
                "DeviceGroup::owner_of",
                "GroupDevice::region_tag",
                "DeviceGroup::devices",
                "DeviceGroup::edge",
                "DeviceGroup::edge_between",
            ],
            "",
            MemoryUse::Nothing("all was worked out when the group was made"),
            |stage| {
                let cards = [Card::default(), Card::default()];
                let group = DeviceGroup::new(listed(stage, &cards))
                    .map_err(|refused| refused.error)
                    .expect("refused nothing");
                stage.attempt_plainly(|| {
                    assert_eq!(group.devices().len(), 2);
                    let seats = cards
                        .each_ref()
                        .map(|card| card.seat.membership().expect("seated"));
                    assert_eq!(group.edge(seats[0], seats[1]), group.edge_between(0, 1));
                    let owner = |tag| group.owner_of(RegionId::from_raw([tag, 0, 0, 0]));
                    assert_eq!((owner(9), owner(8)), (Some(0), None));
                });
            },
        ),
        operation(
            &[
                "Edge::between",
                "Edge::contradiction",
                "Edge::is_peer_to_peer",
                "Edge::to_itself",
                "UseMode::is_direct",
            ],
            "",
            NONE,
            |stage| {
                stage.attempt_plainly(|| {
                    let says = DeviceCapabilities {
                        driver: Some(1),
                        ..DeviceCapabilities::default()
                    };
                    let flags = CapabilityFlags::PEER_COPY | CapabilityFlags::ISOLATED;
                    assert!(
                        flags.contains(CapabilityFlags::ISOLATED)
                            && flags.without(flags).is_empty()
                    );
                    let edge = Edge::between(&says, &says).expect("nobody is isolated");
                    assert!(!edge.is_peer_to_peer() && edge.contradiction().is_none());
                    assert_eq!(Edge::to_itself(&says).link, LinkClass::SameDevice);
                    assert!(
                        HandleTypes::NONE.is_empty()
                            && HandleTypes::METAL.contains(HandleTypes::NONE)
                    );
                    assert!(UseMode::Import.is_direct());
                    assert!(Sink::debug(edge) > 0);
                });
            },
        ),
    ]
}
