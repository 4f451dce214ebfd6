//! Groups of devices: how each device can use memory and semaphores of another.
//!
//! ```text
//!   DeviceCapabilities (of each device) --Edge::between--> Edge --refine--> one edge a pair, checked
//!   GroupDevice (each)  --DeviceGroup::new--> DeviceGroup: owns the devices and the edges
//!        MembershipCell: group and number in one word, no pointer
//! ```
//! Vulkan does not report how devices are linked. What is not known is `Unknown` or `None`, until the program refines it.

#![forbid(unsafe_code)]

mod capabilities;
mod device;
mod device_group;
mod edge;

pub use self::device::{GroupId, Membership, MembershipCell};
pub use self::device_group::GroupError;
pub use self::edge::{LinkClass, UseMode};
pub use capabilities::{CapabilityFlags, DeviceCapabilities, HandleTypes};
pub use device::GroupDevice;
pub use device_group::{DeviceGroup, MAX_DEVICES};
pub use edge::Edge;
