//! Regions of buffers and images, wrapped buffers, crops, mappings and kept buffers, on the mock device: what each call promises,
//! and what is left when one is refused.

/// What a device does with memory is another one's. Resources are the user's.
macro_rules! forward_memory {
    ($device:ident) => {
        fn properties(&self) -> gpu_suballoc::device::DeviceProperties<'_> {
            self.$device.properties()
        }
        unsafe fn allocate(
            &self,
            request: &gpu_suballoc::device::MemoryRequest,
        ) -> Result<gpu_suballoc::device::MemoryHandle, gpu_suballoc::device::DeviceError> {
            // SAFETY: forwarded.
            unsafe { self.$device.allocate(request) }
        }
        unsafe fn free(&self, memory: gpu_suballoc::device::MemoryHandle) {
            // SAFETY: forwarded.
            unsafe { self.$device.free(memory) }
        }
        unsafe fn map(
            &self,
            memory: gpu_suballoc::device::MemoryHandle,
            offset: u64,
            size: u64,
        ) -> Result<core::ptr::NonNull<u8>, gpu_suballoc::device::DeviceError> {
            // SAFETY: forwarded.
            unsafe { self.$device.map(memory, offset, size) }
        }
        unsafe fn unmap(&self, memory: gpu_suballoc::device::MemoryHandle) {
            // SAFETY: forwarded.
            unsafe { self.$device.unmap(memory) }
        }
        unsafe fn flush(
            &self,
            ranges: &[gpu_suballoc::device::MappedRange],
        ) -> Result<(), gpu_suballoc::device::DeviceError> {
            // SAFETY: forwarded.
            unsafe { self.$device.flush(ranges) }
        }
        unsafe fn invalidate(
            &self,
            ranges: &[gpu_suballoc::device::MappedRange],
        ) -> Result<(), gpu_suballoc::device::DeviceError> {
            // SAFETY: forwarded.
            unsafe { self.$device.invalidate(ranges) }
        }
    };
}

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
mod refusal_order;
mod reserving;
mod stale;
mod steady;
mod threads;
mod users_meet;
mod wrapping;

use gpu_suballoc::device::BufferHandle;
use gpu_suballoc::{
    AllocatorOptions, BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, MemoryPreference,
    PoolId, PoolOptions, PropertyFlags, Region, RegionOptions, ResourceRequirements,
};
use mock_device::{MockDevice, MockProfile};
use testkit::RecordingAllocator;

type Mock = MockDevice<RecordingAllocator>;
type Gpu<'m> = GpuAllocator<&'m Mock, RecordingAllocator>;

const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());
const VISIBLE: PropertyFlags = PropertyFlags::from_raw(
    PropertyFlags::HOST_VISIBLE.as_raw() | PropertyFlags::HOST_COHERENT.as_raw(),
);

/// A device, an allocator over it, and whoever counts the allocator's host memory.
struct Scene<'a> {
    mock: &'a Mock,
    gpu: &'a Gpu<'a>,
    host: &'a RecordingAllocator,
}

