//! The whole allocator over a mock device, as the model sees it.

use super::*;

use debug_guard::Fault as HostFault;

pub type Host = FailingAllocator<RecordingAllocator>;
pub type Device = MockDevice;
type Allocator = GpuAllocator<&'static Device, &'static Host>;

/// The application's memory object has so many bytes, and two buffers of this size in it.
const BACKING: u64 = 1 << 16;
pub const WRAPPED: u64 = 20_000;

/// How a region is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMethod {
    Free,
    /// The buffer may be kept for the next one that fits.
    Release,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionRequest {
    pub size: u64,
    pub alignment: u64,
    pub bits: u32,
    /// What the memory must be.
    pub memory: PropertyFlags,
    pub resource: Resource,
    pub lifetime: Lifetime,
    pub dedicated: bool,
    /// The custom pool in this place.
    pub pool: Option<usize>,
}

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Linear,
    Optimal,
    Unknown,
    /// The allocator makes a buffer of as many bytes.
    Buffer,
}

/// A buffer of the application's, to be wrapped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wrap {
    /// Which of the two, or null.
    pub buffer: Option<usize>,
    pub offset: u64,
    pub size: u64,
    pub is_size_known: bool,
    /// Whether the memory behind is told: then it is host-visible, of a whole buffer's size.
    pub is_backed: bool,
}

/// What an allocator says of a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionFacts {
    pub class: Class,
    /// `VkDeviceMemory`; 0 where it is not known.
    pub memory: u64,
    /// Where it begins in its memory.
    pub offset: u64,
    /// Where it begins in its buffer: 0 but for wrapped ones and crops.
    pub base: u64,
    pub size: u64,
    pub memory_type: u32,
    pub buffer: Option<BufferHandle>,
}

/// Where a region was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    General,
    Dedicated,
    Linear,
    Wrapped,
    Crop,
}

impl Class {
    /// The name that [`Tried`](testkit::programs::Tried) counts it by.
    pub const fn name(self) -> &'static str {
        ["general", "dedicated", "linear", "wrapped", "crop"][self as usize]
    }
}

/// A device, as far as the model has to know.
pub struct DeviceTraits {
    pub types: Vec<PropertyFlags>,
    /// The types that need no special permission, a bit each.
    pub ordinary: u32,
    pub granularity: u64,
}

/// The sums that an allocator keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub blocks: u64,
    pub block_bytes: u64,
    pub regions: u64,
    pub wrapped: u64,
    pub crops: u64,
}

/// A piece of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    pub memory: u64,
    pub offset: u64,
    pub size: u64,
    /// The region that lies here.
    pub id: Option<RegionId>,
    /// Free for regions of the default pools.
    pub is_hole: bool,
}

/// The allocator and what is below it; all on the heap, so that regions of it need no lifetime.
pub struct RegionSubject {
    allocator: Option<Box<Allocator>>,
    /// A device that calls back.
    pub again: Option<&'static Again<&'static Device, &'static Host>>,
    /// What the device calls back.
    hook: Option<MockHook>,
    device: NonNull<Device>,
    host: NonNull<Host>,
    pools: RefCell<[Option<PoolId>; 2]>,
    pub buffers: [BufferHandle; 2],
    backing: MemoryHandle,
    reuse: bool,
    /// Objects are mapped while somebody needs them.
    counted: bool,
    /// Of mapped regions.
    maps: RefCell<HashMap<RegionId, Vec<Mapping<'static, &'static Device, &'static Host>>>>,
    ended: Cell<bool>,
}

pub const SHAPES: u8 = 96;
/// From here on the same again, with a device that calls back.
const CALLS_BACK: u8 = 48;

impl RegionRequest {
    /// While it lives.
    pub const fn is_mapped(&self) -> bool {
        self.size & 16 != 0
    }
}

impl RegionSubject {
    /// One of 96: six devices, in eight ways to use them, and each of these with a device that calls back.
    pub fn new(shape: u8) -> Self {
        Self::with(shape, (shape % SHAPES >= CALLS_BACK).then_some(How::Keeping))
    }

