//! All devices that an application sees, and how each reaches the others: `steward devices`.
//!
//! ```text
//!   loader -> instance -> physical devices -> SurveyedDevice (capabilities, bus)
//!                                               | gpu_suballoc::DeviceGroup: edges; links refined from
//!                                               |   pci.rs (the path of the system), nvml.rs (the vendor's library)
//!                                               v
//!                                             DevicesReport -> text, JSON, a page
//! ```

mod error;
mod groups;
mod nvml;
mod page;
mod pci;
mod report;
mod survey;
mod surveyed_device;
mod text;

pub use error::DevicesError;
pub use page::html;
pub use pci::{link_between, numa_distance, numa_node};
pub use report::{DevicesReport, EdgeRow, GroupRow, PeerMemoryRow, ShownDevice};
pub use survey::survey;
