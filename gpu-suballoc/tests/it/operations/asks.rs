//! Ways to ask an allocator for something: with one request of host memory refused, or one command, or both, with a
//! device that calls back, on a heap that refuses. One list, so that no net can forget what another one holds.

use super::*;

/// One way. What it leaves is freed afterwards.
pub struct Ask<D: DeviceMemory, A: HostAllocator> {
    pub name: &'static str,
    /// The public functions that it calls, as `testkit::public_api` lists them.
    pub calls: &'static str,
    /// Of an allocator, and a buffer in it where the ask is about one.
    run: Run<D, A>,
    is_of_buffer: bool,
}

impl<D: DeviceMemory, A: HostAllocator> Ask<D, A> {
    /// The buffer that it is about: of [`WHOLE`] bytes, and the host sees it.
    pub fn buffer(&self, gpu: &GpuAllocator<D, A>) -> Option<Region> {
        self.is_of_buffer.then(|| whole(gpu))
    }

    pub fn run(&self, gpu: &GpuAllocator<D, A>, buffer: &Option<Region>) -> Result<Held, GpuError> {
        (self.run)(gpu, buffer.as_ref())
    }
}

type Run<D, A> = fn(&GpuAllocator<D, A>, Option<&Region>) -> Result<Held, GpuError>;

/// Regions without a vector: nothing here may touch the global allocator.
pub struct Held([Option<Region>; 40]);

impl Held {
    const NONE: Self = Self([const { None }; 40]);

    /// Frees them.
    pub fn free<D: DeviceMemory, A: HostAllocator>(mut self, gpu: &GpuAllocator<D, A>) {
        gpu.free_batch(&mut self.0).unwrap();
    }
}

pub const WHOLE: u64 = 5000;

pub fn needs(size: u64) -> ResourceRequirements {
    ResourceRequirements::new(size, 256)
}

/// Memory that the host sees, coherent or not, as every profile has some.
pub fn visible() -> RegionOptions<'static> {
    RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
}

pub fn info(size: u64) -> BufferInfo {
    BufferInfo::new(size, BufferUsage::TRANSFER_DST | BufferUsage::STORAGE_BUFFER)
}

/// A buffer that asks are about.
pub fn whole<D: DeviceMemory, A: HostAllocator>(gpu: &GpuAllocator<D, A>) -> Region {
    gpu.create_buffer(&info(WHOLE), &visible()).unwrap()
}

/// What a refusal must leave as it was. A block that was made for it may stay, empty and counted: the next try has it.
pub fn seen<A: HostAllocator>(gpu: &GpuAllocator<&MockDevice, A>) -> (MemoryTotals, u64, u64) {
    let (mut total, live) = (gpu.stats().total, gpu.device().live_counts());
    assert_eq!((total.blocks, total.block_bytes), (live.memory, live.bytes), "the sums are the device's");
    total.blocks = 0;
    total.block_bytes = 0;
    total.empty_bytes = 0;
    total.largest_free_bound = 0;
    (total, live.buffers, live.images)
}

fn one(region: Result<Region, GpuError>) -> Result<Held, GpuError> {
    let mut held = Held::NONE;
    held.0[0] = Some(region?);
    Ok(held)
}

const fn ask<D: DeviceMemory, A: HostAllocator>(name: &'static str, calls: &'static str, run: Run<D, A>) -> Ask<D, A> {
    Ask {
        name,
        calls,
        run,
        is_of_buffer: matches!(name.as_bytes(), b"wrap" | b"crops" | b"map" | b"picture" | b"name"),
    }
}

