//! What an allocator tells of itself, against what the mock device knows: totals, pictures, leaks, JSON, plans of
//! moves.

use crate::regions::{Gpu, Mock, everywhere, with_memory};
use crate::*;

/// On each profile, with small blocks, so that there are several.
fn on_every_profile(body: impl Fn(&Mock, &Gpu<'_>)) {
    let memory = MemoryOptions { first_block: Some(1 << 20), ..MemoryOptions::default() };
    everywhere(with_memory(memory), |s| body(s.mock, s.gpu));
}

fn wrapped(mock: &Mock, size: u64) -> BufferHandle {
    use gpu_suballoc::DeviceMemory as _;
    // SAFETY: a mock; what is wrong it says.
    unsafe { mock.create_buffer(&BufferInfo::new(size, COPIED)) }.unwrap()
}

/// Something of everything, by name.
fn everything(mock: &Mock, gpu: &Gpu<'_>) -> (Vec<Region>, BufferHandle, PoolId) {
    let named = |name: &'static str| RegionOptions::new().name(name).tag(7).site(0xabc);
    let buffer = |name, size, lifetime| {
        gpu.create_buffer(&BufferInfo::new(size, COPIED), &named(name).lifetime(lifetime)).unwrap()
    };
    let general = buffer("general", 100_000, Unknown);
    let inner = gpu.crop(&general, 1004, 50_000, 4).unwrap();
    let mut all = vec![
        gpu.crop(&inner, 36, 1000, 4).unwrap(),
        inner,
        general,
        buffer("transient", 4097, Transient),
        buffer("lasting", 1000, Persistent),
        gpu.create_buffer(&BufferInfo::new(4 << 20, COPIED), &RegionOptions { dedicated: Required, ..named("large") })
            .unwrap(),
        gpu.allocate(&ResourceRequirements::new(777, 1), &RegionOptions::new()).unwrap(),
        gpu.create_image(&ImageInfo::new_2d(37, 64, 64, ImageUsage::SAMPLED), &named("image")).unwrap(),
    ];
    let pool = gpu.create_pool(&PoolOptions::new(0)).unwrap();
    all.push(gpu.allocate(&ResourceRequirements::new(1000, 16), &named("mine").pool(pool)).unwrap());
    let kept = gpu.create_buffer(&BufferInfo::new(3000, COPIED), &named("kept")).unwrap();
    gpu.release(kept).expect("it is nobody's");
    let own = wrapped(mock, 10_000);
    let info = WrapInfo { buffer_size: Some(10_000), ..WrapInfo::new(own, 5000) };
    all.insert(0, gpu.wrap(&info.offset(12).name("wrapped")).unwrap());
    (all, own, pool)
}

fn give_back(mock: &Mock, gpu: &Gpu<'_>, (regions, own, pool): (Vec<Region>, BufferHandle, PoolId)) {
    use gpu_suballoc::DeviceMemory as _;
    regions.into_iter().for_each(|region| gpu.free(region).unwrap());
    gpu.destroy_pool(pool).unwrap();
    assert_eq!(gpu.pool_stats(pool), refusal(NoSuchPool));
    gpu.trim(u64::MAX);
    // SAFETY: the allocator has forgotten it.
    unsafe { mock.destroy_buffer(own) };
}

fn regions<'p>(picture: &'p MemoryMap<'_>) -> impl Iterator<Item = (&'p RangeView, BlockContent)> {
    let of = |(block, ranges): (&'p BlockView, &'p [RangeView])| ranges.iter().map(move |range| (range, block.content));
    picture.blocks_with_ranges().flat_map(of).filter(|(range, _)| range.range_use == RangeUse::Region)
}

