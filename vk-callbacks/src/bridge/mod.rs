//! The application's side: a host allocator as `VkAllocationCallbacks`.

mod block_header;
mod context_bridge;
mod counters;
mod entry;
mod live_bridges;
mod state;

pub use crate::sink::{CallMistake, CallMistakeKind, CallMistakeListener, Callback, on_call_mistake};
pub use context_bridge::{BareBridge, Bridge, leaked_bridges};
pub use counters::{BridgeCounters, LeakListener, LeakedBridge};
