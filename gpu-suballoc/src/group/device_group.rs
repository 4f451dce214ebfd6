//! A group of devices, the owner of the devices and their topology.

#![forbid(unsafe_code)]

use core::{fmt, slice};

use alloc_core::{HostSource, Rejected, TryVec};

use super::builder::{DeviceGroupBuilder, GroupError, GroupStep, edges_of, topology_of};
use super::device::GroupDevice;
use super::edge::Edge;
use super::leave::{JoinedDevices, ReservedMemberships};
use super::membership::{GroupId, Membership};
use super::mode::{Cost, UseMode};
use super::topology::Topology;
use crate::id::RegionId;

/// A group of up to 64 devices, and the [`Topology`] between them, which never changes. A device that outlives the group has no
/// membership.
///
/// Queries are plain loads: wait-free, from any thread, without allocation. Queries of devices of two groups, or of numbers out of
/// range, return `None`.
///
/// ```
/// use alloc_core::{FromGlobalAlloc, Scope, Scoped};
/// use gpu_suballoc::DeviceGroup;
/// use gpu_suballoc::group::{DeviceCapabilities, GroupDevice, MembershipCell};
///
/// struct Card {
///     seat: MembershipCell,
///     uuid: [u8; 16],
/// }
/// impl GroupDevice for Card {
///     type Error = core::convert::Infallible;
///     fn membership_cell(&self) -> &MembershipCell {
///         &self.seat
///     }
///     fn capabilities(&self) -> Result<DeviceCapabilities, Self::Error> {
///         Ok(DeviceCapabilities { device_uuid: Some(self.uuid), ..DeviceCapabilities::default() })
///     }
/// }
///
/// static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let cards = [Card { seat: MembershipCell::new(), uuid: [1; 16] }, Card { seat: MembershipCell::new(), uuid: [2; 16] }];
///
/// let mut builder = DeviceGroup::builder(Scoped::new(&SYSTEM, Scope::Device));
/// for card in &cards {
///     builder.add(card).map_err(|refused| refused.error)?;
/// }
/// let group = builder.finish().map_err(|refused| refused.error)?;
/// assert_eq!(group.topology().reach(0).map(|reach| reach.can_wait_on), Some(0b10));
///
/// let (one, other) = (cards[0].seat.membership().unwrap(), cards[1].seat.membership().unwrap());
/// assert!(group.edge(one, other).is_some());
/// drop(group);
/// assert_eq!(cards[0].seat.membership(), None);
/// # Ok::<(), gpu_suballoc::group::GroupError<core::convert::Infallible>>(())
/// ```
pub struct DeviceGroup<T: GroupDevice, A: HostSource> {
    devices: TryVec<T, A>,
    topology: Topology<A>,
    id: GroupId,
    /// All devices have left.
    is_ended: bool,
}

impl<T: GroupDevice, A: HostSource> DeviceGroup<T, A> {
    /// The group's unique number.
    #[must_use]
    pub const fn id(&self) -> GroupId {
        self.id
    }

    /// The number of devices, 1 to 64.
    #[must_use]
    pub fn count(&self) -> usize {
        self.devices().len()
    }

    /// The devices, in the order in which they were added.
    #[must_use]
    pub fn devices(&self) -> &[T] {
        &self.devices
    }

    /// Device `index`; `None` out of range.
    #[must_use]
    pub fn device(&self, index: usize) -> Option<&T> {
        self.devices().get(index)
    }

    /// All edges.
    #[must_use]
    pub const fn topology(&self) -> &Topology<A> {
        &self.topology
    }

    /// How `from` uses memory and semaphores of `to`; `None` if one of them is not in this group or is isolated.
    #[inline]
    #[must_use]
    pub fn edge(&self, from: Membership, to: Membership) -> Option<&Edge> {
        let both_here = from.group == self.id && to.group == self.id;
        if both_here {
            self.topology.edge(from.index, to.index)
        } else {
            None
        }
    }

    /// How device `user` accesses the memory of a region on a device of this group, and at what cost: can it be imported, or must
    /// it be copied? `None` for a region of no device of this group, and if there is no edge.
    #[must_use]
    pub fn access(&self, region: RegionId, user: usize) -> Option<DeviceAccess> {
        let owner = self
            .devices()
            .iter()
            .position(|device| device.region_tag() == Some(region.tag()))?;
        let edge = self.topology.edge(user, owner)?;
        Some(DeviceAccess {
            owner,
            read: edge.read,
            write: edge.write,
            copy_cost: edge.copy_cost,
            is_peer_to_peer: edge.is_peer_to_peer(),
        })
    }

