//! Each command of the trait does on a real device what it says.

use std::alloc::System;

use alloc_core::FromGlobalAlloc;
use ash::vk;
use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::device::{
    BufferHandle, DeviceError, HeapBudget, ImageHandle, MappedRange, MemoryHandle, MemoryRequest,
    ResourceHandle,
};
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, GpuError,
    ImageInfo, ImageUsage, MemoryPreference, PropertyFlags, RegionOptions, ResourceRequirements,
};

use crate::live::{CALLBACKS, Live, imported, live_blocks, refuse, requests, taken_blocks};

/// A test by its name.
pub(crate) type Test = (&'static str, fn(&Live));

pub(crate) const TESTS: &[Test] = &[
    ("what_the_device_says_is_what_vulkan_says", says),
    ("bytes_go_through_every_memory_type_and_back", bytes),
    ("vulkan_1_0_is_enough", old),
    ("u101_u111_an_image_of_the_programs_own_is_named", own_image),
    ("u103_a_soft_limit_is_the_drivers_to_refuse", soft),
    ("u106_u107_an_import_goes_where_its_handle_allows", import),
    ("callbacks_balance", callbacks),
    ("a_budget_is_told_where_it_is_enabled", budget),
    ("priority_and_addresses_work_where_they_are_enabled", extras),
    (FULL, refused),
    ("a_refusal_of_host_memory_is_told", refused_by_callbacks),
];

const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());

/// A buffer with memory of its own.
struct Bound<'d> {
    device: &'d AshDevice,
    buffer: BufferHandle,
    memory: MemoryHandle,
    size: u64,
}

// SAFETY of all that follows: handles are made and ended here, on one thread, each once.
impl<'d> Bound<'d> {
    fn new(
        device: &'d AshDevice,
        size: u64,
        kind: impl Fn(&ResourceRequirements) -> Option<u32>,
    ) -> Option<Self> {
        // SAFETY: see above.
        let buffer = unsafe { device.create_buffer(&BufferInfo::new(size, COPIED)) }.unwrap();
        // SAFETY: see above.
        let needs = unsafe { device.buffer_requirements(buffer) };
        assert!(
            needs.size >= size && needs.alignment.is_power_of_two() && needs.memory_type_bits != 0,
            "{needs:?}"
        );
        let Some(kind) = kind(&needs) else {
            // SAFETY: see above.
            unsafe { device.destroy_buffer(buffer) };
            return None;
        };
        let size = needs
            .size
            .next_multiple_of(device.properties().limits.non_coherent_atom_size);
        // SAFETY: see above.
        let memory = unsafe { device.allocate(&MemoryRequest::new(size, kind)) }.unwrap();
        // SAFETY: see above.
        unsafe { device.bind_buffer(buffer, memory, 0) }.unwrap();
        Some(Self {
            device,
            buffer,
            memory,
            size,
        })
    }

    /// Maps, lets somebody touch the bytes, unmaps; flushed after and invalidated before, as non-coherent memory wants it.
    fn touch<R>(&self, touch: impl FnOnce(&mut [u8]) -> R) -> R {
        let size = usize::try_from(self.size).unwrap();
        // SAFETY: see above.
        let first = unsafe { self.device.map(self.memory, 0, self.size) }.unwrap();
        let alignment =
            usize::try_from(self.device.properties().limits.min_memory_map_alignment).unwrap();
        assert!(first.as_ptr().addr().is_multiple_of(alignment));
        let whole = [MappedRange {
            memory: self.memory,
            offset: 0,
            size: self.size,
        }];
        // SAFETY: see above.
        unsafe { self.device.invalidate(&whole) }.unwrap();
        // SAFETY: mapped, and the device is idle.
        let done = touch(unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), size) });
        // SAFETY: see above.
        unsafe { self.device.flush(&whole) }.unwrap();
        // SAFETY: see above.
        unsafe { self.device.unmap(self.memory) };
        done
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        // SAFETY: see above.
        unsafe { self.device.destroy_buffer(self.buffer) };
        // SAFETY: see above.
        unsafe { self.device.free(self.memory) };
    }
}

/// The first type that is accepted and has these properties.
fn with(
    device: &AshDevice,
    properties: PropertyFlags,
) -> impl Fn(&ResourceRequirements) -> Option<u32> {
    move |needs| {
        let types = (0u32..).zip(device.properties().types);
        types
            .filter(|(index, kind)| {
                needs.memory_type_bits >> index & 1 == 1 && kind.properties.contains(properties)
            })
            .map(|(index, _)| index)
            .next()
    }
}

