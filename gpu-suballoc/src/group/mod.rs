//! Several devices, and what each can do with what belongs to another.
//!
//! ```text
//!   Capabilities (device by device) --Edge::between--> Edge --refine--> TopologyBuilder --> Topology (matrix, bit sets)
//!   GroupDevice  --DeviceGroupBuilder--> DeviceGroup: owns the devices and the Topology
//!        Seat: which group, as which number; two words, no pointer
//! ```
//! Nobody else says of Vulkan devices how they are joined, so what is not known is `Unknown` or `None`, and the program refines it from
//! what the system tells.

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
