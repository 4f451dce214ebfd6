//! Random use of a whole GPU memory allocator beside an interval model of every block: two allocators, their regions, crops of crops,
//! wrapped buffers, maps, batches, pools, trims, bad input, failures of host and device.
//!
//! Knows no allocator: the subject is a [`Regions`]. What the allocator says is held against what was asked, against each other region,
//! and against what the device says it gave.

mod crops;
mod maps;
mod model;
mod moves;
mod program;
mod refused;
mod wrong;

pub use program::region_ops;

use std::fmt::Debug;
use std::ptr::NonNull;

/// An allocator of device memory as the program sees it, with the device behind it.
pub trait Regions {
    /// A region; whoever has it may free it.
    type Region;
    /// Names a region; a copy may be kept for ever.
    type Id: Copy + PartialEq + Debug;

    /// What the device is like.
    fn device(&self) -> DeviceTraits;

    /// Takes a region.
    ///
    /// # Errors
    /// Why not; nothing changed.
    fn allocate(&self, ask: &RegionRequest) -> Result<Self::Region, RegionRefusal>;

    /// Takes so many, or none.
    ///
    /// # Errors
    /// Why not; nothing changed.
    fn allocate_batch(
        &self,
        ask: &RegionRequest,
        count: usize,
    ) -> Result<Vec<Self::Region>, RegionRefusal>;

    /// The name of a region.
    fn id(&self, region: &Self::Region) -> Self::Id;

    /// What is known of a live region.
    fn facts(&self, region: &Self::Region) -> RegionFacts;

    /// The same by its name.
    ///
    /// # Errors
    /// [`RegionRefusal::Stale`] or [`RegionRefusal::Foreign`].
    fn facts_by_id(&self, id: Self::Id) -> Result<RegionFacts, RegionRefusal>;

    /// Gives a region back, in one of several ways that come to the same.
    ///
    /// # Errors
    /// Why not, with the region.
    fn free(
        &self,
        region: Self::Region,
        way: FreeMethod,
    ) -> Result<(), (RegionRefusal, Self::Region)>;

    /// Gives regions back; answers with those that could not be.
    fn free_batch(&self, regions: Vec<Self::Region>) -> Vec<Self::Region>;

    /// Gives a region back by its name.
    ///
    /// # Errors
    /// Why not; nothing changed.
    fn free_id(&self, id: Self::Id) -> Result<(), RegionRefusal>;

    /// A part of a region (or of a crop).
    ///
    /// # Errors
    /// Why not; nothing changed.
    fn crop(
        &self,
        region: &Self::Region,
        offset: u64,
        size: u64,
        element: u32,
    ) -> Result<Self::Region, RegionRefusal>;

    /// Buffers that the application owns, each with its size.
    fn buffers(&self) -> Vec<(u64, u64)>;

    /// A region of a buffer that the application owns.
    ///
    /// # Errors
    /// Why not; nothing changed.
    fn wrap(&self, wrap: &Wrap) -> Result<Self::Region, RegionRefusal>;

    /// Lets go of a wrapped region or of a crop of one; the application's buffer is not touched.
    ///
    /// # Errors
    /// Why not, with the region.
    fn detach(&self, region: Self::Region) -> Result<(), (RegionRefusal, Self::Region)>;

    /// Maps a region; each map has its [`unmap`](Regions::unmap).
    ///
    /// # Errors
    /// Why not; nothing changed.
    fn map(&self, region: &Self::Region) -> Result<NonNull<u8>, RegionRefusal>;

    /// Ends one map of a region.
    fn unmap(&self, region: &Self::Region);

    /// Makes what the host wrote into a part of a mapped region available to the device, or the reverse.
    ///
    /// # Errors
    /// Why not.
    fn synchronise(
        &self,
        region: &Self::Region,
        offset: u64,
        size: u64,
        write: bool,
    ) -> Result<(), RegionRefusal>;

    /// Gives unused memory back.
    fn trim(&self, bytes: u64);

    /// A new frame begins.
    fn frame(&self, number: u32);

    /// Makes a custom pool in place `slot`, `0..2`.
    ///
    /// # Errors
    /// Why not; nothing changed.
    fn create_pool(&self, slot: usize, linear: bool) -> Result<(), RegionRefusal>;

    /// Ends the custom pool in place `slot`.
    ///
    /// # Errors
    /// [`RegionRefusal::Held`] while it has regions; nothing changed.
    fn destroy_pool(&self, slot: usize) -> Result<(), RegionRefusal>;

    /// Moves regions so that blocks become empty, in passes of at most so many moves. `play` says what is done about each move of a pass, and
    /// learns what became of it.
    ///
    /// # Errors
    /// [`RegionRefusal::Host`] where it was refused once or more often; the rest was done all the same.
    fn defragment(
        &self,
        _max_moves: usize,
        _play: &mut dyn FnMut(PassStep<'_, Self::Id>) -> Vec<MovePlay>,
    ) -> Result<(), RegionRefusal> {
        Ok(())
    }

    /// Makes a region say where it lies now.
    fn refresh(&self, _region: &mut Self::Region) {}

    /// The sums that the allocator keeps.
    fn sums(&self) -> Sums;

    /// Calls `each` with every piece of every block, a block's in order of offset.
    fn walk(&self, each: &mut dyn FnMut(Piece<Self::Id>));

    /// What the device says that this allocator has of it: memory objects, and their bytes.
    fn device_usage(&self) -> (u64, u64);

    /// What the device says of a memory object: size and memory type; `None` when it is none.
    fn memory(&self, memory: u64) -> Option<(u64, u32)>;

    /// Lets the n-th host request and the n-th fallible device command from now, counted from 0, fail, and no other; or none.
    fn refuse(&self, host: Option<u64>, device: Option<u64>);

    /// Ends the allocator, of which everything was given back; checks that the device and the host have everything back.
    fn close(self);
}

/// How a region is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMethod {
    /// At once.
    Free,
    /// The native handle may be kept for the next one that fits.
    Release,
}

