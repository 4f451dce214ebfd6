//! What each Vulkan command does with host memory.
//!
//! From the registry (1.4.359) and the specification's section *Host Memory*, V28 to V44.
//!
//! Any command may allocate and free memory of scope command, device and instance. Besides these, `vkCreate*`, commands on a pool and
//! `vkCmd*` may allocate and free memory of scope object, those of caches of scope cache, those of pipelines, of shader modules and of
//! deferred work of both. `vkDestroy*`, `vkFreeMemory`, `vkBeginCommandBuffer` and `vkResetCommandBuffer` only free.
//!
//! `vkCreateDevice` and `vkCreateInstance` also create queues and physical devices, so they may allocate memory of scope object.

#![forbid(unsafe_code)]

mod row;
mod table;

pub use row::{
    AllocatorSource, CommandAction, CommandLevel, CommandRow, CommandSignature, ScopeMask,
};
