//! ```text
//!   new: reserve memberships   capabilities 0..n -> edges, refined, checked -> numbers 0..n
//!        any refusal: clear all memberships, return all devices
//!
//!             to 0     1        2
//!   from 0 | itself | edge   | none (isolated) |
//!        1 | edge   | itself | none            |
//!        2 | none   | none   | itself          |
//! ```

use super::capabilities::DeviceCapabilities;
use super::device::{GroupDevice, GroupId, Membership, ReservedMemberships};
use super::edge::Edge;
use crate::flags::debug_fields;
use crate::id::RegionId;
use alloc_core::{HostError, HostSource, Rejected, TryVec};
use core::{fmt, mem};

/// Most devices in a group.
pub const MAX_DEVICES: usize = 64;

/// A group of up to 64 devices, and the [`Edge`]s between them, which never change. A device that outlives the group
/// has no membership.
///
/// Queries return `None` for devices of two groups.
///
/// ```
/// use alloc_core::{FromGlobalAlloc, Scope, Scoped, TryVec};
/// use gpu_suballoc::DeviceGroup;
/// use gpu_suballoc::group::{DeviceCapabilities, GroupDevice, MembershipCell, UseMode};
///
/// struct Card {
///     membership: MembershipCell,
///     uuid: [u8; 16],
/// }
/// impl GroupDevice for Card {
///     type Error = core::convert::Infallible;
///     fn membership_cell(&self) -> &MembershipCell {
///         &self.membership
///     }
///     fn capabilities(&self) -> Result<DeviceCapabilities, Self::Error> {
///         Ok(DeviceCapabilities { device_uuid: Some(self.uuid), ..DeviceCapabilities::default() })
///     }
/// }
///
/// static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
/// let cards = [1, 2].map(|uuid| Card { membership: MembershipCell::new(), uuid: [uuid; 16] });
///
/// let mut devices = TryVec::new_in(Scoped::new(&SYSTEM, Scope::Device));
/// devices.try_extend_from_slice(&cards.each_ref())?;
/// let group = DeviceGroup::new(devices).map_err(|refused| refused.error)?;
/// assert_eq!(group.edge_between(0, 1).map(|edge| edge.read), Some(UseMode::Copy));
///
/// let [one, other] = [0, 1].map(|index: usize| cards[index].membership.membership().unwrap());
/// assert!(group.edge(one, other).is_some());
/// drop(group);
/// assert_eq!(cards[0].membership.membership(), None);
/// # Ok::<(), gpu_suballoc::group::GroupError<core::convert::Infallible>>(())
/// ```
pub struct DeviceGroup<T: GroupDevice, A: HostSource> {
    devices: TryVec<T, A>,
    /// Rows by the using device, columns by the owner. `None`: one of the two is isolated.
    edges: TryVec<Option<Edge>, A>,
    id: GroupId,
}

impl<T: GroupDevice, A: HostSource + Clone> DeviceGroup<T, A> {
    /// Builds a group of `devices`, numbered by their order from 0. All memory of the group is that of the list's
    /// allocator.
    ///
    /// # Errors
    /// All devices, as they were before: [`GroupError::Empty`] and [`GroupError::TooMany`]; [`GroupError::Duplicate`]
    /// and [`GroupError::InGroup`] for a device that is in the list twice or in a live group; a device's own refusal;
    /// [`GroupError::Contradiction`] and [`GroupError::Asymmetric`] for refinements that cannot be true; the
    /// allocator's refusal.
    #[expect(clippy::type_complexity, reason = "a refusal returns the devices")]
    pub fn new(devices: TryVec<T, A>) -> Result<Self, Rejected<TryVec<T, A>, GroupError<T::Error>>> {
        let id = GroupId::new_unique();
        match join_all(&devices, id, devices.allocator().clone()) {
            Ok(edges) => Ok(Self { devices, edges, id }),
            Err(error) => Err(Rejected::new(devices, error)),
        }
    }

    /// Ends the group and returns the devices, in no group.
    #[must_use]
    pub fn dissolve(mut self) -> TryVec<T, A> {
        drop(ReservedMemberships(&self.devices));
        let none = TryVec::new_in(self.devices.allocator().clone());
        mem::replace(&mut self.devices, none)
    }
}

impl<T: GroupDevice, A: HostSource> DeviceGroup<T, A> {
    /// The devices, 1 to 64, by number.
    #[must_use]
    pub fn devices(&self) -> &[T] {
        &self.devices
    }

    /// How `from` uses memory and semaphores of `to`; `None` if one of them is not in this group or is isolated.
    #[inline]
    #[must_use]
    pub fn edge(&self, from: Membership, to: Membership) -> Option<&Edge> {
        if from.group != self.id || to.group != self.id {
            return None;
        }
        self.edge_between(from.index, to.index)
    }

    /// As [`edge`](Self::edge), by the devices' numbers.
    #[inline]
    #[must_use]
    pub fn edge_between(&self, from: usize, to: usize) -> Option<&Edge> {
        let count = self.devices.len();
        if to >= count {
            return None;
        }
        self.edges.get(from.checked_mul(count)?.checked_add(to)?)?.as_ref()
    }

