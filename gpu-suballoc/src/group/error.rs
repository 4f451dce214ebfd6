//! Why no group was built.

use core::fmt;

use alloc_core::HostError;

use super::device::GroupId;
use super::device_group::MAX_DEVICES;
use super::edge::Contradiction;

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
        /// The refused call.
        step: GroupStep,
        /// The device's error.
        error: E,
    },
    /// An edge contradicts itself after its refinement.
    Contradiction {
        /// The user.
        from: usize,
        /// The owner.
        to: usize,
        /// The contradiction.
        contradiction: Contradiction,
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

/// A call that a device refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStep {
    /// [`GroupDevice::capabilities`](super::GroupDevice::capabilities).
    Capabilities,
    /// [`GroupDevice::refine`](super::GroupDevice::refine).
    Refine {
        /// The other device of the pair.
        other: usize,
    },
    /// [`GroupDevice::join`](super::GroupDevice::join).
    Join,
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
            Self::TooMany => write!(
                f,
                "a group has at most {MAX_DEVICES} devices: make several groups"
            ),
            Self::Duplicate { index } => write!(
                f,
                "device {index} is in the list before: pass each device once"
            ),
            Self::InGroup { index, group } => {
                write!(f, "device {index} is in {group}: end that one first")
            }
            Self::Device { index, step, error } => {
                write!(f, "device {index} ")?;
                match step {
                    GroupStep::Capabilities => f.write_str("does not say what it can do"),
                    GroupStep::Refine { other } => {
                        write!(f, "does not say how it uses device {other}")
                    }
                    GroupStep::Join => f.write_str("did not join"),
                }?;
                write!(f, ": {error}")
            }
            Self::Contradiction {
                from,
                to,
                contradiction,
            } => write!(
                f,
                "the edge from device {from} to {to} contradicts itself, {contradiction}: refine both"
            ),
            Self::Asymmetric { from, to } => write!(
                f,
                "devices {from} and {to} are joined by one link: refine both directions to the same class"
            ),
            Self::Host(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for GroupError<E> {}