    /// Lets every device leave, the last one first, and clears the memberships.
    fn end(&mut self) {
        self.is_ended = true;
        let devices: &[T] = &self.devices;
        let _memberships = ReservedMemberships(devices);
        drop(JoinedDevices {
            devices,
            group: self.id,
            count: devices.len(),
        });
    }

    pub(super) fn of(devices: TryVec<T, A>, topology: Topology<A>, id: GroupId) -> Self {
        Self {
            devices,
            topology,
            id,
            is_ended: false,
        }
    }
}

impl<T: GroupDevice, A: HostSource + Clone> DeviceGroup<T, A> {
    /// A builder of a group.
    #[must_use]
    pub fn builder(memory: A) -> DeviceGroupBuilder<T, A> {
        DeviceGroupBuilder::new(memory)
    }

    /// Builds a group of one device.
    ///
    /// # Errors
    /// The device, and the error of [`DeviceGroupBuilder::add`] or [`DeviceGroupBuilder::finish`].
    pub fn of_one(device: T, memory: A) -> Result<Self, Rejected<T, GroupError<T::Error>>> {
        let id = GroupId::new_unique();
        let mut devices = match TryVec::try_with_capacity_in(1, memory.clone()) {
            Ok(devices) => devices,
            Err(error) => {
                return Err(Rejected::new(device, error));
            }
        };
        if let Err(group) = device.membership_cell().reserve(id) {
            return Err(Rejected::new(device, GroupError::InGroup(group)));
        }
        let topology = match topology_of(slice::from_ref(&device), id, |device| {
            edges_of(device, memory)
        }) {
            Ok(topology) => topology,
            Err(error) => {
                return Err(Rejected::new(device, error));
            }
        };
        match devices.try_push(device) {
            Ok(()) => Ok(Self::of(devices, topology, id)),
            // There is capacity; the undo is for completeness.
            Err(refused) => {
                refused.value.leave(Membership {
                    group: id,
                    index: 0,
                });
                refused.value.membership_cell().clear();
                Err(Rejected::new(refused.value, refused.error))
            }
        }
    }

    /// Ends the group and returns the devices, in no group.
    #[must_use]
    pub fn dissolve(mut self) -> TryVec<T, A> {
        self.end();
        let none = TryVec::new_in(self.devices.allocator().clone());
        core::mem::replace(&mut self.devices, none)
    }

    /// Builds a group of stand-ins with the same edges: `stand_in` creates one for each device, in order, for instance to record its
    /// calls. Both groups live side by side.
    ///
    /// # Errors
    /// The error of `stand_in` or of [`DeviceGroupBuilder::finish`]; the stand-ins are dropped, in no group.
    pub fn with_stand_ins<U: GroupDevice>(
        &self,
        memory: A,
        mut stand_in: impl FnMut(usize, &T) -> Result<U, U::Error>,
    ) -> Result<DeviceGroup<U, A>, GroupError<U::Error>> {
        let mut builder = DeviceGroupBuilder::new(memory.clone());
        for (index, device) in self.devices().iter().enumerate() {
            let step = GroupStep::StandIn;
            let made = stand_in(index, device).map_err(|error| GroupError::Device {
                index,
                step,
                error,
            })?;
            builder.add(made).map_err(|refused| refused.error)?;
        }
        builder
            .finish_with(self.topology.try_clone(memory)?)
            .map_err(|refused| refused.error)
    }
}

/// The devices leave in reverse order, and are dropped in order.
impl<T: GroupDevice, A: HostSource> Drop for DeviceGroup<T, A> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.end();
        }
    }
}

impl<T: GroupDevice, A: HostSource> fmt::Debug for DeviceGroup<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceGroup")
            .field("id", &self.id)
            .field("topology", &self.topology)
            .finish()
    }
}

/// How a device accesses a region of another device, or of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// The device of the region.
    pub owner: usize,
    /// How it is read.
    pub read: UseMode,
    /// How it is written.
    pub write: UseMode,
    /// The cost of a copy, if it is known.
    pub copy_cost: Option<Cost>,
    /// Whether a copy avoids the host.
    pub is_peer_to_peer: bool,
}
