//! Contexts on devices that an application owns: acquired, used, released, before the device goes.
//!
//! ```text
//!   Contexts (home): the shared ShaderCache, and which contexts are on one device
//!      | acquire(handles, memory, load)            load: the driver's commands, once a context
//!      v
//!   OwnedContext = CacheOwner | GpuAllocator over UntilLost<device> | Seat on the device       dropped in this order
//!      | release, release_forced -> Released | ReleaseRefused: the context back, and what is in the way
//!      |
//!   ContextTable: contexts by number, for C, and the pair of handlers that choose one for a dispatch
//! ```
//! No handle of the application's is destroyed or waited for, nothing is global, and after the loss of a device no driver is called.

mod context;
mod contexts;
mod dispatch;
mod error;
mod handles;
mod register;
mod release;
mod shared;
mod table;
mod turns;
mod until_lost;

pub use context::{ContextAllocator, OwnedContext, OwnedContextId};
pub use contexts::{Contexts, DeviceState};
pub use dispatch::Dispatch;
pub use error::{CommandLevel, ContextError};
pub use handles::{ContextHandle, ContextHandles};
pub use release::{ContextOutstanding, ForcedRelease, InTheWay, ReleaseRefused, Released};
#[cfg(feature = "ash")]
pub(crate) use shared::Shared;
pub use table::{AcquireContext, ContextHandlers, ContextTable, ReleaseContext};
pub use until_lost::{ContextDevice, UntilLost};
