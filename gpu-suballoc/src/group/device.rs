use super::capabilities::DeviceCapabilities;
use super::edge::Edge;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::Deref;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// A device that can be in a [`DeviceGroup`](super::DeviceGroup): a `VkDevice` with its runtime.
///
/// The thread that builds the group makes the calls, one after the other, without a lock. If one unwinds, no group is
/// built.
pub trait GroupDevice {
    /// The device's error.
    type Error;

    /// Its membership: the same for every call, and for every reference to the device.
    fn membership_cell(&self) -> &MembershipCell;

    /// Its capabilities; for a Vulkan device see `physical_device_capabilities` (feature `ash`).
    ///
    /// # Errors
    /// The device's own. No group is built.
    fn capabilities(&self) -> Result<DeviceCapabilities, Self::Error>;

    /// Refines the edge to `other`, which has the same driver: the link, better modes.
    ///
    /// Called once for every ordered pair of different devices of one driver.
    ///
    /// # Errors
    /// The device's own. No group is built.
    fn refine(&self, other: &Self, edge: &mut Edge) -> Result<(), Self::Error> {
        let _ = (other, edge);
        Ok(())
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
    fn region_tag(&self) -> Option<u32> {
        (**self).region_tag()
    }
}

/// The number of a group, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(NonZeroU64);

impl GroupId {
    pub(super) fn new_unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // It cannot overflow: 2^56 groups take longer than any process lives.
        Self(NonZeroU64::new(NEXT.fetch_add(1, Relaxed)).unwrap_or(NonZeroU64::MAX))
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {}", self.0)
    }
}

/// A device of a group. It means nothing to other groups, so a copy may outlive the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Membership {
    /// The group.
    pub group: GroupId,
    /// The device's number in it, 0 to 63.
    pub index: usize,
}

/// A device's membership. Each device has one, see [`GroupDevice::membership_cell`].
///
/// A device of a live group is refused by every other group.
#[derive(Debug, Default)]
pub struct MembershipCell {
    /// The group's number, and in the low byte the device's number and 1; 0 in no group.
    word: AtomicU64,
}

impl MembershipCell {
    /// The cell of a device in no group.
    #[must_use]
    pub const fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// The membership; `None` in no group, and while the group is being built.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        let word = self.word.load(Acquire);
        Some(Membership { group: GroupId(NonZeroU64::new(word >> 8)?), index: (word as u8).checked_sub(1)?.into() })
    }

    pub(super) fn reserve(&self, group: GroupId) -> Result<(), GroupId> {
        match (self.word).compare_exchange(0, group.0.get() << 8, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(other) => Err(NonZeroU64::new(other >> 8).map_or(group, GroupId)),
        }
    }

    pub(super) fn set_index(&self, group: GroupId, index: usize) {
        let number = (index as u64).saturating_add(1);
        self.word.store(group.0.get() << 8 | number, Release);
    }

    pub(super) fn clear(&self) {
        self.word.store(0, Release);
    }
}

/// Dropping it clears the memberships of these devices.
pub(super) struct ReservedMemberships<'d, T: GroupDevice>(pub(super) &'d [T]);

impl<T: GroupDevice> Drop for ReservedMemberships<'_, T> {
    fn drop(&mut self) {
        for device in self.0 {
            device.membership_cell().clear();
        }
    }
}
