//! The driver's side: the application's callbacks, used as an allocator of ours.

mod block;
mod callbacks;
mod chain;
mod domain;
mod multi;
mod object;

pub use block::{Block, FreeRefused, Stored};
pub use callbacks::CallbackAllocator;
pub use chain::{Chain, DynHost, Level, Served};
pub use domain::{DeviceDomain, InstanceDomain};
pub use multi::{Member, MultiAlloc, MultiBlock};
pub use object::{Object, ObjectRef, ObjectRefused};
