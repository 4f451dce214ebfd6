//! Lists Vulkan drivers through the loader, and selects one by name.
//!
//! For each instance the loader opens drivers from manifests (`*.json`) and the environment. To know the manifest of a
//! device, and to run only one driver, the environment names a single manifest. Each driver is therefore opened in a
//! child: [`list`] and [`select()`] only ask children.

mod alias;
mod chained;
mod environment;
mod error;
mod info;
mod instance;
mod manifest;
mod names;
mod open;
mod probe;
mod reference;
mod run_environment;
mod select;

pub use chained::chained;
pub use error::{DriverError, LoaderRefusal};
pub use info::{DriverInfo, DriverTable};
pub(crate) use manifest::{has_none, layers};
pub(crate) use names::selection;
pub use open::{LOADER_VARIABLE, OpenDriver, OpenError};
pub use reference::{REFERENCE, reference};
pub use run_environment::run_environment;
pub(crate) use select::{COMMAND, list_by, show_devices};
pub use select::{Listing, Selected, list, select};
