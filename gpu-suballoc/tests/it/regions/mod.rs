//! Regions of buffers and images, wrapped buffers, crops, mappings and kept buffers, on the mock device: what each call
//! promises, and what is left when one is refused.

use crate::*;

mod addresses;
mod bad_input;
mod blocks;
mod budgets;
mod creation;
mod crops;
mod defragmentation;
mod device_refusals;
mod driver_limits;
mod empty_blocks;
mod ends;
mod granularity;
mod halide;
mod ids;
mod keeping;
mod limits;
mod mapped;
mod mapping;
mod margins;
mod options;
mod own_resources;
mod placed;
mod pools_that_go;
mod reserving;
mod stale;
mod steady;
mod threads;
mod users_meet;
mod wrapping;

use crate::operations::asks::{asks, seen};

pub type Mock = MockDevice;
pub type Gpu<'m> = GpuAllocator<&'m Mock, RecordingAllocator>;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const VISIBLE: PropertyFlags =
    PropertyFlags::from_raw(PropertyFlags::HOST_VISIBLE.as_raw() | PropertyFlags::HOST_COHERENT.as_raw());

/// A device, an allocator over it, and whoever counts the allocator's host memory.
pub struct Scene<'a> {
    pub mock: &'a Mock,
    pub gpu: &'a Gpu<'a>,
    host: &'a RecordingAllocator,
}

impl<'a> std::ops::Deref for Scene<'a> {
    type Target = Gpu<'a>;

    fn deref(&self) -> &Gpu<'a> {
        self.gpu
    }
}

