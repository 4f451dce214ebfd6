//! Blocks of device memory, the pools they lie in, and the limits they keep.

mod ask;
mod atoms;
mod growth;
mod ledger;
mod options;

pub(crate) use ask::{Ask, Env, FoundRegion, Gave, Placed, Where};
pub use options::{MapPolicy, MemoryOptions, PoolAlgorithm, PoolOptions};

use core::ptr::NonNull;

use crate::device::DeviceMemory;
use crate::error::{GpuError, Misuse};

/// All memory of one device: a pool for each memory type and kind of resource, and those that the user made.
pub(crate) struct Pools {}

#[expect(dead_code, unused_variables, reason = "signatures first; bodies follow")]
impl Pools {
    pub(crate) fn new(device: &dyn DeviceMemory, options: &MemoryOptions) -> Result<Self, GpuError> {
        Ok(Self {})
    }
    pub(crate) fn place(&self, env: Env<'_>, ask: &Ask) -> Result<Placed, GpuError> {
        Err(Misuse::NotEnabled.into())
    }
    pub(crate) fn place_batch(&self, env: Env<'_>, asks: &[Ask], out: &mut [Option<Placed>]) -> Result<(), GpuError> {
        Err(Misuse::NotEnabled.into())
    }
    pub(crate) fn give(&self, env: Env<'_>, at: Where) -> Result<Gave, Misuse> {
        Err(Misuse::NotEnabled)
    }
    pub(crate) fn find(&self, at: Where) -> Result<FoundRegion, Misuse> {
        Err(Misuse::NotEnabled)
    }
    pub(crate) fn set_word(&self, at: Where, word: u32) -> Result<(), Misuse> {
        Err(Misuse::NotEnabled)
    }
    /// A held region cannot be given back. Only general and dedicated ones can be held.
    pub(crate) fn hold(&self, at: Where) -> Result<(), GpuError> {
        Err(Misuse::NotEnabled.into())
    }
    pub(crate) fn release(&self, at: Where) -> Result<(), Misuse> {
        Err(Misuse::NotEnabled)
    }
    pub(crate) fn map(&self, env: Env<'_>, at: Where) -> Result<NonNull<u8>, GpuError> {
        Err(Misuse::NotEnabled.into())
    }
    pub(crate) fn unmap(&self, env: Env<'_>, at: Where) -> Result<(), Misuse> {
        Err(Misuse::NotEnabled)
    }
    pub(crate) fn flush(&self, env: Env<'_>, at: Where, offset: u64, size: u64) -> Result<(), GpuError> {
        Err(Misuse::NotEnabled.into())
    }
    pub(crate) fn invalidate(&self, env: Env<'_>, at: Where, offset: u64, size: u64) -> Result<(), GpuError> {
        Err(Misuse::NotEnabled.into())
    }
    pub(crate) fn trim(&self, env: Env<'_>, bytes: u64) -> u64 {
        0
    }
    pub(crate) fn set_frame(&self, env: Env<'_>, frame: u32) -> bool {
        false
    }
    /// Index and generation.
    pub(crate) fn create_pool(&self, env: Env<'_>, options: &PoolOptions) -> Result<(u16, u32), GpuError> {
        Err(Misuse::NotEnabled.into())
    }
    pub(crate) fn destroy_pool(&self, env: Env<'_>, index: u16, generation: u32) -> Result<(), Misuse> {
        Err(Misuse::NotEnabled)
    }
    /// Live regions that are in the way; 0 when everything was given back.
    pub(crate) fn close(&mut self, env: Env<'_>) -> u64 {
        0
    }
    /// Our own records only; the driver is not called.
    pub(crate) fn abandon(&mut self, env: Env<'_>) {}
}