    /// As [`new`](Self::new), with a device that calls back like this.
    pub fn with(shape: u8, how: Option<How>) -> Self {
        let profile = MockProfile::ALL[usize::from(shape % 6)];
        let way = shape / 6 % 8;
        let host =
            NonNull::from(Box::leak(Box::new(FailingAllocator::new(RecordingAllocator::system(), HostFault::Never))));
        let device = NonNull::from(Box::leak(Box::new(MockDevice::new(profile))));
        // SAFETY: on the heap until this ends, which is after its allocator.
        let host_ref: &'static Host = unsafe { host.as_ref() };
        // SAFETY: on the heap until this ends, which is after its allocator.
        let device_ref: &'static Device = unsafe { device.as_ref() };
        let reuse = way & 1 == 1;
        let device_limit = device_ref.properties().limits.max_memory_allocation_count;
        let memory = MemoryOptions {
            // One is the application's.
            max_allocations: device_limit - 1,
            // Small, so that it becomes full.
            max_bytes: if way & 2 == 2 { 40 << 20 } else { 256 << 20 },
            first_block: if way & 2 == 2 { Some(1 << 20) } else { None },
            map_policy: if way & 4 == 4 { MapPolicy::Counted } else { MapPolicy::Persistent },
            ..MemoryOptions::default()
        };
        let options = AllocatorOptions { memory, reuse, ..AllocatorOptions::default() };
        // SAFETY: the program keeps the rules; what it breaks on purpose is refused before it reaches the device.
        let allocator = unsafe { GpuAllocator::new(device_ref, host_ref, options) };
        let allocator = allocator.map_err(|refused| refused.error).unwrap();
        let (backing, buffers) = application(device_ref);
        let allocator = Box::new(allocator);
        // SAFETY: on the heap until it is closed; before that the device is told to call back no more.
        let gpu: &'static Allocator = unsafe { NonNull::from(&*allocator).as_ref() };
        let again = how.map(|how| &*Box::leak(Box::new(Again::new(gpu, how))));
        let hook = again.map(|again| &*Box::leak(Box::new(move |call| again.at(call))) as MockHook);
        device_ref.set_hook(hook);
        Self {
            allocator: Some(allocator),
            again,
            hook,
            device,
            host,
            pools: RefCell::default(),
            buffers,
            backing,
            reuse,
            counted: way & 4 == 4,
            maps: RefCell::default(),
            ended: Cell::new(false),
        }
    }

    pub fn allocator(&self) -> &'static Allocator {
        let allocator = self.allocator.as_deref().expect("not closed");
        // SAFETY: it is not moved or dropped before `close`, which first lets go of all that was borrowed from it.
        unsafe { NonNull::from(allocator).as_ref() }
    }

    pub fn mock(&self) -> &'static Device {
        // SAFETY: on the heap until this ends.
        unsafe { self.device.as_ref() }
    }

    fn types(&self) -> Vec<PropertyFlags> {
        self.mock().properties().types.iter().map(|one| one.properties).collect()
    }

    fn options(&self, ask: &RegionRequest) -> RegionOptions<'static> {
        RegionOptions {
            kind: match ask.resource {
                Resource::Linear | Resource::Buffer => ResourceKind::Linear,
                Resource::Optimal => ResourceKind::Optimal,
                Resource::Unknown => ResourceKind::Unknown,
            },
            lifetime: ask.lifetime,
            mapped: ask.is_mapped(),
            min_alignment: if ask.resource == Resource::Buffer { ask.alignment } else { 1 },
            dedicated: if ask.dedicated { DedicatedPolicy::Required } else { DedicatedPolicy::Allowed },
            pool: ask.pool.and_then(|slot| self.pools.borrow()[slot]),
            ..RegionOptions::new().preference(MemoryPreference::requiring(ask.memory))
        }
    }
}

/// What the application has of its own: a memory object and two buffers in it.
fn application(device: &Device) -> (MemoryHandle, [BufferHandle; 2]) {
    let visible = |index: &usize| device.properties().types[*index].properties.contains(PropertyFlags::HOST_VISIBLE);
    let index = (0..device.properties().types.len()).find(visible).expect("every profile has host-visible memory");
    // SAFETY: within the device's limits.
    let memory = unsafe { device.allocate(&MemoryRequest::new(BACKING, index as u32)) }.unwrap();
    let buffers = [0, 1].map(|number| {
        // SAFETY: a plain buffer.
        let buffer = unsafe { device.create_buffer(&BufferInfo::new(WRAPPED, BufferUsage::TRANSFER_SRC)) }.unwrap();
        // SAFETY: both are live, the buffer is new, and offsets are aligned to everything a profile asks for.
        unsafe { device.bind_buffer(buffer, memory, number * (BACKING / 2)) }.unwrap();
        buffer
    });
    (memory, buffers)
}