/// One step of a defragmentation.
#[derive(Debug)]
pub enum PassStep<'s, I> {
    /// A pass begins: what is to be done about each of these.
    Begun(&'s [PlannedMove<I>]),
    /// It has ended: what became of each, in another order.
    Ended(&'s [(I, MoveEnd)]),
}

/// A region that is to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedMove<I> {
    /// Which.
    pub id: I,
    /// Memory and offset, where it lies.
    pub from: (u64, u64),
    /// Memory and offset, where it is to lie.
    pub to: (u64, u64),
}

/// What is done about a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovePlay {
    /// A second resource is made, the contents are copied.
    Copy,
    /// It is said to be copied, and has no second resource.
    CopyWithoutResource,
    /// Nothing.
    Ignore,
    /// The region is to be freed.
    Destroy,
}

/// What became of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveEnd {
    /// It lies at the new place.
    Moved,
    /// It lies where it lay.
    Stayed,
    /// It was freed, as was said.
    Destroyed,
    /// It was freed meanwhile.
    Freed,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionRequest {
    /// Bytes.
    pub size: u64,
    /// A power of two.
    pub alignment: u64,
    /// Memory types that will do.
    pub bits: u32,
    /// What the memory must be.
    pub memory: Memory,
    /// What it is for.
    pub resource: Resource,
    /// How long it lives.
    pub lifetime: Life,
    /// A block of its own.
    pub dedicated: bool,
    /// The custom pool in this place.
    pub pool: Option<usize>,
}

/// What memory must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Anything.
    Any,
    /// `HOST_VISIBLE`.
    Visible,
    /// `DEVICE_LOCAL`.
    Local,
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The caller makes a linear resource.
    Linear,
    /// The caller makes an image of optimal tiling.
    Optimal,
    /// Either.
    Unknown,
    /// The allocator makes a buffer of `size` bytes.
    Buffer,
}

/// How long memory lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// A frame or two.
    Transient,
    /// Nobody knows.
    Unknown,
    /// Long.
    Persistent,
}

/// A buffer of the application's, to be wrapped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wrap {
    /// `VkBuffer`; 0 is null.
    pub buffer: u64,
    /// Where the region begins in it.
    pub offset: u64,
    /// Bytes of the region.
    pub size: u64,
    /// Bytes of the buffer, if told.
    pub buffer_size: Option<u64>,
    /// Whether the memory behind is told: then it is host-visible, of a whole buffer's size.
    pub backed: bool,
}

/// What an allocator says of a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionFacts {
    /// Where it was placed.
    pub class: Class,
    /// `VkDeviceMemory`; 0 where it is not known.
    pub memory: u64,
    /// Where it begins in its memory.
    pub offset: u64,
    /// Where it begins in its buffer: 0 but for wrapped ones and crops.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// The memory type, where there is memory.
    pub memory_type: u32,
}

/// Where a region was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Anywhere in a block.
    General,
    /// A block of its own.
    Dedicated,
    /// In a linear pool.
    Linear,
    /// The application's.
    Wrapped,
    /// In another region.
    Crop,
}

impl Class {
    /// The name that [`Tried`](crate::programs::Tried) counts it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Dedicated => "dedicated",
            Self::Linear => "linear",
            Self::Wrapped => "wrapped",
            Self::Crop => "crop",
        }
    }
}

/// A device, as far as the model has to know.
#[derive(Clone, Debug)]
pub struct DeviceTraits {
    /// Of each memory type: is it host-visible, is it device-local.
    pub types: Vec<(bool, bool)>,
    /// The types that need no special permission, a bit each.
    pub ordinary: u32,
    /// `bufferImageGranularity`.
    pub granularity: u64,
    /// More than any heap has.
    pub too_much: u64,
}

/// The sums that an allocator keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Memory objects taken.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Regions placed in them.
    pub regions: u64,
    /// Wrapped regions.
    pub wrapped: u64,
    /// Crops.
    pub crops: u64,
}

/// A piece of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<I> {
    /// The block.
    pub memory: u64,
    /// Where the piece begins.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// The region that lies here; `None` where it is free.
    pub id: Option<I>,
    /// What kind of place it is.
    pub class: Class,
    /// What may lie in the block: linear resources, optimal ones.
    pub content: (bool, bool),
    /// The custom pool whose it is.
    pub pool: Option<usize>,
}

/// Why an allocator said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionRefusal {
    /// The request makes no sense.
    Misuse,
    /// Not a live region.
    Stale,
    /// Another allocator's.
    Foreign,
    /// Crops of it, or regions in it, are alive.
    Held,
    /// It is mapped.
    Mapped,
    /// It is not its turn: a linear pool takes back in order.
    Order,
    /// It cannot be mapped, with the reason.
    Unmappable,
    /// No host memory.
    Host,
    /// No device memory, or a limit.
    Device,
}