#[test]
fn h114_a_picture_says_what_stats_and_device_say() {
    on_every_profile(|mock, gpu| {
        let mut all = everything(mock, gpu);
        let of_type = |index: usize| {
            // No whole granules: an object of its own has as many bytes.
            let needs = ResourceRequirements::new(5100, 256).memory_types(1 << index);
            gpu.allocate(&needs, &RegionOptions::new().dedicated(Required)).ok()
        };
        let types = mock.config().properties().types.len();
        all.0.extend((0..types).filter_map(of_type));
        let (stats, picture) = (gpu.stats(), gpu.memory_map().unwrap());
        let live = mock.live_counts();
        assert_eq!((stats.total.blocks, stats.total.block_bytes), (live.memory, live.bytes));
        let sum = |of: &[MemoryTotals]| {
            of.iter().fold((0, 0, 0), |sum, each| (sum.0 + each.blocks, sum.1 + each.block_bytes, sum.2 + each.regions))
        };
        let total = (stats.total.blocks, stats.total.block_bytes, stats.total.regions);
        assert_eq!((sum(&stats.types), sum(&stats.heaps)), (total, total));
        let drawn = |index: usize| {
            let blocks = picture.blocks_with_ranges();
            let of_type = blocks.filter(move |(block, _)| {
                block.content != BlockContent::Wrapped && block.memory_type == Some(index as u32)
            });
            of_type.fold((0, 0, 0), |sum, (block, ranges)| {
                let used =
                    ranges.iter().filter(|range| matches!(range.range_use, RangeUse::Region | RangeUse::Reusable));
                (
                    sum.0 + block.size,
                    sum.1 + used.clone().count() as u64,
                    sum.2 + used.map(|range| range.size).sum::<u64>(),
                )
            })
        };
        for (index, of_type) in stats.types.iter().enumerate() {
            assert_eq!((of_type.block_bytes, of_type.regions, of_type.region_bytes), drawn(index), "type {index}");
        }
        for (index, of_heap) in stats.heaps.iter().enumerate() {
            assert_eq!(of_heap.block_bytes, mock.heap(index), "heap {index}");
        }
        let of_pool = picture.blocks().iter().filter(|block| block.is_custom);
        let told = gpu.pool_stats(all.2).map(|totals| (totals.blocks, totals.block_bytes, totals.regions));
        assert_eq!(told, Ok((1, of_pool.map(|block| block.size).sum(), 1)));
        assert!(gpu.host_bytes() > stats.host_bytes, "the picture lies in the allocator's memory");

        let found: BTreeSet<_> = regions(&picture).filter_map(|(range, _)| picture.name(range)).collect();
        assert_eq!(found, ["general", "image", "large", "lasting", "mine", "transient", "wrapped"].into());
        let by_name = |name| regions(&picture).find(|(range, _)| picture.name(range) == Some(name)).unwrap();
        let placement = |name| by_name(name).0.placement;
        assert_eq!((placement("wrapped"), by_name("wrapped").1), (RangePlacement::Wrapped, BlockContent::Wrapped));
        assert_eq!((placement("large"), by_name("large").1), (RangePlacement::Dedicated, BlockContent::Dedicated));
        let (general, _) = by_name("general");
        assert_eq!((general.crops, general.tag, general.site, general.usage), (2, 7, 0xabc, COPIED.as_raw().into()));
        assert_eq!(
            (general.resource, by_name("image").0.resource),
            (RegionResource::Buffer, RegionResource::ImageOptimal)
        );
        assert!(general.size - general.padding == 100_000 && by_name("lasting").0.padding >= 24, "{general:?}");
        let id = general.id.expect("a region");
        let crops = Vec::from_iter(
            picture
                .crops()
                .iter()
                .filter(|crop| crop.root == Some(id))
                .map(|crop| (crop.root == Some(id), crop.offset, crop.size)),
        );
        assert_eq!(crops, [(true, 1004, 50_000), (true, 1040, 1000)], "a crop of a crop points at the root");
        assert_eq!((stats.total.wrapped, stats.total.wrapped_bytes, stats.total.crops), (1, 5000, 2));
        let kept = picture
            .blocks_with_ranges()
            .flat_map(|(_, ranges)| ranges)
            .filter(|range| range.range_use == RangeUse::Reusable);
        assert_eq!(kept.map(|range| range.size - range.padding).collect::<Vec<_>>(), [3000]);
        drop(picture);
        assert_eq!(gpu.host_bytes(), stats.host_bytes);
        give_back(mock, gpu, all);
        assert_eq!(gpu.stats().total, MemoryTotals::default());
        assert!(gpu.memory_map().unwrap().blocks().is_empty());
    });
}

/// Totals, the leaks and VMA's JSON of one device read as in `reports.txt`.
#[test]
fn h97_reports_read_as_they_did() {
    let mock = Mock::new(IntelUma);
    let host = RecordingAllocator::system();
    let gpu = over(&mock, host);
    let all = everything(&mock, &gpu);
    let picture = gpu.memory_map().unwrap();
    let mut json = String::new();
    gpu.write_json(&picture, &mut json).unwrap();
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
    let leaks: String = picture.leaks().map(|leak| format!("{leak}\n")).collect();
    let text = format!("{}\n{leaks}\n{json}\n", gpu.stats());
    // What differs from one process, or one build, to the next.
    let tag = format!("{:08x}/", all.0[0].id().tag());
    let is_host = |word: &str| word.contains("HostBytes") || word.starts_with("host memory");
    let same = |line: &str| {
        let parts = line.replace(&tag, "TAG/");
        let parts = parts.split_inclusive([',', ';']);
        parts.filter(|part| !is_host(part.trim())).collect::<String>() + "\n"
    };
    let mut text: String = text.lines().map(same).collect();
    for (number, block) in picture.blocks().iter().enumerate() {
        let handle = format!("memory {:#x}", block.memory);
        text = text.replace(&handle, &format!("memory #{number}"));
    }
    drop(picture);
    give_back(&mock, &gpu, all);
    end(gpu);
    assert!(text == include_str!("reports.txt"), "{text}");
}
