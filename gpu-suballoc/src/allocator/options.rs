//! Options of an allocator, with their defaults.

#![forbid(unsafe_code)]

use crate::pool::MemoryOptions;

/// The options of an allocator. [`AllocatorOptions::default`] suits most programs.
#[doc(alias("VmaAllocatorCreateInfo", "AllocatorCreateDesc"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorOptions {
    /// Blocks, pools and limits.
    pub memory: MemoryOptions,
}
