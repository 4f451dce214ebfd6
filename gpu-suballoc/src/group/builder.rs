//! Building a group: all devices report their capabilities, all pairs are compared, then the devices join.
//!
//! ```text
//!   add: reserve membership   finish: capabilities 0..n -> edges, refined -> matrix, validated -> join 0..n
//!                                        any refusal: leave k-1..0, clear all memberships, return all devices
//! ```

#![forbid(unsafe_code)]

use core::{fmt, mem};

use alloc_core::{HostError, HostSource, Rejected, TryVec};

use super::capabilities::DeviceCapabilities;
use super::device::GroupDevice;
use super::device_group::DeviceGroup;
use super::edge::Edge;
use super::leave::{JoinedDevices, ReservedMemberships};
use super::membership::{GroupId, Membership};
use super::topology::{MAX_DEVICES, Topology, TopologyBuilder, TopologyError};

/// A group, or the devices.
type BuildResult<T, A> =
    Result<DeviceGroup<T, A>, Rejected<TryVec<T, A>, GroupError<<T as GroupDevice>::Error>>>;

/// A builder of a group. [`finish`](Self::finish) consumes it, and returns the devices if it fails.
pub struct DeviceGroupBuilder<T: GroupDevice, A: HostSource + Clone> {
    /// `None` after they were moved out.
    devices: Option<TryVec<T, A>>,
    id: GroupId,
    memory: A,
}

impl<T: GroupDevice, A: HostSource + Clone> DeviceGroupBuilder<T, A> {
    /// A builder without devices. Allocates nothing; all memory of the group comes from `memory`.
    #[must_use]
    pub fn new(memory: A) -> Self {
        Self {
            devices: Some(TryVec::new_in(memory.clone())),
            id: GroupId::new_unique(),
            memory,
        }
    }

    /// Adds a device. Returns its number, from 0.
    ///
    /// # Errors
    /// The device, and [`GroupError::Full`] for the 65th; [`GroupError::Duplicate`] for one that is in this builder;
    /// [`GroupError::InGroup`] for one that is in a live group or another builder; the allocator's refusal.
    pub fn add(&mut self, device: T) -> Result<usize, Rejected<T, GroupError<T::Error>>> {
        // `Some` until `finish`, which consumes this.
        let Some(devices) = self.devices.as_mut() else {
            return Err(Rejected::new(device, GroupError::Empty));
        };
        let index = devices.len();
        if index >= MAX_DEVICES {
            return Err(Rejected::new(device, GroupError::Full));
        }
        if let Err(error) = devices.try_reserve(1) {
            return Err(Rejected::new(device, GroupError::Host(error)));
        }
        if let Err(group) = device.membership_cell().reserve(self.id) {
            let error = if group == self.id {
                GroupError::Duplicate
            } else {
                GroupError::InGroup(group)
            };
            return Err(Rejected::new(device, error));
        }
        // There is capacity.
        match devices.try_push(device) {
            Ok(()) => Ok(index),
            Err(refused) => {
                refused.value.membership_cell().clear();
                Err(Rejected::new(
                    refused.value,
                    GroupError::Host(refused.error),
                ))
            }
        }
    }

    /// The number of added devices.
    #[must_use]
    pub fn count(&self) -> usize {
        self.devices.as_ref().map_or(0, |devices| devices.len())
    }

    /// Builds the group.
    ///
    /// # Errors
    /// All devices, in no group and as they were before they were added, and [`GroupError::Empty`] without any; a device's own refusal;
    /// [`GroupError::Topology`] for refinements that contradict each other; the allocator's refusal.
    pub fn finish(mut self) -> BuildResult<T, A> {
        let memory = self.memory.clone();
        self.build(|devices| edges_of(devices, memory))
    }

    /// As [`finish`](Self::finish), with known edges.
    pub(super) fn finish_with(mut self, topology: Topology<A>) -> BuildResult<T, A> {
        self.build(|devices| {
            if devices.len() == topology.count() {
                Ok(topology)
            } else {
                Err(GroupError::Empty)
            }
        })
    }

    fn build(
        &mut self,
        edges: impl FnOnce(&[T]) -> Result<Topology<A>, GroupError<T::Error>>,
    ) -> BuildResult<T, A> {
        let devices = self
            .devices
            .take()
            .unwrap_or_else(|| TryVec::new_in(self.memory.clone()));
        match topology_of(&devices, self.id, edges) {
            Ok(topology) => Ok(DeviceGroup::of(devices, topology, self.id)),
            Err(error) => Err(Rejected::new(devices, error)),
        }
    }
}

/// The devices are dropped, in no group.
impl<T: GroupDevice, A: HostSource + Clone> Drop for DeviceGroupBuilder<T, A> {
    fn drop(&mut self) {
        if let Some(devices) = &self.devices {
            drop(ReservedMemberships(devices));
        }
    }
}

