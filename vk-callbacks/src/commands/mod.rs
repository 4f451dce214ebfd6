//! What each Vulkan command does with host memory: which object it makes or ends, whose allocator it draws from, which scopes it
//! may take and give back.
//!
//! Facts of the registry (1.4.359) and of the specification's section *Host Memory*, rows V28 to V44:
//!
//! | commands | most specific allocator | may take, besides command, device and instance | may give back, besides these |
//! |-|-|-|-|
//! | `vkCreate*` | their own `pAllocator` | object | object |
//! | those of caches, and merging them | the cache's | cache | cache |
//! | of pipelines and shader modules | own; for scope cache the cache's | object, cache | object, cache |
//! | `vkDestroy*`, `vkFreeMemory` | their own `pAllocator` | | object (of caches: cache, too) |
//! | on a pool, `vkCmd*` | the pool's | object | object |
//! | `vkBeginCommandBuffer`, `vkResetCommandBuffer` | the pool's | | object |
//! | deferred ones, joining | the command's and the deferred operation's | object, cache | object, cache |
//! | all others | that of the object they work on, if it has one | | |
//!
//! `vkCreateDevice` and `vkCreateInstance` make objects besides, queues and physical devices, and so may take memory of scope object.

#![forbid(unsafe_code)]

mod generic;
mod row;
mod scopes;
mod table;

pub use row::{AllocatorSource, CommandAction, CommandLevel, CommandRow, CommandSignature};
pub use scopes::ScopeMask;