fn says(live: &Live) {
    let device = live.ash(live.options);
    let told = device.properties();
    // SAFETY: of the instance.
    let memory = unsafe {
        live.instance
            .get_physical_device_memory_properties(live.physical)
    };
    // SAFETY: as above.
    let limits = unsafe { live.instance.get_physical_device_properties(live.physical) }.limits;
    for (index, (heap, vulkan)) in told
        .heaps
        .iter()
        .zip(memory.memory_heaps_as_slice())
        .enumerate()
    {
        println!(
            "  heap {index}: {} MiB{}",
            heap.size >> 20,
            if heap.is_device_local() {
                ", DEVICE_LOCAL"
            } else {
                ""
            }
        );
        assert_eq!(
            (heap.size, heap.flags.as_raw()),
            (vulkan.size, vulkan.flags.as_raw())
        );
    }
    for (index, (kind, vulkan)) in told
        .types
        .iter()
        .zip(memory.memory_types_as_slice())
        .enumerate()
    {
        println!(
            "  type {index}: heap {}, {}",
            kind.heap_index, kind.properties
        );
        assert_eq!(
            (kind.heap_index, kind.properties.as_raw()),
            (vulkan.heap_index, vulkan.property_flags.as_raw())
        );
    }
    println!("  {:?}\n  {:?}", told.limits, told.features);
    assert_eq!(
        (told.heaps.len(), told.types.len()),
        (
            memory.memory_heap_count as usize,
            memory.memory_type_count as usize
        )
    );
    assert_eq!(
        told.limits.buffer_image_granularity,
        limits.buffer_image_granularity
    );
    assert_eq!(
        told.limits.non_coherent_atom_size,
        limits.non_coherent_atom_size
    );
    assert_eq!(
        told.limits.max_memory_allocation_count,
        limits.max_memory_allocation_count
    );
    if live.options.api_version >= vk::API_VERSION_1_1 {
        assert!(
            told.limits.max_memory_allocation_size < u64::MAX,
            "1.1 tells"
        );
    }
    assert_eq!(
        told.features, live.options.features,
        "the driver has every command of what it offers"
    );
}

fn round(live: &Live, device: &AshDevice) {
    let pattern = |at: usize| (at * 7 % 251) as u8;
    let mut types = 0;
    for (index, kind) in (0u32..).zip(device.properties().types) {
        let special = PropertyFlags::LAZILY_ALLOCATED
            | PropertyFlags::PROTECTED
            | PropertyFlags::DEVICE_COHERENT_AMD;
        if !(kind.properties & special).is_empty() {
            continue;
        }
        let this = |needs: &ResourceRequirements| {
            (needs.memory_type_bits >> index & 1 == 1).then_some(index)
        };
        let Some(middle) = Bound::new(device, 5000, this) else {
            continue;
        };
        let source = Bound::new(device, 5000, with(device, PropertyFlags::HOST_VISIBLE))
            .expect("every device has visible memory");
        let target = Bound::new(device, 5000, with(device, PropertyFlags::HOST_VISIBLE)).unwrap();
        source.touch(|bytes| {
            bytes
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = pattern(at))
        });
        target.touch(|bytes| bytes.fill(0xee));
        live.copy(&[
            (source.buffer, 3, middle.buffer, 1000, 4000),
            (middle.buffer, 1000, target.buffer, 17, 4000),
        ]);
        target.touch(|bytes| {
            assert!(
                (0..4000).all(|at| bytes[17 + at] == pattern(3 + at)),
                "type {index}"
            );
            assert!(
                bytes[..17]
                    .iter()
                    .chain(&bytes[4017..5000])
                    .all(|byte| *byte == 0xee),
                "type {index}"
            );
        });
        types += 1;
    }
    assert!(types > 0, "no memory type serves a buffer");
}

fn bytes(live: &Live) {
    round(live, &live.ash(live.options));
}

fn old(live: &Live) {
    let device = live.ash(AshOptions::new(vk::API_VERSION_1_0));
    let told = device.properties();
    assert_eq!(
        (
            told.limits.max_memory_allocation_size,
            told.features.dedicated_allocation
        ),
        (u64::MAX, false)
    );
    round(live, &device);
}

