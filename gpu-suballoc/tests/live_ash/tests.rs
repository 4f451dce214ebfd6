//! An allocator over a real device, and what the device says of itself. Each case has an allocator of its own, and says what the device
//! gives no chance to show.

use std::sync::Barrier;

use ash::vk;
use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::device::{
    DeviceError, ExternalHandleTypes, HeapBudget, HeapFlags, ImageHandle, MemoryRequest,
    ResourceHandle,
};
use gpu_suballoc::error::Limit;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, GpuError,
    ImageInfo, ImageUsage, MemoryPreference, PropertyFlags, Region, RegionOptions,
    ResourceRequirements,
};
use testkit::RecordingAllocator;

use crate::live::{self, Live, imported, live_blocks, refuse};

type Gpu<'w> = GpuAllocator<AshDevice, &'w RecordingAllocator>;
type Unseen = Vec<&'static str>;
type Case = fn(&Live, &Gpu<'_>) -> Unseen;

const CASES: &[(&str, Case)] = &[
    ("what_the_device_says_is_what_vulkan_says", says),
    ("bytes_go_through_every_memory_type_and_back", bytes),
    ("vulkan_1_0_is_enough", old),
    ("dedicated_priority_export_go_through", requests),
    (
        "buffers_of_one_block_have_addresses_of_their_own",
        addresses,
    ),
    ("two_threads_map_two_regions_of_one_block", maps),
    ("a_budget_is_told_and_not_exceeded", budget),
    ("u101_u111_an_image_of_the_programs_own_is_named", own_image),
    ("u103_a_soft_limit_is_the_drivers_to_refuse", soft),
    ("u106_u107_an_import_goes_where_its_handle_allows", import),
    (FULL, refused),
    ("a_refusal_of_host_memory_is_told", refused_by_callbacks),
];

/// What lavapipe gives no chance to show: one coherent memory type in one heap, neither budget nor priority.
const LAVAPIPE: [&str; 3] = ["budget", "non-coherent", "priority"];

const ANY: RegionOptions<'static> = RegionOptions::new();
const VISIBLE: RegionOptions<'static> =
    ANY.preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());

pub(crate) fn run() {
    let ran = live::run(CASES, |case, live| {
        let witness = RecordingAllocator::system();
        let options = AshOptions {
            callbacks: Some(live::CALLBACKS),
            ..live.options
        };
        let gpu = over(live, options, &witness);
        let unseen = case(live, &gpu);
        let closed = gpu.close().map(drop).map_err(|refused| refused.error);
        assert_eq!(closed, Ok(()), "everything was freed");
        witness.assert_empty("after the allocator was closed");
        assert_eq!(live_blocks(), 0, "the driver holds host memory");
        (live.is_lavapipe(), unseen)
    });
    let mut unseen: Unseen = ran.iter().flat_map(|(_, unseen)| unseen).copied().collect();
    unseen.sort_unstable();
    unseen.dedup();
    println!("what the driver cannot exercise: {unseen:?}");
    if ran.len() == CASES.len() && ran[0].0 {
        assert_eq!(unseen, LAVAPIPE);
        assert!(live::taken_blocks() > 0, "lavapipe asks the callbacks");
    }
}

fn over<'w>(live: &Live, options: AshOptions, witness: &'w RecordingAllocator) -> Gpu<'w> {
    let device = live.ash(options);
    // SAFETY: the device outlives the allocator, infos are valid, and nothing runs on it when a region is freed.
    let gpu = unsafe { GpuAllocator::new(device, witness, AllocatorOptions::default()) };
    gpu.map_err(|refused| refused.error).unwrap()
}

fn free(gpu: &Gpu<'_>, regions: impl IntoIterator<Item = Region>) {
    for region in regions {
        gpu.free(region).unwrap();
    }
}

