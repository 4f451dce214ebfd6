//! Allocators and their regions.

use super::*;

use super::asks::Ask;
use super::asks::needs;
use super::asks::seen;
use super::asks::visible;
use super::asks::whole;

pub type Mock = MockDevice;
pub type Over<'s, S> = GpuAllocator<&'s Mock, &'s <S as Stage>::Host>;

fn new<'s, S: Stage>(stage: &'s S, mock: &'s Mock, options: AllocatorOptions) -> Result<Over<'s, S>, GpuError> {
    // SAFETY: what is asked here is valid.
    unsafe { GpuAllocator::new(mock, stage.host(), options) }.map_err(|refused| refused.error)
}

/// Everything back, and nothing wrong.
fn end<S: Stage>(allocator: Over<'_, S>) {
    let (mock, _) = allocator.close().map_err(|refused| refused.error).unwrap();
    mock.assert_ended();
}

/// Runs `run` with an allocator over a device, of which everything is given back.
pub fn over<S: Stage>(stage: &S, run: impl FnOnce(&Mock, &Over<'_, S>)) {
    let mock = MockDevice::new(MockProfile::IntelUma);
    let allocator = new(stage, &mock, AllocatorOptions::default()).unwrap();
    run(&mock, &allocator);
    end::<S>(allocator);
}

/// Each way to ask for something, of an allocator that has a buffer and nothing more.
pub fn asks<S: Stage>() -> impl Iterator<Item = GpuOperation<S>> {
    let each = |(number, ask): (usize, Ask<&'static Mock, &'static S::Host>)| {
        let takes = match ask.name {
            "map" => MemoryUse::Nothing("a region's slot is made with it"),
            _ => MemoryUse::Memory,
        };
        GpuOperation { number, ..operation(ask.name, ask.calls, takes, run_ask) }
    };
    asks::asks().into_iter().enumerate().map(each)
}

fn run_ask<S: Stage>(stage: &S, number: usize) {
    over(stage, |_, allocator| {
        let ask = &asks::asks()[number];
        let buffer = ask.buffer(allocator);
        stage.attempt(|| seen(allocator), || ask.run(allocator, &buffer)).free(allocator);
        if let Some(buffer) = buffer {
            allocator.free(buffer).expect("nothing holds it any more");
        }
    });
}

pub const CALLS: &str = "GpuAllocator::new GpuAllocator::close GpuAllocator::abandon GpuAllocator::free_all GpuAllocator::device \
    GpuAllocator::host_bytes GpuAllocator::check_corruption";

pub fn allocator<S: Stage>(stage: &S, _: usize) {
    let mock = MockDevice::new(MockProfile::IntelUma);
    let mut options = AllocatorOptions::default();
    options.memory.margin = 16;
    let allocator = stage.attempt(|| mock.live_counts(), || new(stage, &mock, options));
    assert!(allocator.host_bytes() == 0 && allocator.device().live_counts().memory == 0);
    let region = allocator.allocate(&needs(500), &visible()).unwrap();
    assert!(allocator.host_bytes() > 0);
    let checked = stage.attempt(|| allocator.stats().total, || allocator.check_corruption(|_| ()));
    assert_eq!(checked, 1);
    allocator.free(region).expect("nobody wrote there");
    end::<S>(allocator);
    // Whatever lives.
    let allocator = new(stage, &mock, options).unwrap();
    let _left = allocator.allocate(&needs(256), &RegionOptions::new()).expect("refused nothing");
    stage.attempt_without_memory({
        let mut allocator = Some(allocator);
        move || assert!(allocator.take().map(GpuAllocator::free_all).is_some())
    });
    assert_eq!(mock.live_counts().memory, 0, "all memory is freed");
    // A lost device is not called.
    let allocator = new(stage, &mock, options).unwrap();
    let _left = allocator.allocate(&needs(256), &RegionOptions::new()).expect("refused nothing");
    mock.lose_device();
    let calls = mock.all_calls();
    stage.attempt_without_memory({
        let mut allocator = Some(allocator);
        move || assert!(allocator.take().map(GpuAllocator::abandon).is_some())
    });
    assert_eq!(mock.all_calls(), calls, "an abandoned device is not called");
}

pub const REGION_CALLS: &str = "GpuAllocator::commitment GpuAllocator::crop_id GpuAllocator::descriptor GpuAllocator::detach \
    GpuAllocator::flush_id GpuAllocator::free GpuAllocator::free_id GpuAllocator::free_id_when_unused \
    GpuAllocator::free_when_unused GpuAllocator::heap_budget GpuAllocator::id_of_key GpuAllocator::info \
    GpuAllocator::invalidate_id GpuAllocator::map_id GpuAllocator::pool_stats GpuAllocator::release \
    GpuAllocator::release_id GpuAllocator::set_frame GpuAllocator::set_reuse GpuAllocator::stats \
    GpuAllocator::trim GpuAllocator::unmap_id GpuAllocator::write_json MemoryMap::blocks \
    MemoryMap::blocks_with_ranges MemoryMap::crops MemoryMap::leaks MemoryMap::name RegionInfo::crops \
    RegionInfo::mapped RegionInfo::maps RegionInfo::name RegionInfo::site RegionInfo::tag RegionLeak::size";

pub fn regions<S: Stage>(stage: &S, _: usize) {
    over(stage, |mock, gpu| {
        let any = RegionOptions::new();
        let [buffer, kept] = [(); 2].map(|()| whole(gpu));
        let take = |options: &RegionOptions<'_>| gpu.allocate(&needs(500), options).expect("refused nothing");
        let [bare, named] = [take(&any), take(&any.name("its name"))];
        let dedicated = take(&any.dedicated(DedicatedPolicy::Required));
        let crop = gpu.crop_id(buffer.id(), 4, 16, 4).unwrap();
        let deeper = gpu.crop(&crop, 4, 8, 4).unwrap();
        let pools = [(); 2].map(|()| gpu.create_pool(&PoolOptions::new(1)).expect("refused nothing"));
        let pooled = take(&any.pool(pools[0]));
        let memory = buffer.memory().unwrap();
        let memory_size = mock.memory(memory).unwrap().request.size;
        let backing =
            Backing { memory, offset: buffer.offset(), memory_size, properties: PropertyFlags::NONE, mapped: None };
        let wrap = WrapInfo::new(buffer.buffer(), 64).backing(backing).buffer_size(64).tag(1);
        let wrapped = gpu.wrap(&wrap).expect("refused nothing");
        let picture = gpu.memory_map().expect("refused nothing");
        let handle = kept.buffer();
        // Each goes once.
        let mut all = [bare, named, dedicated, deeper, crop, pooled, buffer].map(Some);
        let (mut kept, mut wrapped) = (Some(kept), Some(wrapped));
        stage.attempt_plainly(|| {
            for region in all.iter().flatten() {
                let id = gpu.id_of_key(region.id().slot_key());
                let info = gpu.info(id).unwrap();
                assert_eq!(info.mapped(), region.mapped());
                let place = (region.memory(), region.memory_type(), region.offset(), region.size());
                assert_eq!((info.memory, info.memory_type, info.offset, info.size), place);
                assert_eq!((info.ownership, info.tag(), info.site(), info.maps()), (region.ownership(), 0, 0, 0));
            }
            let [bare, named, .., buffer] = all.each_ref().map(|region| region.as_ref().unwrap());
            assert_eq!(gpu.info(named.id()).map(|info| info.name() == "its name"), Ok(true));
            assert_eq!(gpu.info(buffer.id()).map(|info| info.crops()), Ok(2));
            assert_eq!(gpu.stats().total.crops, 2);
            assert_eq!(gpu.pool_stats(pools[1]), Ok(MemoryTotals::default()));
            // The picture.
            let mut ranges = picture.blocks_with_ranges().flat_map(|(_, ranges)| ranges);
            let range = ranges.find(|range| range.id == Some(named.id())).expect("drawn");
            assert_eq!((picture.name(range), picture.crops().len()), (Some("its name"), 2));
            assert_eq!(picture.crops().len(), 2);
            assert!(picture.leaks().all(|leak| leak.size() > 0) && picture.blocks().len() > 2);
            let mut sink = Sink::default();
            gpu.write_json(&picture, &mut sink).expect("the sink takes all");
            assert!(sink.bytes > 100);
            // The host's side.
            let id = buffer.id();
            gpu.map_id(id).unwrap();
            gpu.flush_id(id, 0, 8).unwrap();
            gpu.invalidate_id(id, 0, 8).unwrap();
            gpu.unmap_id(id).unwrap();
            assert_eq!(gpu.descriptor(buffer, 4, DescriptorUse::Storage).map(|found| found.index), Ok(0));
            gpu.set_frame(1);
            assert!(gpu.heap_budget(0).is_some());
            assert_eq!(gpu.commitment(id), Ok(None));
            // Every end.
            gpu.detach(wrapped.take().expect("once")).unwrap();
            assert_eq!(gpu.destroy_pool(pools[0]), Err(GpuMisuse::PoolInUse.into()));
            gpu.destroy_pool(pools[1]).unwrap();
            // A refused end of a pool lets go what is kept.
            gpu.release(kept.take().expect("once")).unwrap();
            let bare = bare.id();
            gpu.free_id(bare).unwrap();
            assert_eq!(gpu.free_id(bare), Err(GpuMisuse::Stale.into()));
            assert_eq!(gpu.free_id_when_unused(bare), Err(GpuMisuse::Stale.into()));
            all[0] = None;
            let mut take = |index: usize| all[index].take().expect("once");
            gpu.free(take(1)).unwrap();
            gpu.free_when_unused(take(6)).expect("its crops keep it");
            gpu.free_batch(&mut all).unwrap();
        });
        drop(picture);
        // The next buffer of that size is the one kept.
        let next = whole(gpu);
        assert_eq!(next.buffer(), handle);
        gpu.release_id(next.id()).unwrap();
        stage.attempt_plainly(|| {
            gpu.set_reuse(false);
            assert!(gpu.trim(u64::MAX) > 0);
        });
        gpu.destroy_pool(pools[0]).unwrap();
    });
}
