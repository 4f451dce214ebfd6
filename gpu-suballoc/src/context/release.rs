//! What became of a context that was released, or is in the way of it.

use core::fmt;

use super::device_context::DeviceContext;
use super::loss_aware_device::ContextDevice;
use crate::allocator::write_in_use;
use crate::cache::ShaderKey;
use crate::id::{RegionId, RegionPlaceKind};

/// What went with a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseReport {
    /// Compiled shaders that were destroyed.
    pub shaders: u64,
    /// Compiled shaders that somebody holds: they are found by nobody, and destroyed with their last hold. After an unforced release this is
    /// 0, unless the device was lost.
    pub held: u64,
    /// Memory objects that went back to the driver, or, after the loss of the device, with it.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Bytes of host memory of the allocator's books that went back.
    pub host_bytes: u64,
    /// The device was lost: no driver call was made.
    pub device_lost: bool,
}

/// What went with a context that was released by force, and what it left behind with its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedRelease {
    /// What went.
    pub released: ReleaseReport,
    /// What was in use.
    pub outstanding: ContextOutstanding,
}

/// How much is in the way of a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextOutstanding {
    /// Regions of the context's memory, with those that are mapped.
    pub regions: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Crops.
    pub crops: u64,
    /// Compiled shaders that are held, and those that are being compiled.
    pub shaders: u64,
}

impl ContextOutstanding {
    /// Something is.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.regions | self.wrapped | self.crops | self.shaders != 0
    }
}

/// One thing that must go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseBlocker {
    /// A region of the context's memory.
    Region(RegionId),
    /// A wrapped buffer.
    Wrapped(RegionId),
    /// A crop.
    Crop(RegionId),
    /// A compiled shader that is held.
    Shader(ShaderKey),
}

/// As many are looked for at a time.
const BATCH: usize = 16;

impl fmt::Display for ContextOutstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            regions,
            wrapped,
            crops,
            shaders,
        } = self;
        let what = [
            (*regions, "region"),
            (*wrapped, "wrapped buffer"),
            (*crops, "crop"),
            (*shaders, "shader"),
        ];
        write_in_use(f, &what, "the context", "release the context by force")
    }
}

impl core::error::Error for ContextOutstanding {}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> DeviceContext<D, P, E> {
    /// All that is in the way of [`release`](Self::release), one after the other: regions, those of shards too, wrapped buffers, crops, held shaders. Takes no memory.
    /// Shaders that are being compiled are counted in [`outstanding`](Self::outstanding) alone.
    pub fn release_blockers(&self) -> impl Iterator<Item = ReleaseBlocker> + '_ {
        let (mut some, mut there, mut passed) = ([None; BATCH], 0, 0);
        let regions = core::iter::from_fn(move || {
            if there == BATCH {
                there = 0;
            }
            if there == 0 {
                some = [None; BATCH];
                passed += self.allocator().live_regions(passed, &mut some);
            }
            let id: RegionId = some.get_mut(there)?.take()?;
            there += 1;
            Some(match id.kind() {
                RegionPlaceKind::Wrapped => ReleaseBlocker::Wrapped(id),
                RegionPlaceKind::Crop => ReleaseBlocker::Crop(id),
                _ => ReleaseBlocker::Region(id),
            })
        });
        regions.chain(self.shaders().held_keys().map(ReleaseBlocker::Shader))
    }
}
