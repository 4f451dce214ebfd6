//! The most specific allocator of a command, and blocks with the level that allocated them.

use core::ptr::NonNull;

use alloc_core::Scope;

use crate::host::Host;
use vk_callbacks::Level;

/// The allocators that one command of the fake driver may use.
#[derive(Clone, Copy, Default)]
pub(crate) struct FakeChain {
    pub(crate) object: Option<Host>,
    pub(crate) device: Option<Host>,
    pub(crate) instance: Option<Host>,
}

/// A request was answered NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// Host memory of the fake driver.
#[derive(Clone, Copy)]
pub(crate) struct FakeBlock {
    pub(crate) at: NonNull<u8>,
    pub(crate) size: usize,
    pub(crate) align: usize,
    pub(crate) scope: Scope,
    pub(crate) level: Level,
}

// SAFETY: a block is plain memory that any thread may use and free.
unsafe impl Send for FakeBlock {}
// SAFETY: a block is plain memory that any thread may use and free.
unsafe impl Sync for FakeBlock {}

impl FakeChain {
    /// The callbacks at `level`.
    pub(crate) const fn at(&self, level: Level) -> Option<Host> {
        match level {
            Level::Object => self.object,
            Level::Device => self.device,
            Level::Instance => self.instance,
            _ => None,
        }
    }

    /// The most specific callbacks for `scope` (V28 to V32).
    pub(crate) fn most_specific(&self, scope: Scope) -> Option<(Level, Host)> {
        let first = match scope {
            Scope::Command | Scope::Object | Scope::Cache => Level::Object,
            Scope::Device => Level::Device,
            Scope::Instance => Level::Instance,
        };
        Level::ALL.iter().filter(|level| **level >= first).find_map(|level| Some((*level, self.at(*level)?)))
    }

    /// A block from the most specific callbacks.
    pub(crate) fn allocate(&self, size: usize, align: usize, scope: Scope) -> Result<FakeBlock, OutOfMemory> {
        let (level, _) = self.most_specific(scope).ok_or(OutOfMemory)?;
        self.allocate_at(level, size, align, scope)
    }

    /// A block from the callbacks at `level`, most specific or not.
    pub(crate) fn allocate_at(
        &self,
        level: Level,
        size: usize,
        align: usize,
        scope: Scope,
    ) -> Result<FakeBlock, OutOfMemory> {
        let host = self.at(level).ok_or(OutOfMemory)?;
        let at = NonNull::new(host.allocate(size, align, scope)).ok_or(OutOfMemory)?;
        Ok(FakeBlock { at, size, align, scope, level })
    }

    /// Resizes the block to `size` bytes. On failure it is unchanged (V16).
    pub(crate) fn resize(&self, block: &mut FakeBlock, size: usize) -> Result<(), OutOfMemory> {
        let host = self.at(block.level).ok_or(OutOfMemory)?;
        let moved = host.reallocate(block.at.as_ptr(), size, block.align, block.scope);
        block.at = NonNull::new(moved).ok_or(OutOfMemory)?;
        block.size = size;
        Ok(())
    }

    /// Frees a block at the level that allocated it.
    pub(crate) fn free(&self, block: FakeBlock) {
        if let Some(host) = self.at(block.level) {
            host.free(block.at.as_ptr());
        }
    }
}