/// Runs `body` and sees that everything was given back, and nobody broke a rule.
fn scene(profile: MockProfile, options: AllocatorOptions, body: impl FnOnce(Scene<'_>)) {
    scene_on(&Mock::new(profile), options, body);
}

fn scene_on(mock: &Mock, options: AllocatorOptions, body: impl FnOnce(Scene<'_>)) {
    let host = RecordingAllocator::system();
    let gpu = over_with(mock, host.clone(), options);
    body(Scene { mock, gpu: &gpu, host: &host });
    assert_eq!(host.total().live_bytes, gpu.host_bytes(), "the allocator's own count");
    gpu.close().unwrap();
    host.assert_empty("by the allocator");
    mock.assert_ended();
}

fn on(profile: MockProfile, body: impl FnOnce(Scene<'_>)) {
    on_mock(&Mock::new(profile), body);
}

fn on_mock(mock: &Mock, body: impl FnOnce(Scene<'_>)) {
    scene_on(mock, AllocatorOptions::default(), body);
}

pub fn with_memory(memory: MemoryOptions) -> AllocatorOptions {
    AllocatorOptions { memory, ..AllocatorOptions::default() }
}

/// On each profile.
pub fn everywhere(options: AllocatorOptions, body: impl Fn(&Scene<'_>)) {
    for profile in MockProfile::ALL {
        println!("profile: {profile:?}");
        scene(profile, options, |s| body(&s));
    }
}

fn on_every(body: impl Fn(&Scene<'_>)) {
    everywhere(AllocatorOptions::default(), body);
}

/// Blocks of one size.
fn blocks_of(size: u64) -> MemoryOptions {
    MemoryOptions { first_block: Some(size), max_block: Some(size), ..MemoryOptions::default() }
}

/// A pool of blocks of so many bytes.
fn pool_options(block: u64, memory_type: u32) -> PoolOptions {
    PoolOptions { block_size: Some(block), ..PoolOptions::new(memory_type) }
}

fn ring_options(block: u64, memory_type: u32) -> PoolOptions {
    PoolOptions { algorithm: Ring, ..pool_options(block, memory_type) }
}

/// Plays each pass, until one is empty.
fn each_pass<D: DeviceMemory, A: HostAllocator>(
    run: &mut Defragmentation<'_, D, A>,
    mut play: impl FnMut(DefragmentationPass<'_, '_, D, A>),
) {
    loop {
        let pass = run.next_pass().unwrap();
        if pass.is_empty() {
            return;
        }
        play(pass);
    }
}

fn all_moved<D: DeviceMemory, A: HostAllocator>(mut pass: DefragmentationPass<'_, '_, D, A>) {
    pass.set_outcomes(MoveOutcome::Copied);
    pass.finish(|_, result| assert_eq!(result, MoveResult::Moved));
}

fn ranges_of<'m>(map: &'m MemoryMap<'_>) -> impl Iterator<Item = &'m RangeView> {
    map.blocks_with_ranges().flat_map(|(_, ranges)| ranges)
}

/// The usual one.
fn nvidia(body: impl FnOnce(Scene<'_>)) {
    on(Nvidia, body);
}

/// Of a buffer that copies go into and out of.
fn copied(size: u64) -> BufferInfo {
    BufferInfo::new(size, COPIED)
}

fn all_moves() -> DefragmentationOptions<'static> {
    DefragmentationOptions::new()
}

fn bytes(size: u64) -> ResourceRequirements {
    ResourceRequirements::new(size, 16)
}

fn any() -> RegionOptions<'static> {
    RegionOptions::new()
}

/// In a block.
fn shared() -> RegionOptions<'static> {
    any().dedicated(Never)
}

/// In a memory object of its own.
fn alone() -> RegionOptions<'static> {
    any().dedicated(Required)
}

/// Memory that the host sees, coherent or not: every profile has some.
fn host() -> RegionOptions<'static> {
    any().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
}

/// Memory that the host sees without flushes.
fn visible() -> RegionOptions<'static> {
    RegionOptions::new().preference(MemoryPreference::requiring(VISIBLE))
}

/// Calls that must succeed.
macro_rules! must {
    ($($must:ident: $call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        #[track_caller]
        fn $must(&self, $($name: $type),*) -> $answer {
            self.gpu.$call($($name),*).unwrap()
        }
    )*};
}

impl<'s> Scene<'s> {
    must! {
        must_allocate: allocate(needs: &ResourceRequirements, options: &RegionOptions<'_>) -> Region;
        must_create_buffer: create_buffer(info: &BufferInfo, options: &RegionOptions<'_>) -> Region;
        must_wrap: wrap(info: &WrapInfo<'_>) -> Region;
        must_crop: crop(of: &Region, offset: u64, size: u64, element: u64) -> Region;
        must_info: info(id: RegionId) -> RegionInfo;
        must_map: map(region: &Region) -> Mapping<'_, &'s Mock, RecordingAllocator>;
        must_create_pool: create_pool(options: &PoolOptions) -> PoolId;
        must_destroy_pool: destroy_pool(pool: PoolId) -> ();
        must_memory_map: memory_map() -> MemoryMap<'_>;
    }

    #[track_caller]
    fn must_defragment<'a>(
        &'a self,
        options: DefragmentationOptions<'a>,
    ) -> Defragmentation<'a, &'s Mock, RecordingAllocator> {
        self.gpu.defragment(options).unwrap()
    }

    fn total(&self) -> MemoryTotals {
        self.gpu.stats().total
    }

    fn take(&self, size: u64, options: &RegionOptions<'_>) -> Region {
        self.gpu.allocate(&bytes(size), options).unwrap()
    }

    fn buffer_with(&self, size: u64, options: &RegionOptions<'_>) -> Region {
        let info = copied(size);
        self.gpu.create_buffer(&info, options).unwrap()
    }

    fn buffer(&self, size: u64) -> Region {
        self.buffer_with(size, &any())
    }

    fn visible_buffer(&self, size: u64) -> Region {
        self.buffer_with(size, &visible())
    }

    fn pool(&self, memory_type: u32) -> PoolId {
        self.gpu.create_pool(&PoolOptions::new(memory_type)).unwrap()
    }

    /// A pool of blocks of so many bytes.
    fn pool_of(&self, block: u64, memory_type: u32) -> PoolId {
        let options = pool_options(block, memory_type);
        self.gpu.create_pool(&options).unwrap()
    }

    /// A buffer of the application's, bound to memory of its own, with that memory's handle.
    fn foreign(&self, size: u64, memory_type: u32) -> Foreign<'_> {
        Foreign::new(self.mock, size, memory_type)
    }

    /// Live memory objects.
    fn objects(&self) -> u64 {
        self.mock.live_counts().memory
    }

    /// Memory objects that the driver was asked for so far.
    fn made(&self) -> u64 {
        self.mock.calls(Allocate)
    }

    /// What the driver was asked for, of the region's memory object.
    fn request_of(&self, region: &Region) -> MemoryRequest {
        let memory = region.memory().unwrap();
        self.mock.memory(memory).unwrap().request
    }

    fn free(&self, region: Region) {
        self.gpu.free(region).unwrap();
    }

    fn free_each(&self, regions: impl IntoIterator<Item = Region>) {
        for region in regions {
            self.free(region);
        }
    }

    /// `size` bytes of a region, as the device sees them.
    fn read(&self, region: &Region, size: usize) -> Vec<u8> {
        let mut into = vec![0; size];
        assert!(self.mock.read_buffer(region.buffer().unwrap(), region.copy_offset(), &mut into));
        into
    }
}

/// The first memory type that the host can map.
fn visible_type(mock: &Mock) -> u32 {
    let types = mock.properties().types;
    let visible = |of: &MemoryType| of.properties.contains(PropertyFlags::HOST_VISIBLE);
    types.iter().position(visible).unwrap() as u32
}

/// A buffer that the application made, destroyed with this.
struct Foreign<'m> {
    mock: &'m Mock,
    buffer: BufferHandle,
    memory: MemoryHandle,
    size: u64,
}

impl<'m> Foreign<'m> {
    fn new(mock: &'m Mock, size: u64, memory_type: u32) -> Self {
        // SAFETY: a mock; the info is valid.
        let buffer = unsafe { mock.create_buffer(&copied(size)) }.unwrap();
        // SAFETY: a mock.
        let memory = unsafe { mock.allocate(&MemoryRequest::new(size.next_multiple_of(4096), memory_type)) }.unwrap();
        // SAFETY: both were just made.
        unsafe { mock.bind_buffer(buffer, memory, 0) }.unwrap();
        Self { mock, buffer, memory, size }
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and nobody's any more.
        unsafe { self.mock.destroy_buffer(self.buffer) };
        // SAFETY: allocated in `new`, and nobody's any more.
        unsafe { self.mock.free(self.memory) };
    }
}
