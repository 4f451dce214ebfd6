//! The driver's side: the application's callbacks as a host allocator.

mod block;
mod callbacks;
mod domain;
mod fallback_chain;
mod multi_alloc;
mod object;

pub use block::{DriverBlock, ObjectPlace, Stored};
pub use callbacks::CallbackAllocator;
pub use domain::{DeviceDomain, InstanceDomain, PoolDomain};
pub use fallback_chain::{DynHost, FallbackChain, LevelAllocator, ServedBlock};
pub use multi_alloc::{Member, MultiAlloc, MultiBlock};
pub use object::{ArrayObject, LOADER_MAGIC, Object, ObjectRef};