fn sampled() -> ImageInfo {
    let format = u32::try_from(vk::Format::R8G8B8A8_UNORM.as_raw()).unwrap();
    ImageInfo::new_2d(
        format,
        64,
        64,
        ImageUsage::SAMPLED | ImageUsage::TRANSFER_DST,
    )
}

fn made(device: &AshDevice) -> (ImageHandle, ResourceRequirements) {
    // SAFETY: see `Bound`.
    let image = unsafe { device.create_image(&sampled()) }.unwrap();
    // SAFETY: see `Bound`.
    let needs = unsafe { device.image_requirements(image) };
    assert!(
        needs.size >= 64 * 64 * 4 && needs.memory_type_bits != 0,
        "{needs:?}"
    );
    (image, needs)
}

fn callbacks(live: &Live) {
    let before = (live_blocks(), taken_blocks());
    let device = live.ash(AshOptions {
        callbacks: Some(CALLBACKS),
        ..live.options
    });
    round(live, &device);
    let (image, _) = made(&device);
    // SAFETY: see `Bound`.
    unsafe { device.destroy_image(image) };
    let taken = taken_blocks() - before.1;
    println!("  the driver took {taken} blocks of host memory");
    assert!(
        taken > 0 || !live.is_lavapipe(),
        "lavapipe asks for each buffer and memory object"
    );
    assert_eq!(live_blocks(), before.0, "everything came back");
}

fn budget(live: &Live) {
    let device = live.ash(live.options);
    let enabled = device.properties().features.memory_budget;
    let mut told = [HeapBudget::default(); 16];
    assert_eq!(device.budget(&mut told), enabled);
    for (heap, told) in device
        .properties()
        .heaps
        .iter()
        .zip(told)
        .filter(|_| enabled)
    {
        println!(
            "  budget {} MiB of {}, used {}",
            told.budget >> 20,
            heap.size >> 20,
            told.usage >> 20
        );
        assert!(
            told.budget > 0 && told.budget <= heap.size,
            "{told:?} of {heap:?}"
        );
    }
    println!("  VK_EXT_memory_budget: {enabled}");
}

/// An image with a structure behind its create info, which the allocator cannot make; regions with alignments of their own beside it, and
/// lazily allocated memory where there is some.
fn own_image(live: &Live) {
    let gpu = allocator(live);
    let formats = [vk::Format::R8G8B8A8_UNORM, vk::Format::R8G8B8A8_SRGB];
    let mut list = vk::ImageFormatListCreateInfo::default().view_formats(&formats);
    let mut info = vk::ImageCreateInfo::default()
        .flags(vk::ImageCreateFlags::MUTABLE_FORMAT)
        .image_type(vk::ImageType::TYPE_2D)
        .format(formats[0])
        .extent(vk::Extent3D {
            width: 96,
            height: 64,
            depth: 1,
        })
        .mip_levels(1)
        .array_layers(1)
        .samples(vk::SampleCountFlags::TYPE_1)
        .usage(vk::ImageUsageFlags::SAMPLED | vk::ImageUsageFlags::TRANSFER_DST);
    if live.options.api_version >= vk::API_VERSION_1_2 {
        info = info.push_next(&mut list);
    }
    // SAFETY: see `Bound`.
    let image = unsafe { live.device.create_image(&info, None) }.unwrap();
    let ours = ImageHandle::try_from(image).unwrap();
    // SAFETY: see `Bound`.
    let needs = unsafe { gpu.device().image_requirements(ours) };
    let named = RegionOptions::new().dedicated_for(ResourceHandle::Image(ours));
    let region = gpu.allocate(&needs, &named).unwrap();
    assert_eq!((region.size(), region.offset()), (needs.size, 0));
    let memory = region.memory().unwrap();
    // SAFETY: see `Bound`.
    unsafe { gpu.device().bind_image(ours, memory, region.offset()) }.unwrap();
    let mut buffers = Vec::new();
    for alignment in [1, 4096, 128, 65_536] {
        let options = RegionOptions::new().min_alignment(alignment);
        let buffer = gpu.create_buffer(&BufferInfo::new(100, COPIED), &options);
        let buffer = buffer.unwrap();
        assert!(buffer.offset().is_multiple_of(alignment));
        buffers.push(buffer);
    }
    let lazy = RegionOptions::new()
        .preference(MemoryPreference::requiring(PropertyFlags::LAZILY_ALLOCATED));
    let usage = ImageUsage::COLOR_ATTACHMENT | ImageUsage::TRANSIENT_ATTACHMENT;
    match gpu.create_image(&ImageInfo::new_2d(37, 512, 512, usage), &lazy) {
        Ok(image) => {
            let backed = gpu.commitment(image.id()).unwrap();
            assert!(backed.is_some_and(|bytes| bytes <= image.size()));
            buffers.push(image);
        }
        Err(error) => assert!(matches!(error, GpuError::MemoryType(_)), "{error}"),
    }
    for buffer in buffers {
        gpu.free(buffer).unwrap();
    }
    // SAFETY: see `Bound`.
    unsafe { live.device.destroy_image(image, None) };
    gpu.free(region).unwrap();
    assert!(gpu.close().is_ok());
}