/// Runs `body` and sees that everything was given back, and nobody broke a rule.
fn scene(profile: MockProfile, options: AllocatorOptions, body: impl FnOnce(Scene<'_>)) {
    scene_on(
        &Mock::new(profile, RecordingAllocator::system()),
        options,
        body,
    );
}

fn scene_on(mock: &Mock, options: AllocatorOptions, body: impl FnOnce(Scene<'_>)) {
    let host = RecordingAllocator::system();
    // SAFETY: the mock says what is wrong; infos are valid, and nothing runs on the device when a region is given back.
    let gpu =
        unsafe { GpuAllocator::new(mock, host.clone(), options) }.expect("the options are sound");
    body(Scene {
        mock,
        gpu: &gpu,
        host: &host,
    });
    assert_eq!(
        host.total().live_bytes,
        gpu.host_bytes(),
        "the allocator's own count"
    );
    gpu.close().expect("everything was given back");
    host.assert_empty("by the allocator");
    assert!(mock.violations().is_empty(), "{}", mock.violations());
    assert_eq!(mock.live_counts().memory, 0);
}

fn with_memory(memory: gpu_suballoc::pool::MemoryOptions) -> AllocatorOptions {
    AllocatorOptions {
        memory,
        ..AllocatorOptions::default()
    }
}

/// The usual one.
fn nvidia(body: impl FnOnce(Scene<'_>)) {
    scene(MockProfile::Nvidia, AllocatorOptions::default(), body);
}

fn bytes(size: u64) -> ResourceRequirements {
    ResourceRequirements::new(size, 16)
}

fn any() -> RegionOptions<'static> {
    RegionOptions::new()
}

fn visible() -> RegionOptions<'static> {
    RegionOptions::new().preference(MemoryPreference::requiring(VISIBLE))
}

impl Scene<'_> {
    fn take(&self, size: u64, options: &RegionOptions<'_>) -> Region {
        self.gpu
            .allocate(&bytes(size), options)
            .expect("there is room")
    }

    fn buffer_with(&self, size: u64, options: &RegionOptions<'_>) -> Region {
        let info = BufferInfo::new(size, COPIED);
        self.gpu
            .create_buffer(&info, options)
            .expect("there is room")
    }

    fn buffer(&self, size: u64) -> Region {
        self.buffer_with(size, &any())
    }

    fn visible_buffer(&self, size: u64) -> Region {
        self.buffer_with(size, &visible())
    }

    fn pool(&self, memory_type: u32) -> PoolId {
        self.gpu
            .create_pool(&PoolOptions::new(memory_type))
            .expect("there is room")
    }

    /// A pool of blocks of so many bytes.
    fn pool_of(&self, block: u64, memory_type: u32) -> PoolId {
        let options = PoolOptions {
            block_size: Some(block),
            ..PoolOptions::new(memory_type)
        };
        self.gpu.create_pool(&options).expect("there is room")
    }

    /// A buffer of the application's, bound to memory of its own, with that memory's handle.
    fn foreign(&self, size: u64, memory_type: u32) -> Foreign<'_> {
        Foreign::new(self.mock, size, memory_type)
    }

    fn free(&self, region: Region) {
        self.gpu.free(region).expect("nothing is in the way");
    }

    /// `size` bytes of a region, as the device sees them.
    fn read(&self, region: &Region, size: usize) -> Vec<u8> {
        let mut into = vec![0; size];
        assert!(
            self.mock
                .read_buffer(region.buffer().unwrap(), region.copy_offset(), &mut into)
        );
        into
    }

    /// Writes through a mapping.
    fn write(&self, region: &Region, bytes: &[u8]) {
        let mapping = self.gpu.map(region).expect("visible");
        assert!(bytes.len() <= mapping.len());
        // SAFETY: mapped, as long as that, and nobody else uses it now.
        unsafe {
            mapping
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        self.gpu
            .flush(region, 0, bytes.len() as u64)
            .expect("mapped");
    }
}

/// A buffer that the application made, destroyed with this.
struct Foreign<'m> {
    mock: &'m Mock,
    buffer: BufferHandle,
    memory: gpu_suballoc::device::MemoryHandle,
    size: u64,
}

impl<'m> Foreign<'m> {
    fn new(mock: &'m Mock, size: u64, memory_type: u32) -> Self {
        // SAFETY: a mock; the info is valid.
        let buffer = unsafe { mock.create_buffer(&BufferInfo::new(size, COPIED)) }.unwrap();
        // SAFETY: a mock.
        let memory = unsafe {
            mock.allocate(&gpu_suballoc::device::MemoryRequest::new(
                size.next_multiple_of(4096),
                memory_type,
            ))
        }
        .unwrap();
        // SAFETY: both were just made.
        unsafe { mock.bind_buffer(buffer, memory, 0) }.unwrap();
        Self {
            mock,
            buffer,
            memory,
            size,
        }
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and nobody's any more.
        unsafe { self.mock.destroy_buffer(self.buffer) };
        // SAFETY: as above.
        unsafe { self.mock.free(self.memory) };
    }
}
