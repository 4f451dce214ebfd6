//! Contexts on devices that an application owns, released before the device is destroyed.
//!
//! ```text
//!   DeviceContexts: the shared ShaderCache, and the devices with contexts
//!      | acquire(handles, memory, load)            load: the driver's commands, once for each context
//!      v
//!   DeviceContext = CacheOwner | GpuAllocator over LossAwareDevice<device> | DeviceShare       dropped in this order
//!      | release, release_forced -> ReleaseReport | Rejected: the context, and what is outstanding
//!      |
//!   ContextTable: contexts by number, for C, and the handlers that choose one for a dispatch
//! ```
//! The crate neither destroys nor waits for the application's handles.

mod contexts;
mod device_context;
mod dispatch_lock;
mod error;
mod register;
mod table;

pub use self::contexts::{DeviceContexts, DeviceState, LossAwareDevice};
pub use self::device_context::{
    ContextAllocator, ContextOutstanding, DeviceContext, DeviceContextId, ForcedRelease, ReleaseBlocker, ReleaseReport,
};
pub use self::error::{CommandSource, ContextError, VulkanHandleKind, VulkanHandles};
pub use table::{AcquireContext, ContextHandlers, ContextTable, ReleaseContext};