fn allocator(live: &Live) -> GpuAllocator<AshDevice, FromGlobalAlloc<System>> {
    // SAFETY: the infos are valid, and nothing runs on the device.
    let gpu = unsafe {
        GpuAllocator::new(
            live.ash(live.options),
            FromGlobalAlloc::SYSTEM,
            AllocatorOptions::default(),
        )
    };
    gpu.map_err(|refused| refused.error).unwrap()
}

fn soft(live: &Live) {
    let gpu = allocator(live);
    let properties = gpu.device().properties();
    let most = properties.limits.max_memory_allocation_size;
    let heap = properties.heaps.iter().map(|heap| heap.size).max();
    let size = most.saturating_add(1 << 16);
    if heap.is_none_or(|heap| size > heap) || size > 8 << 30 {
        println!(
            "  maxMemoryAllocationSize {most}: no heap is larger, or the test would take too much"
        );
    } else {
        let region = gpu.allocate(
            &ResourceRequirements::new(size, 4096),
            &RegionOptions::new(),
        );
        println!(
            "  maxMemoryAllocationSize {most}, 64 KiB more: {}",
            region.is_ok()
        );
        match region {
            Ok(region) => gpu.free(region).map_err(|no| no.error).unwrap(),
            Err(error) => assert!(matches!(error, GpuError::Device(_)), "{error}"),
        }
    }
    assert!(gpu.close().is_ok());
}

fn import(live: &Live) {
    let gpu = allocator(live);
    if let Err(lacks) = imported(live, &gpu) {
        println!("  it lacks {lacks}");
    }
    assert!(gpu.close().is_ok());
}

fn extras(live: &Live) {
    let device = live.ash(live.options);
    let features = device.properties().features;
    println!(
        "  priority: {}, addresses: {}",
        features.memory_priority, features.buffer_device_address
    );
    if features.memory_priority {
        let request = MemoryRequest {
            priority: Some(1.0),
            ..MemoryRequest::new(65_536, 0)
        };
        // SAFETY: see `Bound`.
        let memory = unsafe { device.allocate(&request) }.unwrap();
        // SAFETY: see `Bound`.
        unsafe { device.free(memory) };
    }
    if features.buffer_device_address {
        // SAFETY: see `Bound`.
        let buffer = unsafe {
            device.create_buffer(&BufferInfo::new(4096, BufferUsage::SHADER_DEVICE_ADDRESS))
        }
        .unwrap();
        // SAFETY: see `Bound`.
        let needs = unsafe { device.buffer_requirements(buffer) };
        let request = MemoryRequest {
            device_address: true,
            ..MemoryRequest::new(needs.size, needs.memory_type_bits.trailing_zeros())
        };
        // SAFETY: see `Bound`.
        let memory = unsafe { device.allocate(&request) }.unwrap();
        // SAFETY: see `Bound`.
        unsafe { device.bind_buffer(buffer, memory, 0) }.unwrap();
        // SAFETY: see `Bound`.
        let address = unsafe { device.buffer_address(buffer) }
            .expect("a bound buffer has an address")
            .get();
        assert!(address.is_multiple_of(needs.alignment), "{address:#x}");
        // SAFETY: see `Bound`.
        unsafe { device.destroy_buffer(buffer) };
        // SAFETY: see `Bound`.
        unsafe { device.free(memory) };
    }
}

/// In a process with this set the heap is known to be smaller than it says, so the driver must refuse.
const MUST_REFUSE: &str = "STEWARD_HEAP_MUST_REFUSE";
const FULL: &str = "a_full_heap_refuses_and_what_is_freed_is_there_again";
/// Past the heap's size a driver is asked for so little more: some go on in the host's memory.
const PAST: [u64; 4] = [64 << 20; 4];

