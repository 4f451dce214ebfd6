//! An allocator over a real device, and what the device says of itself. Each case has an allocator of its own, and says
//! what the device gives no chance to show.

use crate::*;

use crate::live::{self, Live, live_blocks};

type Gpu<'w> = GpuAllocator<AshDevice, &'w RecordingAllocator>;
type Unseen = Vec<&'static str>;
type Case = fn(&Live, &Gpu<'_>) -> Unseen;

const CASES: &[(&str, Case)] = &[
    ("bytes_go_through_every_memory_type_and_back", bytes),
    ("vulkan_1_0_is_enough", old),
    ("buffers_of_one_block_have_addresses_of_their_own", addresses),
    ("a_budget_is_told_and_not_exceeded", budget),
    ("u101_an_image_of_the_programs_own_is_named", own_image),
];

/// What lavapipe gives no chance to show: one coherent memory type in one heap, no budget.
const LAVAPIPE: [&str; 2] = ["budget", "non-coherent"];

const ANY: RegionOptions<'static> = RegionOptions::new();
const VISIBLE: RegionOptions<'static> = ANY.preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE));
const COPIED: BufferUsage =
    BufferUsage::from_raw(BufferUsage::TRANSFER_SRC.as_raw() | BufferUsage::TRANSFER_DST.as_raw());

pub fn run() {
    let ran = live::run(CASES, |case, live| {
        let witness = RecordingAllocator::system();
        let options = AshOptions { callbacks: Some(live::CALLBACKS), ..live.options };
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
/// Through each memory type that serves buffers: written by the host where it sees that type, copied by crops of the
/// source, and read.
fn bytes(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    const BYTES: usize = 10_000;
    const OTHER: u8 = 0xee;
    let pattern = |at: usize| (at * 7 % 251) as u8;
    let whole = BufferInfo::new(BYTES as u64, COPIED);
    let special = PropertyFlags::LAZILY_ALLOCATED | PropertyFlags::PROTECTED | PropertyFlags::DEVICE_COHERENT_AMD;
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
        let host = if is_visible { of_type(VISIBLE) } else { VISIBLE };
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
        let ways = [(place(&two, 0), place(&middle, 100)), (place(&middle, 100), place(&target, 8))];
        live.copy(&ways.map(|((from, start), (to, end))| (from, start, to, end, 4000)));
        let got = gpu.map(&target).unwrap();
        gpu.invalidate(&target, 0, u64::MAX).unwrap();
        // SAFETY: mapped, and as long as that; the device is through.
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
    assert_eq!((told.limits.max_memory_allocation_size, told.features.dedicated_allocation), (u64::MAX, false));
    let unseen = bytes(live, &gpu);
    assert!(gpu.close().is_ok());
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
    let bits = (0u32..)
        .zip(device.types)
        .fold(0, |bits, (index, kind)| bits | u32::from(kind.heap_index as usize == heap) << index);
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
    assert!(matches!(error, GpuError::Limit(Limit::Budget { heap: of, .. }) if of as usize == heap), "{error:?}");
    let taken = regions.len() as u64 * size;
    assert!(taken <= left && taken + size > left / 2, "{taken} of {left}");
    free(gpu, regions);
    Unseen::new()
}

/// An image with a structure behind its create info, which the allocator cannot make.
fn own_image(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    let formats = [vk::Format::R8G8B8A8_UNORM, vk::Format::R8G8B8A8_SRGB];
    let mut list = vk::ImageFormatListCreateInfo::default().view_formats(&formats);
    let mut info = vk::ImageCreateInfo::default()
        .flags(vk::ImageCreateFlags::MUTABLE_FORMAT)
        .image_type(vk::ImageType::TYPE_2D)
        .format(formats[0])
        .extent(vk::Extent3D { width: 96, height: 64, depth: 1 })
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
    // SAFETY: see above.
    unsafe { live.device.destroy_image(image, None) };
    gpu.free(region).unwrap();
    Unseen::new()
}
