//! Finding Vulkan drivers through the loader, and choosing one of them by name.
//!
//! The loader decides for itself which drivers it opens, once an instance, from manifests (`*.json`) and from the environment.
//! To know which manifest a device belongs to, and to be sure that a run touches that driver alone, the environment is narrowed
//! to one manifest at a time before an instance is made: [`list`] does so for each in turn, [`select()`] for the chosen one.
//! That is why both are unsafe, and why a program calls them first, before it has a second thread.
//!
//! The loader's library is opened at run time. Where there is none, that is an error with a remedy like any other.

mod alias;
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

pub use environment::child_environment;
pub use error::{DriverError, LoaderRefusal};
pub use info::{DriverInfo, DriverTable};
pub(crate) use instance::{DriverProperties, PlainInstance, text, version_text};
pub use manifest::IcdManifest;
pub use names::{find, is_called};
pub use reference::{REFERENCE, is_reference, reference};
pub use reopen::{ReopenError, directly, through_loader};
pub use run_environment::run_environment;
pub(crate) use select::open;
pub use select::{LOADER_VARIABLE, Listing, Selected, list, select};
