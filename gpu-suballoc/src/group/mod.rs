//! Groups of devices: how each device can use memory and semaphores of another.
//!
//! ```text
//!   DeviceCapabilities (of each device) --Edge::between--> Edge --refine--> one edge a pair, checked
//!   GroupDevice (each)  --DeviceGroup::new--> DeviceGroup: owns the devices and the edges
//!        MembershipCell: group and number in one word, no pointer
//! ```
//! Vulkan does not report how devices are linked. What is not known is `Unknown` or `None`, until the program refines
//! it.

#![forbid(unsafe_code)]

mod capabilities;
mod device;
mod device_group;
mod edge;

pub use self::device::{GroupDevice, GroupId, Membership, MembershipCell};
pub use self::device_group::{DeviceGroup, GroupError, MAX_DEVICES};
pub use self::edge::{Edge, LinkClass, UseMode};
pub use capabilities::{CapabilityFlags, DeviceCapabilities, HandleTypes};
