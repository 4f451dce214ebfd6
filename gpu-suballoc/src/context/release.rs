//! Results and obstacles of releasing a context.

use core::fmt;

use super::device_context::DeviceContext;
use super::loss_aware_device::ContextDevice;
use crate::allocator::write_in_use;
use crate::cache::ShaderKey;
use crate::id::RegionId;
use crate::region::Ownership;

/// What a release freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseReport {
    /// Compiled shaders that were destroyed.
    pub shaders: u64,
    /// Referenced shaders, which were removed from the cache and are destroyed with their last reference. After an unforced release this is
    /// 0, unless the device was lost.
    pub held: u64,
    /// Memory objects that were freed, or that were lost with the device.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Bytes of freed host memory of the allocator's bookkeeping.
    pub host_bytes: u64,
    /// The device was lost, and its driver was not called.
    pub device_lost: bool,
}

/// The result of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedRelease {
    /// What was freed.
    pub released: ReleaseReport,
    /// What was in use.
    pub outstanding: ContextOutstanding,
}

/// Counts of what prevents a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextOutstanding {
    /// Regions of the context's memory.
    pub regions: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Crops.
    pub crops: u64,
    /// Shaders that are referenced or being compiled.
    pub shaders: u64,
}

impl ContextOutstanding {
    /// Whether a count is not 0.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.regions | self.wrapped | self.crops | self.shaders != 0
    }
}

/// Something that prevents a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseBlocker {
    /// A region of the context's memory.
    Region(RegionId),
    /// A wrapped buffer.
    Wrapped(RegionId),
    /// A crop.
    Crop(RegionId),
    /// A referenced shader.
    Shader(ShaderKey),
}

/// Regions that are looked up at a time.
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
    /// All that prevents [`release`](Self::release): regions, wrapped buffers, crops, referenced shaders. Allocates
    /// nothing. Shaders that are being compiled are only counted, by a refused release.
    pub fn release_blockers(&self) -> impl Iterator<Item = ReleaseBlocker> + '_ {
        let (mut some, mut there, mut from) = ([None; BATCH], BATCH, 0);
        let regions = core::iter::from_fn(move || {
            if there == BATCH {
                self.allocator()
                    .live_regions(&mut from, &mut some, |_| true);
                there = 0;
            }
            let (id, ownership) = some.get_mut(there)?.take()?;
            there += 1;
            Some(match ownership {
                Ownership::Wrapped => ReleaseBlocker::Wrapped(id),
                Ownership::CropAlias => ReleaseBlocker::Crop(id),
                Ownership::Owned => ReleaseBlocker::Region(id),
            })
        });
        regions.chain(self.shaders().held_keys().map(ReleaseBlocker::Shader))
    }
}