/// Fills the device's largest heap with sixteenths of it, or the largest objects that may be, and gives them back: how many, how many bytes, and the refusal.
fn fill(device: &AshDevice) -> (usize, u64, Option<DeviceError>) {
    let told = device.properties();
    let own = told
        .heaps
        .iter()
        .enumerate()
        .filter(|(_, heap)| heap.is_device_local());
    let (index, heap) = own
        .max_by_key(|(_, heap)| heap.size)
        .expect("a heap of its own");
    let kind = told
        .types
        .iter()
        .position(|kind| kind.heap_index as usize == index)
        .expect("a type of that heap");
    let largest = (heap.size / 16).min(told.limits.max_memory_allocation_size);
    let whole = usize::try_from(heap.size / largest).unwrap();
    let rest = heap.size % largest;
    let sizes = std::iter::repeat_n(largest, whole)
        .chain((rest > 0).then_some(rest))
        .chain(PAST);
    let (mut held, mut bytes, mut refused) = (Vec::new(), 0, None);
    for size in sizes {
        // SAFETY: see `Bound`.
        match unsafe { device.allocate(&MemoryRequest::new(size, u32::try_from(kind).unwrap())) } {
            Ok(memory) => {
                assert!(!held.contains(&memory), "two live objects have two handles");
                held.push(memory);
                bytes += size;
            }
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let count = held.len();
    for memory in held {
        // SAFETY: see `Bound`.
        unsafe { device.free(memory) };
    }
    (count, bytes, refused)
}

/// Bytes of addresses that the process has.
fn mapped() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    told.split_whitespace()
        .next()
        .and_then(|pages| pages.parse::<u64>().ok())
        .map_or(0, |pages| pages * 4096)
}

/// lavapipe lends whatever it is asked for, and NVIDIA goes on in the host's memory: there the refusal is lavapipe's, in a process that may
/// not have as many addresses as its heap has bytes.
fn refused(live: &Live) {
    let (device, started) = (live.ash(live.options), std::time::Instant::now());
    let first = fill(&device);
    let between = mapped();
    let again = fill(&device);
    println!(
        "  {} objects, {} MiB, then {:?}",
        first.0,
        first.1 >> 20,
        first.2
    );
    // What was freed is there again: of a heap that others use too, nearly.
    assert!(
        again.0 + 1 >= first.0 && again.1 >= first.1 / 8 * 7,
        "{first:?}, then {again:?}"
    );
    if live.is_lavapipe() {
        // All of it is the process's own memory.
        let kept = mapped().saturating_sub(between);
        assert!(
            first.1 == 0 || kept < first.1 / 2,
            "{kept} of {} bytes are still there",
            first.1
        );
    }
    for refusal in [first.2, again.2].into_iter().flatten() {
        assert_eq!(refusal, DeviceError::OutOfDeviceMemory);
    }
    let must = std::env::var_os(MUST_REFUSE).is_some();
    assert!(
        !must || (first.2.is_some() && again.2.is_some()),
        "{first:?}, then {again:?}"
    );
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    if live.is_lavapipe() && !must {
        let limited = ["-c", "ulimit -v 2097152 && exec \"$0\" \"$1\""];
        let program = std::env::current_exe().expect("a test knows its file");
        let child = testkit::Child::new("sh")
            .args(limited)
            .args([program.as_os_str(), FULL.as_ref()]);
        child.env(MUST_REFUSE, "1").run().assert_code(0);
    }
}

/// The application's callbacks say no: the driver must say that host memory ran out, and its object is not there.
fn refused_by_callbacks(live: &Live) {
    let device = live.ash(AshOptions {
        callbacks: Some(CALLBACKS),
        ..live.options
    });
    let before = live_blocks();
    refuse(Some(0));
    // SAFETY: see `Bound`.
    let answer = unsafe { device.create_buffer(&BufferInfo::new(4096, COPIED)) };
    let asked = requests();
    refuse(None);
    if asked == 0 {
        // SAFETY: see `Bound`.
        unsafe { device.destroy_buffer(answer.expect("nothing was refused")) };
        return testkit::skip(
            "lavapipe",
            "a_refusal_of_host_memory_is_told",
            "the driver asks for no host memory here",
        );
    }
    assert_eq!(
        (answer, live_blocks()),
        (Err(DeviceError::OutOfHostMemory), before)
    );
    round(live, &device);
    assert_eq!(live_blocks(), before);
}