/// The device has no more, or may not give more.
pub const fn is_short(error: GpuError) -> bool {
    matches!(error, GpuError::Device(_) | GpuError::AfterAllocation(_) | GpuError::Limit(_))
}

fn class(info: &RegionInfo) -> Class {
    match (info.ownership, info.placement) {
        (Ownership::CropAlias, _) => Class::Crop,
        (_, RangePlacement::Wrapped) => Class::Wrapped,
        (_, RangePlacement::Dedicated) => Class::Dedicated,
        (_, RangePlacement::Linear) => Class::Linear,
        (_, RangePlacement::General) => Class::General,
        (_, other) => panic!("{other:?} is of no class"),
    }
}

impl RegionSubject {
    pub fn device(&self) -> DeviceTraits {
        let special = [
            PropertyFlags::LAZILY_ALLOCATED,
            PropertyFlags::PROTECTED,
            PropertyFlags::DEVICE_COHERENT_AMD,
            PropertyFlags::DEVICE_UNCACHED_AMD,
        ];
        let types = self.types();
        let ordinary = |flags: &PropertyFlags| !special.iter().any(|special| flags.contains(*special));
        DeviceTraits {
            ordinary: (0..types.len())
                .filter(|index| ordinary(&types[*index]))
                .fold(0, |bits, index| bits | 1 << index),
            types,
            granularity: self.mock().properties().limits.buffer_image_granularity,
        }
    }

    pub fn allocate(&self, ask: &RegionRequest) -> Result<Region, GpuError> {
        let options = self.options(ask);
        if ask.resource == Resource::Buffer {
            let info = BufferInfo::new(ask.size, BufferUsage::TRANSFER_SRC | BufferUsage::TRANSFER_DST);
            return self.allocator().create_buffer(&info, &options);
        }
        let requirements = ResourceRequirements::new(ask.size, ask.alignment).memory_types(ask.bits);
        self.allocator().allocate(&requirements, &options)
    }

    pub fn allocate_batch(&self, ask: &RegionRequest, count: usize) -> Result<Vec<Region>, GpuError> {
        let requirements = ResourceRequirements::new(ask.size, ask.alignment).memory_types(ask.bits);
        let mut out: Vec<Option<Region>> = (0..count).map(|_| None).collect();
        let done = self.allocator().allocate_batch(&requirements, &self.options(ask), &mut out);
        assert!(done.is_ok() || out.iter().all(Option::is_none), "a batch that failed gives nothing");
        done?;
        Ok(out.into_iter().map(|region| region.expect("all or none")).collect())
    }

    pub fn facts(&self, region: &Region) -> RegionFacts {
        let info = self.allocator().info(region.id()).unwrap();
        assert_eq!((region.ownership(), region.mapped()), (info.ownership, info.mapped()));
        if info.ownership == Ownership::Owned {
            self.check_object(region, &info);
        }
        if region.buffer().is_some() && region.copy_offset().is_multiple_of(4) {
            let alignment = self.mock().properties().limits.min_storage_buffer_offset_alignment;
            let told = self.allocator().descriptor(region, 4, DescriptorUse::Storage).unwrap();
            let (start, end) = (told.offset + told.index * 4, told.offset + told.range);
            assert_eq!((Some(told.buffer), start, end - start), (region.buffer(), region.copy_offset(), region.size()));
            assert!(told.offset.is_multiple_of(alignment) && told.index * 4 < alignment, "{told:?}");
        }
        RegionFacts {
            class: class(&info),
            memory: region.memory().map_or(0, MemoryHandle::as_raw),
            offset: region.offset(),
            base: region.copy_offset(),
            size: region.size(),
            memory_type: region.memory_type().unwrap_or(0),
            buffer: region.buffer(),
        }
    }

    /// What is told of its memory object is what the device was asked for.
    fn check_object(&self, region: &Region, info: &RegionInfo) {
        let (size, memory_type) = self.memory(region.memory().expect("its own").as_raw()).expect("live");
        assert_eq!((region.memory_type(), info.memory_size), (Some(memory_type), Some(size)));
        let properties = Some(self.mock().properties().types[memory_type as usize].properties);
        assert_eq!([region.memory_properties(), info.memory_properties], [properties; 2]);
        assert_eq!(region.is_dedicated(), info.placement == RangePlacement::Dedicated);
        if region.is_dedicated() {
            assert_eq!((region.offset(), info.reserved), (0, size));
        } else {
            assert!(info.reserved.is_multiple_of(256) && (region.size()..=size).contains(&info.reserved), "{info:?}");
        }
    }

