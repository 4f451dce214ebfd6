//! The most specific allocator of a command, and blocks with the level that allocated them.

use core::ptr::NonNull;

use alloc_core::Scope;

use super::host::Host;
use crate::level::Level;

/// The allocators that one command of the fake driver may use.
#[derive(Clone, Copy, Default)]
pub(super) struct FakeChain {
    pub(super) object: Option<Host>,
    pub(super) device: Option<Host>,
    pub(super) instance: Option<Host>,
}

/// A request was answered NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutOfMemory;

/// Host memory of the fake driver.
#[derive(Clone, Copy)]
pub(super) struct FakeBlock {
    pub(super) at: NonNull<u8>,
    pub(super) size: usize,
    pub(super) align: usize,
    pub(super) scope: Scope,
    pub(super) level: Level,
}

// SAFETY: a block is plain memory that any thread may use and free.
unsafe impl Send for FakeBlock {}
// SAFETY: as for `Send`.
unsafe impl Sync for FakeBlock {}

impl FakeChain {
    /// The callbacks at `level`.
    pub(super) const fn at(&self, level: Level) -> Option<Host> {
        match level {
            Level::Object => self.object,
            Level::Device => self.device,
            Level::Instance => self.instance,
            Level::Cache | Level::Default => None,
        }
    }

    /// The most specific callbacks for `scope` (V28 to V32).
    pub(super) fn most_specific(&self, scope: Scope) -> Option<(Level, Host)> {
        let first = match scope {
            Scope::Command | Scope::Object | Scope::Cache => Level::Object,
            Scope::Device => Level::Device,
            Scope::Instance => Level::Instance,
        };
        Level::ALL
            .iter()
            .filter(|level| **level >= first)
            .find_map(|level| Some((*level, self.at(*level)?)))
    }

    /// A block from the most specific callbacks.
    pub(super) fn allocate(
        &self,
        size: usize,
        align: usize,
        scope: Scope,
    ) -> Result<FakeBlock, OutOfMemory> {
        let (level, _) = self.most_specific(scope).ok_or(OutOfMemory)?;
        self.allocate_at(level, size, align, scope)
    }

    /// A block from the callbacks at `level`, most specific or not.
    pub(super) fn allocate_at(
        &self,
        level: Level,
        size: usize,
        align: usize,
        scope: Scope,
    ) -> Result<FakeBlock, OutOfMemory> {
        let host = self.at(level).ok_or(OutOfMemory)?;
        let at = NonNull::new(host.allocate(size, align, scope)).ok_or(OutOfMemory)?;
        Ok(FakeBlock {
            at,
            size,
            align,
            scope,
            level,
        })
    }

    /// Resizes the block to `size` bytes. On failure it is unchanged (V16).
    pub(super) fn resize(&self, block: &mut FakeBlock, size: usize) -> Result<(), OutOfMemory> {
        let host = self.at(block.level).ok_or(OutOfMemory)?;
        let moved = host.reallocate(block.at.as_ptr(), size, block.align, block.scope);
        block.at = NonNull::new(moved).ok_or(OutOfMemory)?;
        block.size = size;
        Ok(())
    }

    /// Frees a block at the level that allocated it.
    pub(super) fn free(&self, block: FakeBlock) {
        if let Some(host) = self.at(block.level) {
            host.free(block.at.as_ptr());
        }
    }
}