// SAFETY of all that follows: handles are made and ended here, on one thread, each once.
fn says(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    let told = gpu.device().properties();
    // SAFETY: of the instance.
    let memory = unsafe {
        live.instance
            .get_physical_device_memory_properties(live.physical)
    };
    // SAFETY: as above.
    let limits = unsafe { live.instance.get_physical_device_properties(live.physical) }.limits;
    println!("  {told:?}");
    let heaps = memory.memory_heaps_as_slice().iter();
    assert!(
        (told
            .heaps
            .iter()
            .map(|heap| (heap.size, heap.flags.as_raw())))
        .eq(heaps.map(|heap| (heap.size, heap.flags.as_raw())))
    );
    let types = memory.memory_types_as_slice().iter();
    assert!(
        (told
            .types
            .iter()
            .map(|kind| (kind.heap_index, kind.properties.as_raw())))
        .eq(types.map(|kind| (kind.heap_index, kind.property_flags.as_raw())))
    );
    assert_eq!(
        (
            told.limits.buffer_image_granularity,
            told.limits.non_coherent_atom_size,
            told.limits.max_memory_allocation_count
        ),
        (
            limits.buffer_image_granularity,
            limits.non_coherent_atom_size,
            limits.max_memory_allocation_count
        )
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
    Unseen::new()
}

/// Through each memory type that serves buffers: written by the host where it sees that type, copied by crops of the source, and read.
fn bytes(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    const BYTES: usize = 10_000;
    const OTHER: u8 = 0xee;
    let pattern = |at: usize| (at * 7 % 251) as u8;
    let whole = BufferInfo::new(BYTES as u64, COPIED);
    let special = PropertyFlags::LAZILY_ALLOCATED
        | PropertyFlags::PROTECTED
        | PropertyFlags::DEVICE_COHERENT_AMD;
    let filled = |region: &Region, byte: &dyn Fn(usize) -> u8| {
        let mapping = gpu.map(region).unwrap();
        // SAFETY: mapped, so many bytes, and nobody else looks at them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.as_ptr(), BYTES) };
        (0..BYTES).for_each(|at| bytes[at] = byte(at));
        gpu.flush(region, 0, u64::MAX).unwrap();
    };
    let (mut unseen, mut served) = (vec!["non-coherent"], 0);
    for (memory_type, kind) in gpu.device().properties().types.iter().enumerate() {
        let of_type = |options: RegionOptions<'static>| options.memory_type_bits(1 << memory_type);
        if !(kind.properties & special).is_empty() {
            continue;
        }
        let Ok(middle) = gpu.create_buffer(&whole, &of_type(ANY)) else {
            continue;
        };
        served += 1;
        let is_visible = kind.properties.contains(PropertyFlags::HOST_VISIBLE);
        let host = if is_visible {
            of_type(VISIBLE)
        } else {
            VISIBLE
        };
        if is_visible && !kind.properties.contains(PropertyFlags::HOST_COHERENT) {
            unseen.clear();
        }
        let [source, target] = [(); 2].map(|()| gpu.create_buffer(&whole, &host).unwrap());
        filled(&source, &pattern);
        filled(&target, &|_| OTHER);
        let one = gpu.crop(&source, 4, 9000, 4).unwrap();
        let two = gpu.crop(&one, 48, 4000, 4).unwrap();
        let place = |region: &Region, offset| {
            let buffer = region.buffer().expect("it has a buffer");
            (buffer, region.copy_offset() + offset)
        };
        let ways = [
            (place(&two, 0), place(&middle, 100)),
            (place(&middle, 100), place(&target, 8)),
        ];
        live.copy(&ways.map(|((from, start), (to, end))| (from, start, to, end, 4000)));
        let got = gpu.map(&target).unwrap();
        gpu.invalidate(&target, 0, u64::MAX).unwrap();
        // SAFETY: as above; the device is through.
        let seen = unsafe { std::slice::from_raw_parts(got.as_ptr(), BYTES) };
        let expected = |at| match at {
            8..4008 => pattern(at - 8 + 52),
            _ => OTHER,
        };
        let same = (0..BYTES).all(|at| seen[at] == expected(at));
        assert!(same, "memory type {memory_type}");
        drop(got);
        free(gpu, [two, one, source, target, middle]);
    }
    assert!(served > 0, "no memory type serves a buffer");
    unseen
}

fn old(live: &Live, _: &Gpu<'_>) -> Unseen {
    let witness = RecordingAllocator::system();
    let gpu = over(live, AshOptions::new(vk::API_VERSION_1_0), &witness);
    let told = gpu.device().properties();
    assert_eq!(
        (
            told.limits.max_memory_allocation_size,
            told.features.dedicated_allocation
        ),
        (u64::MAX, false)
    );
    let unseen = bytes(live, &gpu);
    assert!(gpu.close().is_ok());
    unseen
}

fn requests(_: &Live, gpu: &Gpu<'_>) -> Unseen {
    let features = gpu.device().properties().features;
    let own = ANY.dedicated(DedicatedPolicy::Required);
    let info = BufferInfo::new(100_000, COPIED);
    let image = ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED | ImageUsage::TRANSFER_DST);
    let mut unseen = Unseen::new();
    let mut made = vec![
        gpu.create_buffer(&info, &own),
        gpu.create_image(&image, &own),
        gpu.create_image(&image, &ANY.dedicated(DedicatedPolicy::Never)),
    ];
    if features.memory_priority {
        made.push(gpu.create_buffer(&info, &own.priority(0.75)));
    } else {
        unseen.push("priority");
    }
    if features.external_memory {
        let external = ExternalHandleTypes::OPAQUE_FD;
        let info = BufferInfo { external, ..info };
        made.push(gpu.create_buffer(&info, &ANY.export(external)));
    } else {
        unseen.push("export");
    }
    free(gpu, made.into_iter().map(|made| made.unwrap()));
    unseen
}