    pub fn facts_by_id(&self, id: RegionId) -> Result<RegionFacts, GpuError> {
        match self.allocator().info(id) {
            Ok(info) => Ok(RegionFacts {
                class: class(&info),
                memory: info.memory.map_or(0, MemoryHandle::as_raw),
                offset: info.offset,
                base: info.copy_offset,
                size: info.size,
                memory_type: info.memory_type.unwrap_or(0),
                buffer: info.buffer,
            }),
            Err(rule) => Err(rule.into()),
        }
    }

    pub fn free(&self, region: Region, way: FreeMethod) -> Result<(), (GpuError, Region)> {
        let done = match way {
            FreeMethod::Free => self.allocator().free(region),
            FreeMethod::Release => {
                let is_wrapped = region.ownership() == Ownership::Wrapped;
                match self.allocator().release(region) {
                    Err(refused) if refused.error == IsWrapped.into() => self.allocator().free(refused.value),
                    done => {
                        assert!(!is_wrapped, "it is the application's");
                        done
                    }
                }
            }
        };
        done.map_err(|refused| (refused.error, refused.value))
    }

    pub fn free_id(&self, id: RegionId) -> Result<(), GpuError> {
        self.allocator().free_id(id)
    }

    pub fn crop(&self, region: &Region, offset: u64, size: u64, element: u64) -> Result<Region, GpuError> {
        let crop = self.allocator().crop(region, offset, size, element)?;
        let first = |of: &Region, offset: u64| of.mapped().map(|first| first.addr().get() as u64 + offset);
        assert_eq!(first(&crop, 0), first(region, offset));
        Ok(crop)
    }

    pub fn wrap(&self, wrap: &Wrap) -> Result<Region, GpuError> {
        let number = wrap.buffer.unwrap_or(0);
        let found = self.mock().memory(self.backing).expect("the application's");
        let properties = self.types()[found.request.memory_type as usize];
        let backing = Backing {
            memory: self.backing,
            offset: number as u64 * (BACKING / 2),
            memory_size: BACKING,
            properties,
            mapped: None,
        };
        let buffer = wrap.buffer.map(|number| self.buffers[number]);
        let mut info = WrapInfo::new(buffer, wrap.size).offset(wrap.offset);
        info.buffer_size = wrap.is_size_known.then_some(WRAPPED);
        info.backing = wrap.is_backed.then_some(backing);
        self.allocator().wrap(&info)
    }

    pub fn detach(&self, region: Region) -> Result<(), (GpuError, Region)> {
        let (buffer, offset, size) = (region.buffer(), region.copy_offset(), region.size());
        let was = self.allocator().detach(region).map_err(|refused| (refused.error, refused.value))?;
        assert_eq!((Some(was.buffer), was.offset, was.size), (buffer, offset, size));
        Ok(())
    }

    pub fn map(&self, region: &Region) -> Result<NonNull<u8>, GpuError> {
        let mapping = self.allocator().map(region)?;
        assert_eq!(mapping.len() as u64, region.size());
        assert!(region.mapped().is_none_or(|first| first.as_ptr() == mapping.as_ptr()), "mapped while it lives");
        let at = NonNull::new(mapping.as_ptr()).expect("no null");
        self.maps.borrow_mut().entry(region.id()).or_default().push(mapping);
        Ok(at)
    }

    pub fn unmap(&self, region: &Region) {
        let mapping = self.maps.borrow_mut().get_mut(&region.id()).and_then(Vec::pop);
        drop(mapping.expect("the program unmaps what it mapped"));
    }

    pub fn create_pool(&self, slot: usize, linear: bool) -> Result<(), GpuError> {
        let memory_type = u32::from(self.types().len() > 1);
        let mut options = PoolOptions::new(memory_type);
        options.block_size = Some(1 << 20);
        if linear {
            options.algorithm = BlockAlgorithm::Ring;
        }
        self.pools.borrow_mut()[slot] = Some(self.allocator().create_pool(&options)?);
        Ok(())
    }

    pub fn destroy_pool(&self, slot: usize) -> Result<(), GpuError> {
        let pool = self.pools.borrow()[slot].expect("the program knows its pools");
        self.allocator().destroy_pool(pool)
    }

    /// Whether the device that calls back keeps it.
    pub fn is_the_devices(&self, id: RegionId) -> bool {
        self.again.is_some_and(|again| again.has(id))
    }

