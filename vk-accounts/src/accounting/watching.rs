//! Recorder, checker and stacks beside the accounts of a run.

use std::sync::Arc;

use alloc_core::HostAllocator;
use vk_callbacks::check::Opened;

use crate::report::origins::StackCapture;

/// What records and checks a run beside the accounts, and in which memory: never in the counted contexts. The default is nothing.
#[derive(Clone, Copy)]
pub struct Watching<'b> {
    /// Records every call, into this memory.
    pub log: Option<&'b (dyn HostAllocator + Sync)>,
    /// Judges every call by Vulkan's rules, with this memory.
    pub check: Option<&'b (dyn HostAllocator + Sync)>,
    /// Records the call stack of each block.
    pub stacks: Option<&'b Arc<StackCapture>>,
    /// How the driver was opened, and so whether findings may blame it alone.
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
