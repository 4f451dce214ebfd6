//! What each Vulkan command does with host memory.
//!
//! From the registry (1.4.359) and the specification's section *Host Memory*, V28 to V44.
//!
//! Any command may allocate and free memory of scope command, device and instance.
//!
//! `vkCreateDevice` and `vkCreateInstance` also create queues and physical devices, so they may allocate memory of
//! scope object.

#![forbid(unsafe_code)]

mod row;
mod table;

pub use row::{AllocatorSource, CommandAction, CommandLevel, CommandRow, CommandSignature, ScopeMask};
