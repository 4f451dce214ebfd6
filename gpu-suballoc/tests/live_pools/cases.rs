//! Each case has an allocator of its own, and says what the device gives no chance to show.

use std::sync::Barrier;

use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::device::{ExternalHandleTypes, HeapBudget};
use gpu_suballoc::error::Limit;
use gpu_suballoc::request::DedicatedPolicy;
use gpu_suballoc::{
    AllocatorOptions, AshDevice, BufferInfo, BufferUsage, DeviceMemory, GpuAllocator, GpuError,
    ImageInfo, ImageUsage, MemoryPreference, PropertyFlags, Region, RegionOptions,
    ResourceRequirements,
};
use testkit::RecordingAllocator;

use crate::live::{self, Live};

type Gpu<'w> = GpuAllocator<AshDevice, &'w RecordingAllocator>;
type Unseen = Vec<&'static str>;

type Case = fn(&Live, &Gpu<'_>) -> Unseen;

const CASES: &[(&str, Case)] = &[
    ("dedicated_priority_export_go_through", requests),
    (
        "buffers_of_one_block_have_addresses_of_their_own",
        addresses,
    ),
    ("two_threads_map_two_regions_of_one_block", maps),
    ("bytes_go_through_regions_and_crops_on_the_queue", bytes),
    ("a_budget_is_not_exceeded", budget),
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
        let device = live.ash(AshOptions {
            callbacks: Some(live::CALLBACKS),
            ..live.options
        });
        // SAFETY: the device outlives the allocator, infos are valid, and nothing runs on it when a region is freed.
        let gpu = unsafe { GpuAllocator::new(device, &witness, AllocatorOptions::default()) };
        let gpu = gpu.map_err(|refused| refused.error).unwrap();
        let unseen = case(live, &gpu);
        let closed = gpu.close().map(drop).map_err(|refused| refused.error);
        assert_eq!(closed, Ok(()), "everything was freed");
        witness.assert_empty("after the allocator was closed");
        assert_eq!(live::live_blocks(), 0, "the driver holds host memory");
        (live.is_lavapipe(), unseen)
    });
    let mut unseen: Unseen = ran.iter().flat_map(|(_, unseen)| unseen).copied().collect();
    unseen.sort_unstable();
    println!("what the driver cannot exercise: {unseen:?}");
    if ran.len() == CASES.len() && ran[0].0 {
        assert_eq!(unseen, LAVAPIPE);
        assert!(live::taken_blocks() > 0, "lavapipe asks the callbacks");
    }
}

fn free(gpu: &Gpu<'_>, regions: impl IntoIterator<Item = Region>) {
    for region in regions {
        gpu.free(region).unwrap();
    }
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

fn bytes(live: &Live, gpu: &Gpu<'_>) -> Unseen {
    const BYTES: usize = 10_000;
    let pattern = |at: usize| (at * 7 % 251) as u8;
    let whole = BufferInfo::new(BYTES as u64, COPIED);
    let deep = MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL)
        .avoiding(PropertyFlags::HOST_VISIBLE);
    let mut unseen = vec!["non-coherent"];
    for (memory_type, kind) in gpu.device().properties().types.iter().enumerate() {
        let options = VISIBLE.memory_type_bits(1 << memory_type);
        let Ok(source) = gpu.create_buffer(&whole, &options) else {
            continue;
        };
        if !kind.properties.contains(PropertyFlags::HOST_COHERENT) {
            unseen.clear();
        }
        let target = gpu.create_buffer(&whole, &options).unwrap();
        let middle = gpu.create_buffer(&whole, &ANY.preference(deep));
        let middle = middle.unwrap();
        let put = gpu.map(&source).unwrap();
        // SAFETY: mapped, so many bytes, and nobody else looks at them.
        let put_bytes = unsafe { std::slice::from_raw_parts_mut(put.as_ptr(), BYTES) };
        (0..BYTES).for_each(|at| put_bytes[at] = pattern(at));
        gpu.flush(&source, 0, u64::MAX).unwrap();
        drop(put);
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
        let same = (0..4000).all(|at| seen[8 + at] == pattern(52 + at));
        assert!(same, "memory type {memory_type}");
        drop(got);
        free(gpu, [two, one, source, target, middle]);
    }
    unseen
}

fn budget(_: &Live, gpu: &Gpu<'_>) -> Unseen {
    let device = gpu.device().properties();
    let mut told = [HeapBudget::default(); 16];
    let answers = gpu.device().budget(&mut told);
    assert_eq!(gpu.set_frame(1), answers);
    if !answers {
        return vec!["budget"];
    }
    let own = device.heaps.iter().enumerate();
    let own = own.filter(|(_, heap)| heap.is_device_local());
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
        matches!(error, GpuError::Limit(Limit::Heap { heap: of, .. }) if of as usize == heap),
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
