//! The application's side: a host allocator as `VkAllocationCallbacks`.

mod bare_bridge;
mod block_header;
mod context_bridge;
mod cookie_key;
mod counters;
mod entry;
mod leaked;
mod live_bridges;
mod state;

pub use crate::sink::call_mistake::{
    CallMistake, CallMistakeKind, CallMistakeListener, Callback, on_call_mistake,
};
pub use bare_bridge::BareBridge;
pub use context_bridge::{Bridge, leaked_bridges};
pub use counters::{BridgeCounters, Internal};
pub use leaked::{LeakListener, LeakedBridge};
