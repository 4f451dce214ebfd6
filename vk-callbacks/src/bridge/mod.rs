//! The application's side: an allocator of ours, handed to Vulkan.

mod bare;
mod entry;
mod notes;
mod seal;
mod state;

pub use bare::BareBridge;
pub use notes::{Internal, Notes};
