//! The application's side: an allocator of ours, handed to Vulkan.

mod bare_bridge;
mod block_header;
mod context_bridge;
mod cookie_key;
mod counters;
mod entry;
mod leaked;
mod state;

pub use bare_bridge::BareBridge;
pub use context_bridge::{Bridge, leaked_bridges};
pub use counters::{BridgeCounters, Internal};
pub use leaked::{LeakListener, LeakedBridge};