fn addresses(_: &Live, gpu: &Gpu<'_>) -> Unseen {
    let device = gpu.device();
    if !device.properties().features.buffer_device_address {
        return vec!["device address"];
    }
    let info = BufferInfo::new(4096, COPIED | BufferUsage::SHADER_DEVICE_ADDRESS);
    let regions = [(); 2].map(|()| gpu.create_buffer(&info, &ANY).unwrap());
    let [one, two] = regions.each_ref().map(|region| {
        let buffer = region.buffer().unwrap();
        // SAFETY: a live buffer, bound to memory with addresses.
        let address = unsafe { device.buffer_address(buffer) };
        address.unwrap().get().wrapping_sub(region.offset())
    });
    assert_eq!(one, two, "addresses are as far apart as offsets");
    free(gpu, regions);
    Unseen::new()
}

fn maps(_: &Live, gpu: &Gpu<'_>) -> Unseen {
    const BYTES: usize = 1000;
    let one = ResourceRequirements::new(BYTES as u64, 16);
    let regions = [(); 2].map(|()| gpu.allocate(&one, &VISIBLE).unwrap());
    assert_eq!(regions[0].memory(), regions[1].memory(), "one block");
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for (number, region) in (1u8..).zip(&regions) {
            let barrier = &barrier;
            scope.spawn(move || {
                for turn in 0..50u8 {
                    let mapping = gpu.map(region).unwrap();
                    barrier.wait();
                    // SAFETY: mapped, so many bytes, and of this thread's region alone.
                    unsafe { mapping.as_ptr().write_bytes(number ^ turn, BYTES) };
                    barrier.wait();
                    let last = mapping.as_ptr().wrapping_add(BYTES - 1);
                    // SAFETY: the last of them.
                    assert_eq!(unsafe { last.read() }, number ^ turn);
                }
            });
        }
    });
    free(gpu, regions);
    Unseen::new()
}

