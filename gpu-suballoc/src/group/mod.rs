//! Groups of devices: how each device can use memory and semaphores of another.
//!
//! ```text
//!   DeviceCapabilities (of each device) --Edge::between--> Edge --refine--> TopologyBuilder --> Topology (matrix, bit sets)
//!   GroupDevice  --DeviceGroupBuilder--> DeviceGroup: owns the devices and the Topology
//!        MembershipCell: group and number; two words, no pointer
//! ```
//! Vulkan does not report how devices are linked. What is not known is `Unknown` or `None`, until the program refines it.

mod builder;
mod capabilities;
mod device;
mod device_group;
mod edge;
mod leave;
mod membership;
mod mode;
mod topology;

pub use builder::{DeviceGroupBuilder, GroupError, GroupStep};
pub use capabilities::{CapabilityFlags, DeviceCapabilities, HandleTypes, PciAddress};
pub use device::GroupDevice;
pub use device_group::{DeviceAccess, DeviceGroup};
pub use edge::{Contradiction, Edge};
pub use membership::{GroupId, Membership, MembershipCell};
pub use mode::{Cost, LinkClass, OutOfRange, UseMode};
pub use topology::{MAX_DEVICES, Reach, Topology, TopologyBuilder, TopologyError};