/// Computes the edges and lets all devices join. A refusal or an unwind clears all memberships.
pub(super) fn topology_of<T: GroupDevice, A: HostSource>(
    devices: &[T],
    id: GroupId,
    edges: impl FnOnce(&[T]) -> Result<Topology<A>, GroupError<T::Error>>,
) -> Result<Topology<A>, GroupError<T::Error>> {
    let memberships = ReservedMemberships(devices);
    let topology = edges(devices)?;
    join_all(devices, id)?;
    mem::forget(memberships);
    Ok(topology)
}

/// Reads the capabilities of all devices and compares all pairs.
pub(super) fn edges_of<T: GroupDevice, A: HostSource + Clone>(
    devices: &[T],
    memory: A,
) -> Result<Topology<A>, GroupError<T::Error>> {
    if devices.is_empty() {
        return Err(GroupError::Empty);
    }
    let mut reported =
        TryVec::<DeviceCapabilities, A>::try_with_capacity_in(devices.len(), memory.clone())?;
    for (index, device) in devices.iter().enumerate() {
        let capabilities = device.capabilities().map_err(|error| GroupError::Device {
            index,
            step: GroupStep::Capabilities,
            error,
        })?;
        reported
            .try_push(capabilities)
            .map_err(|refused| refused.error)?;
    }
    let of = |index: usize| reported.get(index).copied().unwrap_or_default();
    let mut builder =
        TopologyBuilder::new(devices.len(), |index| Edge::to_itself(&of(index)), memory)?;
    for (from, device) in devices.iter().enumerate() {
        for (to, other) in devices.iter().enumerate().filter(|(to, _)| *to != from) {
            let Some(mut edge) = Edge::between(&of(from), &of(to)) else {
                builder.cut(from, to)?;
                continue;
            };
            if of(from).is_same_driver(&of(to)) {
                let refuses = |error| GroupError::Device {
                    index: from,
                    step: GroupStep::Refine { other: to },
                    error,
                };
                device.refine(other, &mut edge).map_err(refuses)?;
            }
            builder.set(from, to, edge)?;
        }
    }
    Ok(builder.finish()?)
}

/// Lets the devices join one after the other. If one refuses or unwinds, those before it leave, the last first.
fn join_all<T: GroupDevice>(devices: &[T], group: GroupId) -> Result<(), GroupError<T::Error>> {
    let mut joined = JoinedDevices {
        devices,
        group,
        count: 0,
    };
    for (index, device) in devices.iter().enumerate() {
        device.membership_cell().set_index(index);
        device
            .join(Membership { group, index })
            .map_err(|error| GroupError::Device {
                index,
                step: GroupStep::Join,
                error,
            })?;
        joined.count = index.saturating_add(1);
    }
    mem::forget(joined);
    Ok(())
}

/// Why no group was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError<E> {
    /// No devices were added.
    Empty,
    /// The builder has [`MAX_DEVICES`] devices.
    Full,
    /// The device is in this builder.
    Duplicate,
    /// The device is in a live group, or in another builder.
    InGroup(GroupId),
    /// A device refused.
    Device {
        /// Its number.
        index: usize,
        /// The refused call.
        step: GroupStep,
        /// The device's error.
        error: E,
    },
    /// The edges contradict each other.
    Topology(TopologyError),
    /// The host allocator had no memory. Nobody's fault.
    Host(HostError),
}

/// A call that a device refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStep {
    /// [`GroupDevice::capabilities`].
    Capabilities,
    /// [`GroupDevice::refine`].
    Refine {
        /// The other device of the pair.
        other: usize,
    },
    /// [`GroupDevice::join`].
    Join,
    /// The creation of its stand-in ([`DeviceGroup::with_stand_ins`]).
    StandIn,
}

impl<E> From<HostError> for GroupError<E> {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl<E> From<TopologyError> for GroupError<E> {
    fn from(error: TopologyError) -> Self {
        match error {
            TopologyError::Host(error) => Self::Host(error),
            error => Self::Topology(error),
        }
    }
}

impl<E: fmt::Display> fmt::Display for GroupError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a group needs a device: add one before it is finished"),
            Self::Full => write!(
                f,
                "a group has at most {MAX_DEVICES} devices: make another one"
            ),
            Self::Duplicate => f.write_str("the device was added before: add each one once"),
            Self::InGroup(group) => write!(f, "the device is in {group}: end that one first"),
            Self::Device { index, step, error } => {
                write!(f, "device {index} ")?;
                match step {
                    GroupStep::Capabilities => f.write_str("does not say what it can do"),
                    GroupStep::Refine { other } => {
                        write!(f, "does not say how it uses device {other}")
                    }
                    GroupStep::StandIn => f.write_str("has no stand-in"),
                    GroupStep::Join => f.write_str("did not join"),
                }?;
                write!(f, ": {error}")
            }
            Self::Topology(error) => error.fmt(f),
            Self::Host(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for GroupError<E> {}