fn budget(_: &Live, gpu: &Gpu<'_>) -> Unseen {
    let device = gpu.device().properties();
    let mut told = [HeapBudget::default(); 16];
    let answers = gpu.device().budget(&mut told);
    assert_eq!(answers, device.features.memory_budget);
    assert_eq!(gpu.set_frame(1), answers);
    if !answers {
        return vec!["budget"];
    }
    for (heap, told) in device.heaps.iter().zip(&told) {
        let is_some = told.budget > 0 && told.budget <= heap.size;
        assert!(is_some, "{told:?} of {heap:?}");
    }
    let own = device.heaps.iter().enumerate();
    let own = own.filter(|(_, heap)| heap.flags.contains(HeapFlags::DEVICE_LOCAL));
    let (heap, described) = own.max_by_key(|(_, heap)| heap.size).unwrap();
    let left = told[heap].budget.saturating_sub(told[heap].usage);
    let bits = (0u32..).zip(device.types).fold(0, |bits, (index, kind)| {
        bits | u32::from(kind.heap_index as usize == heap) << index
    });
    let size = (described.size / 20).min(device.limits.max_memory_allocation_size) & !0xffff;
    let needs = ResourceRequirements::new(size, 256).memory_types(bits);
    let options = ANY.dedicated(DedicatedPolicy::Required).within_budget();
    let mut regions = Vec::new();
    let error = loop {
        match gpu.allocate(&needs, &options) {
            Ok(region) => regions.push(region),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, GpuError::Limit(Limit::Budget { heap: of, .. }) if of as usize == heap),
        "{error:?}"
    );
    let taken = regions.len() as u64 * size;
    assert!(
        taken <= left && taken + size > left / 2,
        "{taken} of {left}"
    );
    free(gpu, regions);
    Unseen::new()
}

/// An image with a structure behind its create info, which the allocator cannot make; regions with alignments of their own beside it, and
/// lazily allocated memory where there is some.
fn own_image(live: &Live, gpu: &Gpu<'_>) -> Unseen {
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
    // SAFETY: see above.
    let image = unsafe { live.device.create_image(&info, None) }.unwrap();
    let ours = ImageHandle::try_from(image).unwrap();
    // SAFETY: see above.
    let needs = unsafe { gpu.device().image_requirements(ours) };
    let named = RegionOptions::new().dedicated_for(ResourceHandle::Image(ours));
    let region = gpu.allocate(&needs, &named).unwrap();
    assert_eq!((region.size(), region.offset()), (needs.size, 0));
    let memory = region.memory().unwrap();
    // SAFETY: see above.
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
    // SAFETY: see above.
    unsafe { live.device.destroy_image(image, None) };
    gpu.free(region).unwrap();
    Unseen::new()
}

fn soft(_: &Live, gpu: &Gpu<'_>) -> Unseen {
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
    Unseen::new()
}

fn import(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    if let Err(lacks) = imported(live, gpu) {
        println!("  it lacks {lacks}");
    }
    Unseen::new()
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
        .filter(|(_, heap)| heap.flags.contains(HeapFlags::DEVICE_LOCAL));
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
        // SAFETY: see above.
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
        // SAFETY: see above.
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
fn refused(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    let (device, started) = (gpu.device(), std::time::Instant::now());
    let first = fill(device);
    let between = mapped();
    let again = fill(device);
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
    Unseen::new()
}

/// The application's callbacks say no: the driver must say that host memory ran out, and its object is not there.
fn refused_by_callbacks(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    let device = gpu.device();
    let before = live_blocks();
    refuse(Some(0));
    // SAFETY: see above.
    let answer = unsafe { device.create_buffer(&BufferInfo::new(4096, COPIED)) };
    let asked = live::requests();
    refuse(None);
    if asked == 0 {
        // SAFETY: see above.
        unsafe { device.destroy_buffer(answer.expect("nothing was refused")) };
        let reason = "the driver asks for no host memory here";
        testkit::skip("lavapipe", "a_refusal_of_host_memory_is_told", reason);
        return Unseen::new();
    }
    assert_eq!(
        (answer, live_blocks()),
        (Err(DeviceError::OutOfHostMemory), before)
    );
    bytes(live, gpu)
}
