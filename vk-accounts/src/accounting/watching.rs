//! Who watches a run besides the accounts.

use std::sync::Arc;

use alloc_core::HostAllocator;
use vk_callbacks::check::Opened;

use crate::report::origins::StackCapture;

/// Who watches a run besides the accounts, and whose memory that takes: none of it comes from the contexts that are counted.
/// The default is nobody.
#[derive(Clone, Copy)]
pub struct Watching<'b> {
    /// Records every call, into this memory.
    pub log: Option<&'b (dyn HostAllocator + Sync)>,
    /// Judges every call by Vulkan's rules, with this memory.
    pub check: Option<&'b (dyn HostAllocator + Sync)>,
    /// Keeps the call stack of each block.
    pub stacks: Option<&'b Arc<StackCapture>>,
    /// Whom findings may name: the driver, where no loader stands between.
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
