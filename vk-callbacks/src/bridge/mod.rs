//! The application's side: an allocator of ours, handed to Vulkan.

mod bare;
mod entry;
mod live;
mod notes;
mod over_context;
mod seal;
mod state;

pub use bare::BareBridge;
pub(crate) use seal::fresh_owner;

pub use live::{Live, LiveScope};
pub use notes::{Internal, Notes};
pub use over_context::{Bridge, BridgeBusy, BridgeRefused, leaked_bridges};
