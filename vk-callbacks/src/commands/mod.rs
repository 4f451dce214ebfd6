//! What each Vulkan command does with host memory: the object that it creates or destroys, its most specific allocator, the scopes
//! that it may allocate and free.
//!
//! From the registry (1.4.359) and the specification's section *Host Memory*, rows V28 to V44:
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
//! `vkCreateDevice` and `vkCreateInstance` also create queues and physical devices, so they may allocate memory of scope object.

#![forbid(unsafe_code)]

mod row;
mod table;

pub use row::{
    AllocatorSource, CommandAction, CommandLevel, CommandRow, CommandSignature, ScopeMask,
};
