//! The driver's side: the application's callbacks as a host allocator.

mod array_object;
mod block;
mod callbacks;
mod dispatchable;
mod domain;
mod fallback_chain;
mod multi_alloc;
mod object;
mod place;
mod pool_domain;

pub use array_object::ArrayObject;
pub use block::{DriverBlock, Stored};
pub use callbacks::CallbackAllocator;
pub use dispatchable::{DispatchableObject, DispatchablePlace, LOADER_MAGIC};
pub use domain::{DeviceDomain, InstanceDomain};
pub use fallback_chain::{DynHost, FallbackChain, LevelAllocator, ServedBlock};
pub use multi_alloc::{Member, MultiAlloc, MultiBlock};
pub use object::{Object, ObjectRef};
pub use place::ObjectPlace;
pub use pool_domain::PoolDomain;
