//! The interface of a device to its group.

#![forbid(unsafe_code)]

use core::ops::Deref;

use super::capabilities::DeviceCapabilities;
use super::edge::Edge;
use super::membership::{Membership, MembershipCell};

/// A device that can be in a [`DeviceGroup`](super::DeviceGroup): a `VkDevice` with its runtime.
///
/// The thread that builds or ends the group makes the calls, one after the other, without a lock. If one unwinds, the group
/// is not built, or ends: devices that had joined leave, and all are in no group.
pub trait GroupDevice {
    /// The device's error.
    type Error;

    /// Its membership: the same for every call, and for every reference to the device.
    fn membership_cell(&self) -> &MembershipCell;

    /// Its capabilities; for a Vulkan device see `physical_device_capabilities` (feature `ash`). Called once for each group.
    ///
    /// # Errors
    /// The device's own. No group is built.
    fn capabilities(&self) -> Result<DeviceCapabilities, Self::Error>;

    /// Refines the edge to `other`, which has the same driver: the link, costs, better modes.
    ///
    /// Called once for every ordered pair of different devices of one driver. The default changes nothing.
    ///
    /// # Errors
    /// The device's own. No group is built.
    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Self::Error> {
        let _ = (other, edge);
        Ok(())
    }

    /// Joins the group: the last call that can be refused.
    ///
    /// # Errors
    /// The device's own; it must be unchanged then. Devices that had joined leave, the last one first, and no group is built.
    fn join(&self, membership: Membership) -> Result<(), Self::Error> {
        let _ = membership;
        Ok(())
    }

    /// Leaves the group. Called once for each [`join`](Self::join) that succeeded.
    fn leave(&self, membership: Membership) {
        let _ = membership;
    }

    /// The tag of the regions on it ([`RegionId::tag`](crate::RegionId::tag)).
    fn region_tag(&self) -> Option<u32> {
        None
    }
}

/// For pointers at devices: references, `Arc`, `Box`.
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
