//! Lists Vulkan drivers through the loader, and selects one by name.
//!
//! For each instance the loader opens drivers from manifests (`*.json`) and the environment. To know the manifest of a device, and to run only
//! one driver, the environment names a single manifest before an instance is created: [`list`] does so for each manifest, [`select()`] for the
//! chosen one. So both are unsafe, and a program calls them first, before it has a second thread.
//!
//! The loader's library is opened at run time; its absence is an ordinary error.

mod alias;
mod chained;
mod environment;
mod error;
mod info;
mod instance;
mod loaded_files;
mod manifest;
mod names;
mod probe;
mod reference;
mod reopen;
mod run_environment;
mod select;

pub use chained::chained;
pub use environment::child_environment;
pub use error::{DriverError, LoaderRefusal};
pub use info::{DriverInfo, DriverTable};
pub use manifest::IcdManifest;
pub(crate) use names::selection;
pub use names::{find, is_called};
pub use reference::{REFERENCE, is_reference, reference};
pub use reopen::{ReopenError, directly, through_loader};
pub use run_environment::run_environment;
pub use select::{LOADER_VARIABLE, Listing, Selected, list, select};