    /// The number of the device that a region is on ([`GroupDevice::region_tag`]).
    #[must_use]
    pub fn owner_of(&self, region: RegionId) -> Option<usize> {
        self.devices.iter().position(|device| device.region_tag() == Some(region.tag()))
    }
}

/// If it is refused or unwinds, all devices are as before.
fn join_all<T: GroupDevice, A: HostSource + Clone>(
    devices: &[T],
    group: GroupId,
    memory: A,
) -> Result<TryVec<Option<Edge>, A>, GroupError<T::Error>> {
    match devices.len() {
        0 => return Err(GroupError::Empty),
        1..=MAX_DEVICES => {}
        _ => return Err(GroupError::TooMany),
    }
    let mut reserved = ReservedMemberships(&[]);
    for (index, device) in devices.iter().enumerate() {
        device.membership_cell().reserve(group).map_err(|there| match there == group {
            true => GroupError::Duplicate { index },
            false => GroupError::InGroup { index, group: there },
        })?;
        reserved.0 = devices.get(..=index).unwrap_or(devices);
    }
    let edges = edges_of(devices, memory)?;
    for (index, device) in devices.iter().enumerate() {
        device.membership_cell().set_index(group, index);
    }
    mem::forget(reserved);
    Ok(edges)
}

fn edges_of<T: GroupDevice, A: HostSource + Clone>(
    devices: &[T],
    memory: A,
) -> Result<TryVec<Option<Edge>, A>, GroupError<T::Error>> {
    let count = devices.len();
    let mut reported = TryVec::try_with_capacity_in(count, memory.clone())?;
    for (index, device) in devices.iter().enumerate() {
        let capabilities = device.capabilities().map_err(|error| GroupError::Device { index, error })?;
        reported.try_push(capabilities).map_err(|full| full.error)?;
    }
    let reported: &[DeviceCapabilities] = &reported;
    let mut edges: TryVec<Option<Edge>, A> = TryVec::try_with_capacity_in(count.saturating_mul(count), memory)?;
    for (from, (device, mine)) in devices.iter().zip(reported).enumerate() {
        for (to, (other, theirs)) in devices.iter().zip(reported).enumerate() {
            let edge = if from == to {
                Some(Edge::to_itself(mine))
            } else {
                let mut edge = Edge::between(mine, theirs);
                if let Some(edge) = &mut edge
                    && mine.is_same_driver(theirs)
                {
                    device.refine(other, edge).map_err(|error| GroupError::Device { index: from, error })?;
                }
                edge
            };
            if edge.is_some_and(|edge| !edge.is_consistent()) {
                return Err(GroupError::Contradiction { from, to });
            }
            edges.try_push(edge).map_err(|full| full.error)?;
        }
    }
    let link = |from: usize, to: usize| Some(edges.get(from * count + to)?.as_ref()?.link);
    for from in 0..count {
        for to in from..count {
            if link(from, to) != link(to, from) {
                return Err(GroupError::Asymmetric { from, to });
            }
        }
    }
    Ok(edges)
}

impl<T: GroupDevice, A: HostSource> Drop for DeviceGroup<T, A> {
    fn drop(&mut self) {
        drop(ReservedMemberships(&self.devices));
    }
}

debug_fields!(
    [T: GroupDevice, A: HostSource] DeviceGroup<T, A>, "DeviceGroup",
    |this| id = this.id, devices = this.devices.len()
);

/// Why no group was built. Devices are named by their place in the list that was passed, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError<E> {
    /// There are no devices.
    Empty,
    /// There are more than [`MAX_DEVICES`] devices.
    TooMany,
    /// The device is in the list twice.
    Duplicate {
        /// Its second place.
        index: usize,
    },
    /// The device is in a live group.
    InGroup {
        /// Its place.
        index: usize,
        /// That group.
        group: GroupId,
    },
    /// A device refused.
    Device {
        /// Its place.
        index: usize,
        /// The device's error.
        error: E,
    },
    /// An edge contradicts itself after its refinement.
    Contradiction {
        /// The user.
        from: usize,
        /// The owner.
        to: usize,
    },
    /// The two directions of a pair were refined to different links.
    Asymmetric {
        /// One device.
        from: usize,
        /// The other device.
        to: usize,
    },
    /// The host allocator had no memory. Nobody's fault.
    Host(HostError),
}

impl<E> From<HostError> for GroupError<E> {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl<E: fmt::Display> fmt::Display for GroupError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a group needs a device: pass one"),
            Self::TooMany => write!(f, "a group has at most {MAX_DEVICES} devices: make several groups"),
            Self::Duplicate { index } => write!(f, "device {index} is in the list before: pass each device once"),
            Self::InGroup { index, group } => {
                write!(f, "device {index} is in {group}: end that one first")
            }
            Self::Device { index, error } => write!(f, "device {index} refused: {error}"),
            Self::Contradiction { from, to } => {
                write!(
                    f,
                    "the edge from device {from} to {to} contradicts itself: it imports without a handle, or is native through the host: refine both"
                )
            }
            Self::Asymmetric { from, to } => {
                write!(f, "devices {from} and {to} are joined by one link: refine both directions to the same class")
            }
            Self::Host(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for GroupError<E> {}
