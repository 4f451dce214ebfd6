//! What became of a context that was released, or is in the way of it.

use core::fmt;

use super::context::OwnedContext;
use super::until_lost::ContextDevice;
use crate::allocator::{Live, name_in_use};
use crate::cache::ShaderKey;
use crate::id::RegionId;

/// What went with a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
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
    pub lost: bool,
}

/// What went with a context that was released by force, and what it left behind with its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedRelease {
    /// What went.
    pub released: Released,
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

/// A context that was not released, with what is in the way.
#[must_use = "it holds the context"]
pub struct ReleaseRefused<T> {
    /// The context, which works as before.
    pub value: T,
    /// How much must go first.
    pub outstanding: ContextOutstanding,
}

/// One thing that must go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InTheWay {
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
const AT_ONCE: usize = 16;

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> ReleaseRefused<OwnedContext<D, P, E>> {
    /// All that is in the way, one after the other: regions, wrapped buffers, crops, held shaders. Takes no memory. Shaders that are being
    /// compiled and regions of shards are counted in [`outstanding`](Self::outstanding) alone.
    pub fn iter(&self) -> impl Iterator<Item = InTheWay> + '_ {
        let (mut some, mut there, mut passed) = ([None; AT_ONCE], 0, 0);
        let regions = core::iter::from_fn(move || {
            if there == AT_ONCE {
                there = 0;
            }
            if there == 0 {
                some = [None; AT_ONCE];
                passed += self.value.allocator().live(passed, &mut some);
            }
            let live: Live = some.get_mut(there)?.take()?;
            there += 1;
            Some(match live {
                Live::Region(id) => InTheWay::Region(id),
                Live::Wrapped(id) => InTheWay::Wrapped(id),
                Live::Crop(id) => InTheWay::Crop(id),
            })
        });
        regions.chain(self.value.shaders().held().map(InTheWay::Shader))
    }
}

impl fmt::Display for ContextOutstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { regions, wrapped, crops, shaders } = self;
        let what = [(*regions, "region"), (*wrapped, "wrapped buffer"), (*crops, "crop"), (*shaders, "shader")];
        name_in_use(f, &what, "the context", "release the context by force")
    }
}

impl<T> fmt::Display for ReleaseRefused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outstanding.fmt(f)
    }
}

// Without what the context would say of itself, so that nothing is asked of its types.
impl<T> fmt::Debug for ReleaseRefused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReleaseRefused").field("outstanding", &self.outstanding).finish_non_exhaustive()
    }
}

impl<T> core::error::Error for ReleaseRefused<T> {}
