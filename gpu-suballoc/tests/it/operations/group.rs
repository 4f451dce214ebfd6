//! Groups of devices.

use super::*;

#[derive(Default)]
struct Card(MembershipCell);

impl GroupDevice for &Card {
    type Error = Infallible;

    fn membership_cell(&self) -> &MembershipCell {
        &self.0
    }

    fn capabilities(&self) -> Result<DeviceCapabilities, Infallible> {
        let flags = CapabilityFlags::PEER_ADDRESSABLE;
        Ok(DeviceCapabilities { driver: Some(1), flags, ..DeviceCapabilities::default() })
    }

    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Infallible> {
        assert!(!std::ptr::eq(*self, *other) && edge.is_consistent());
        Ok(())
    }

    fn region_tag(&self) -> Option<u32> {
        Some(9)
    }
}

pub const CALLS: &str = "DeviceGroup::devices DeviceGroup::dissolve DeviceGroup::edge DeviceGroup::edge_between DeviceGroup::new \
    DeviceGroup::owner_of Edge::between Edge::is_consistent Edge::is_peer_to_peer Edge::to_itself \
    GroupDevice::capabilities GroupDevice::membership_cell GroupDevice::refine GroupDevice::region_tag \
    MembershipCell::membership";

pub fn group<S: Stage>(stage: &S, _: usize) {
    let cards = [Card::default(), Card::default()];
    // The list is made before what is attempted: it is the caller's.
    let mut list = TryVec::new_in(Scoped::new(stage.host(), Scope::Device));
    list.try_extend_from_slice(&cards.each_ref()).expect("refused nothing");
    let list = Cell::new(Some(list));
    let seats = || cards.each_ref().map(|card| card.0.membership());
    let group = stage.attempt(seats, || {
        DeviceGroup::new(list.take().expect("it comes back")).map_err(|refused| {
            list.set(Some(refused.value));
            refused.error
        })
    });
    stage.attempt_without_memory(|| {
        let [from, to] = seats().map(|seat| seat.expect("seated"));
        assert!(from.group == to.group && group.devices().len() == 2);
        assert_eq!(group.edge(from, to), group.edge_between(0, 1));
        let owner = |tag| group.owner_of(RegionId::from_raw([tag, 0, 0, 0]));
        assert_eq!((owner(9), owner(8)), (Some(0), None));
        let says = DeviceCapabilities { driver: Some(1), ..DeviceCapabilities::default() };
        let edge = Edge::between(&says, &says).expect("nobody is isolated");
        assert!(!edge.is_peer_to_peer() && edge.is_consistent() && Sink::debug(edge) > 0);
        assert_eq!(Edge::to_itself(&says).link, LinkClass::SameDevice);
    });
    assert_eq!(group.dissolve().len(), 2);
}
