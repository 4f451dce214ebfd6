//! What a group asks of a device.

#![forbid(unsafe_code)]

use core::ops::Deref;

use super::capabilities::DeviceCapabilities;
use super::edge::Edge;
use super::membership::{Membership, MembershipCell};

/// A device that can be in a [`DeviceGroup`](super::DeviceGroup): a `VkDevice`, with what its runtime keeps beside it.
///
/// The calls come from the thread that makes or ends the group, one after the other, with no lock held. Where one unwinds the
/// group is not made, or ends: those that had joined leave, and all are in no group.
pub trait GroupDevice {
    /// Why a device refuses. Given back as it is, with the device's number.
    type Error;

    /// Where it notes which group it is in: the same for every call, and for every reference to the device.
    fn membership_cell(&self) -> &MembershipCell;

    /// What it says of itself; of a Vulkan device `physical_device_capabilities` (feature `ash`) tells. Asked once a group.
    ///
    /// # Errors
    /// The device's own. No group is made.
    fn capabilities(&self) -> Result<DeviceCapabilities, Self::Error>;

    /// Says more of how this device uses what belongs to `other`, which is of the same driver: the link, costs, better modes.
    ///
    /// Called once for every ordered pair of different devices of one driver. The default knows nothing more.
    ///
    /// # Errors
    /// The device's own. No group is made.
    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Self::Error> {
        let _ = (other, edge);
        Ok(())
    }

    /// It becomes one of the group: the last thing that can be refused.
    ///
    /// # Errors
    /// The device's own; it must be as before then. Those that had joined leave again, the last one first, and no group is made.
    fn join(&self, membership: Membership) -> Result<(), Self::Error> {
        let _ = membership;
        Ok(())
    }

    /// It is in the group no more. Called once for each [`join`](Self::join) that succeeded. Cannot fail.
    fn leave(&self, membership: Membership) {
        let _ = membership;
    }

    /// The tag of the regions that live in it ([`RegionId::tag`](crate::RegionId::tag)), so that a region is known to be on it.
    fn region_tag(&self) -> Option<u32> {
        None
    }
}

/// What points at a device is one: a reference, an `Arc`, a `Box`.
impl<P: Deref> GroupDevice for P
where
    P::Target: GroupDevice + Sized,
{
    type Error = <P::Target as GroupDevice>::Error;
    fn membership_cell(&self) -> &MembershipCell {
        (**self).membership_cell()
    }
    fn capabilities(&self) -> Result<DeviceCapabilities, Self::Error> {
        (**self).capabilities()
    }
    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Self::Error> {
        (**self).refine(other, edge)
    }
    fn join(&self, membership: Membership) -> Result<(), Self::Error> {
        (**self).join(membership)
    }
    fn leave(&self, membership: Membership) {
        (**self).leave(membership);
    }
    fn region_tag(&self) -> Option<u32> {
        (**self).region_tag()
    }
}