/// All of them.
pub fn asks<D: DeviceMemory, A: HostAllocator>() -> [Ask<D, A>; 16] {
    const ANY: RegionOptions<'static> = RegionOptions::new();
    [
        ask("general", "GpuAllocator::allocate", |gpu, _| one(gpu.allocate(&needs(5000), &ANY))),
        ask("large", "", |gpu, _| one(gpu.allocate(&needs(20 << 20), &ANY))),
        ask("dedicated", "", |gpu, _| one(gpu.allocate(&needs(5000), &ANY.dedicated(DedicatedPolicy::Required)))),
        ask("named", "", |gpu, _| one(gpu.allocate(&needs(5000), &ANY.name("a name")))),
        // More than one block holds, on most devices.
        ask("batch", "GpuAllocator::allocate_batch GpuAllocator::free_batch", |gpu, _| {
            let mut held = Held::NONE;
            gpu.allocate_batch(&needs(1 << 20), &visible(), &mut held.0).map(|()| held)
        }),
        ask("buffer", "GpuAllocator::create_buffer", |gpu, _| one(gpu.create_buffer(&info(30_000), &ANY))),
        ask("large buffer", "", |gpu, _| one(gpu.create_buffer(&info(200 << 20), &visible()))),
        ask("image", "GpuAllocator::create_image", |gpu, _| {
            one(gpu.create_image(&ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED), &ANY))
        }),
        ask("wrap", "GpuAllocator::wrap WrapInfo::new", |gpu, whole| {
            let whole = whole.unwrap();
            one(gpu.wrap(&WrapInfo::new(whole.buffer(), 64).offset(4).name("the application's")))
        }),
        // Their slots need more memory than there is.
        ask("crops", "GpuAllocator::crop", |gpu, whole| {
            let whole = whole.unwrap();
            let mut crops = [const { None }; 300];
            let made = crops.iter_mut().try_for_each(|crop| {
                *crop = Some(gpu.crop(whole, 8, 16, 4)?);
                Ok(())
            });
            gpu.free_batch(&mut crops).unwrap();
            made.map(|()| Held::NONE)
        }),
        ask("ensure", "GpuAllocator::ensure_buffer", |gpu, _| {
            let small = gpu.create_buffer(&info(64), &visible())?;
            one(gpu.ensure_buffer(small, &info(16 << 20), &visible()).map_err(|refused| {
                gpu.free(refused.value).expect("it comes back");
                refused.error
            }))
        }),
        ask("map", "GpuAllocator::map GpuAllocator::flush GpuAllocator::invalidate", |gpu, whole| {
            let whole = whole.unwrap();
            let mapping = gpu.map(whole)?;
            assert!(!mapping.as_ptr().is_null() && mapping.len() as u64 == WHOLE);
            gpu.flush(whole, 0, 64)?;
            gpu.invalidate(whole, 0, 64).map(|()| Held::NONE)
        }),
        ask("pool", "GpuAllocator::create_pool GpuAllocator::destroy_pool GpuAllocator::allocate_at", |gpu, _| {
            let options = PoolOptions { min_blocks: 2, block_size: Some(1 << 16), ..PoolOptions::new(0) };
            let pool = gpu.create_pool(&options)?;
            let (named, mut both) = (ANY.pool(pool).name("its name"), [const { None }; 2]);
            let mut fill = || {
                both[0] = Some(gpu.allocate(&needs(64), &named)?);
                both[1] = Some(gpu.allocate_at(1, 8192, &needs(5000), &named)?);
                Ok(Held::NONE)
            };
            let filled = fill();
            gpu.free_batch(&mut both).unwrap();
            gpu.destroy_pool(pool).unwrap();
            filled
        }),
        ask("reserve", "GpuAllocator::reserve", |gpu, _| gpu.reserve(1 << 20, u32::MAX, &ANY).map(|()| Held::NONE)),
        ask("picture", "GpuAllocator::memory_map", |gpu, _| gpu.memory_map().map(|_| Held::NONE)),
        ask("name", "GpuAllocator::set_name", |gpu, whole| {
            let whole = whole.unwrap();
            let long = "a name that does not fit into a few bytes of a record, so that it needs a block of its own";
            gpu.set_name(whole, &ANY.name(long)).map(|()| Held::NONE)
        }),
    ]
}