    pub fn sums(&self) -> Sums {
        let total = self.allocator().stats().total;
        // Kept buffers lie in regions that are nobody's.
        let mut kept = 0;
        if self.reuse {
            let picture = self.allocator().memory_map().unwrap();
            kept = picture
                .blocks_with_ranges()
                .flat_map(|(_, ranges)| ranges)
                .filter(|range| range.range_use == RangeUse::Reusable)
                .count() as u64;
        }
        Sums {
            blocks: total.blocks,
            block_bytes: total.block_bytes,
            regions: total.regions - kept - self.again.map_or(0, Again::count),
            wrapped: total.wrapped,
            crops: total.crops,
        }
    }

    pub fn walk(&self, each: &mut dyn FnMut(Piece)) {
        let picture = self.allocator().memory_map().unwrap();
        for (block, ranges) in picture.blocks_with_ranges().filter(|(block, _)| block.content != BlockContent::Wrapped)
        {
            for range in ranges {
                let id = range.id.filter(|id| range.range_use == RangeUse::Region && !self.is_the_devices(*id));
                // What is free may have come free since the allocator looked: by the device that called back.
                let is_free = range.range_use == RangeUse::Free && self.again.is_none();
                let is_hole = is_free && range.placement == RangePlacement::General && !block.is_custom;
                each(Piece { memory: block.memory, offset: range.offset, size: range.size, id, is_hole });
            }
        }
    }

    pub fn device_usage(&self) -> (u64, u64) {
        let live = self.mock().live_counts();
        (live.memory - 1, live.bytes - BACKING)
    }

    pub fn memory(&self, memory: u64) -> Option<(u64, u32)> {
        let found = self.mock().memory(MemoryHandle::from_raw(memory)?)?;
        Some((found.request.size, found.request.memory_type))
    }

    /// Memory objects that the device has mapped, where the model knows each that somebody needs.
    pub fn mapped_objects(&self) -> Option<HashSet<u64>> {
        let mut mapped = HashSet::new();
        self.mock().for_each_memory(&mut |memory, object| {
            mapped.extend(object.mapped.map(|_| memory.as_raw()));
        });
        (self.counted && !self.reuse && self.again.is_none()).then_some(mapped)
    }

    pub fn refuse(&self, host: Option<u64>, device: Option<u64>) {
        // SAFETY: on the heap until this ends.
        unsafe { self.host.as_ref() }.arm(host.map_or(HostFault::Never, HostFault::Nth));
        match device {
            Some(nth) => assert!(self.mock().plant(MockFault::nth(nth + 1)), "there is room for it"),
            None => self.mock().clear_faults(),
        }
    }

    pub fn close(mut self) {
        assert!(self.maps.borrow().values().all(Vec::is_empty), "all was unmapped");
        if let Some(again) = self.again {
            again.end();
            self.mock().set_hook(None);
        }
        let allocator = *self.allocator.take().expect("not closed");
        let (device, host) = allocator.close().map_err(|refused| refused.error).unwrap();
        for buffer in self.buffers {
            assert!(device.buffer(buffer).is_some(), "the application's buffer is still there");
            // SAFETY: the application's own, and nobody uses it.
            unsafe { device.destroy_buffer(buffer) };
        }
        // SAFETY: the application's own, and nobody uses it.
        unsafe { device.free(self.backing) };
        assert_eq!(device.live_counts(), MockLiveCounts::default(), "the device has everything back");
        assert!(device.violations().is_empty(), "{}", device.violations());
        host.inner().assert_empty("when the allocator was closed");
        self.ended.set(true);
    }
}

impl Drop for RegionSubject {
    fn drop(&mut self) {
        // A program that failed leaves everything where it is.
        if self.ended.get() {
            // SAFETY: made by `Box::leak`, and nobody has a reference any more.
            drop(unsafe { Box::from_raw(self.device.as_ptr()) });
            // SAFETY: made by `Box::leak`, and nobody has a reference any more.
            drop(unsafe { Box::from_raw(self.host.as_ptr()) });
            if let (Some(hook), Some(again)) = (self.hook, self.again) {
                // SAFETY: leaked in `with`; the device that called it is gone.
                drop(unsafe { Box::from_raw(ptr::from_ref(hook).cast_mut()) });
                // SAFETY: leaked in `with`; only the hook used it besides this.
                drop(unsafe { Box::from_raw(ptr::from_ref(again).cast_mut()) });
            }
        } else if let Some(allocator) = self.allocator.take() {
            self.maps.borrow_mut().drain().for_each(std::mem::forget);
            std::mem::forget(allocator);
        }
    }
}
