//! Selects the recorder, checker and stack capture that run together with the accounts.

use std::sync::Arc;

use alloc_core::HostAllocator;
use vk_callbacks::check::Opened;

use crate::report::origins::StackCapture;

/// Selects the recorder, checker and stack capture of a run, and the memory that each uses, which is never a counted context's. By default
/// nothing is selected.
#[derive(Clone, Copy)]
pub struct Watching<'b> {
    /// Records every call in this memory.
    pub log: Option<&'b (dyn HostAllocator + Sync)>,
    /// Checks every call against Vulkan's rules; the checker uses this memory.
    pub check: Option<&'b (dyn HostAllocator + Sync)>,
    /// Records the call stack of each block.
    pub stacks: Option<&'b Arc<StackCapture>>,
    /// How the driver was opened. Determines whether findings name the driver or the implementation.
    pub opened: Opened,
}

impl Default for Watching<'_> {
    fn default() -> Self {
        Self {
            log: None,
            check: None,
            stacks: None,
            opened: Opened::ThroughLoader,
        }
    }
}
