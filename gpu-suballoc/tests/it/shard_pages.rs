//! A shard's pages and slabs are the allocator's own: nobody is shown them, nobody's id reaches them. Runs under miri.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use alloc_core::FromGlobalAlloc;
use gpu_suballoc::mock::{MockDevice, MockProfile};
use gpu_suballoc::report::{RangePlacement, RangeUse, RegionLeakKind};
use gpu_suballoc::{
    AllocatorOptions, GpuAllocator, GpuMisuse, Lifetime, MemoryPreference, PropertyFlags, Region,
    RegionId, RegionOptions, ResourceRequirements,
};

type Host = FromGlobalAlloc<std::alloc::System>;
type Mock = MockDevice<Host>;
type Allocator<'m> = GpuAllocator<&'m Mock, Host>;

const LIFETIMES: [Lifetime; 2] = [Lifetime::Transient, Lifetime::Persistent];
const STALE: gpu_suballoc::GpuError = gpu_suballoc::GpuError::Misuse(GpuMisuse::Stale);

/// No empty block stays: what is given back by mistake is with the driver at once.
fn allocator(mock: &Mock) -> Allocator<'_> {
    let mut options = AllocatorOptions::default();
    options.memory.keep_empty = Some(0);
    options.memory.first_block = Some(4 << 20);
    // SAFETY: nothing is described to a mock that it does not have.
    unsafe { GpuAllocator::new(mock, FromGlobalAlloc::SYSTEM, options) }
        .unwrap_or_else(|refused| panic!("{refused}"))
}

fn close(allocator: Allocator<'_>, mock: &Mock) {
    allocator
        .close()
        .map_err(|refused| refused.error)
        .expect("everything was given back");
    assert!(mock.violations().is_empty(), "{}", mock.violations());
    assert_eq!(mock.live_counts().memory, 0);
}

fn needs(size: u64) -> ResourceRequirements {
    ResourceRequirements::new(size, 16)
}

fn living(lifetime: Lifetime) -> RegionOptions<'static> {
    RegionOptions::new()
        .preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
        .lifetime(lifetime)
}

/// All of the ids that a page could have: what `picture` showed before it knew better.
fn ids_of_places(tag: u32) -> impl Iterator<Item = RegionId> {
    let pools = if cfg!(miri) { 6 } else { 64 };
    let places = (0..pools).flat_map(|pool| (0..3u32).map(move |block| pool << 20 | block));
    let slots = move |place| {
        (0..8u32)
            .flat_map(move |slot| (1..4u32).map(move |generation| [tag, place, slot, generation]))
    };
    places.flat_map(slots).map(RegionId::from_raw)
}

/// Where live regions lie; panics where two overlap.
fn assert_apart<'r>(regions: impl Iterator<Item = &'r Region>) {
    let mut places: Vec<_> = regions
        .map(|region| {
            (
                region.memory(),
                region.offset(),
                region.offset() + region.size(),
            )
        })
        .collect();
    places.sort_unstable_by_key(|place| {
        (
            place.0.map(gpu_suballoc::device::MemoryHandle::as_raw),
            place.1,
        )
    });
    for two in places.windows(2) {
        assert!(
            two[0].0 != two[1].0 || two[0].2 <= two[1].1,
            "{two:?} overlap"
        );
    }
}

#[test]
fn an_internal_page_is_no_leak_and_its_regions_are_listed_in_its_place() {
    let mock = Mock::new(MockProfile::Nvidia, FromGlobalAlloc::SYSTEM);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    let regions: Vec<Region> = (0..140)
        .map(|n| {
            shard
                .allocate(&needs(300), &living(LIFETIMES[n % 2]))
                .unwrap()
        })
        .collect();
    let ordinary = allocator
        .allocate(&needs(300), &RegionOptions::new())
        .unwrap();
    let crop = allocator.crop(&regions[0], 0, 16, 1).unwrap();
    allocator
        .set_name(&regions[1], &RegionOptions::new().name("of a shard").tag(7))
        .unwrap();

    let check = |gone: &[RegionId]| {
        let picture = allocator.memory_map().unwrap();
        let mut expected: Vec<RegionId> = regions
            .iter()
            .chain([&ordinary])
            .map(Region::id)
            .filter(|id| !gone.contains(id))
            .collect();
        let mut owned: Vec<RegionId> = picture
            .leaks()
            .filter(|leak| leak.kind == RegionLeakKind::Owned)
            .map(|leak| leak.id)
            .collect();
        expected.sort_unstable();
        owned.sort_unstable();
        assert_eq!(owned, expected, "every region, and nothing else");
        for (block, ranges) in picture.blocks_with_ranges() {
            let mut end = 0;
            for range in ranges {
                assert_eq!(range.offset, end, "the ranges tile the block");
                end += range.size;
                let Some(region) = regions.iter().find(|region| Some(region.id()) == range.id)
                else {
                    continue;
                };
                assert_eq!(
                    (region.memory().unwrap().as_raw(), region.offset()),
                    (block.memory, range.offset)
                );
                assert_eq!(
                    (range.range_use, range.size),
                    (RangeUse::Region, region.size())
                );
                assert!(
                    matches!(
                        range.placement,
                        RangePlacement::Transient | RangePlacement::Slab
                    ),
                    "{range:?}"
                );
            }
            assert_eq!(end, block.size);
        }
        let first = picture
            .leaks()
            .find(|leak| leak.id == regions[1].id())
            .expect("it lives");
        assert_eq!((first.name, first.tag), (Some("of a shard"), 7));
        assert!(
            picture
                .crops_of(regions[0].id())
                .any(|found| found.id == crop.id())
        );
    };
    check(&[]);
    // Stats count a page as one region, and say how many those are; a picture has what lies in them.
    let (total, usage) = (allocator.stats().total, shard.usage());
    assert_eq!((total.regions - total.shard_pages, usage.regions), (1, 140));
    assert!(total.shard_pages >= 2);
    assert_eq!(total.shard_page_bytes, usage.page_bytes);
    // Freed elsewhere: its owner does not know yet, and it is no leak any more.
    let gone = [regions[10].id(), regions[11].id()];
    gone.iter().for_each(|id| allocator.free_id(*id).unwrap());
    check(&gone);
    drop(shard);
    check(&gone);
    let left = allocator
        .memory_map()
        .unwrap()
        .leaks()
        .filter(|leak| leak.kind == RegionLeakKind::Owned)
        .count();
    assert_eq!(left, regions.len() - gone.len() + 1);

    allocator.free(crop).unwrap();
    regions
        .into_iter()
        .filter(|region| !gone.contains(&region.id()))
        .for_each(|region| allocator.free(region).unwrap());
    allocator.free(ordinary).unwrap();
    let total = allocator.stats().total;
    assert_eq!(
        (total.regions, total.shard_pages, total.shard_page_bytes),
        (0, 0, 0)
    );
    close(allocator, &mock);
}

#[test]
fn an_internal_page_is_refused_as_stale_and_keeps_its_regions_apart() {
    let mock = Mock::new(MockProfile::Nvidia, FromGlobalAlloc::SYSTEM);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    let mut regions: Vec<Region> = (0..20)
        .map(|n| {
            shard
                .allocate(&needs(900), &living(LIFETIMES[n % 2]))
                .unwrap()
        })
        .collect();
    let objects = mock.live_counts();
    let tag = regions[0].id().tag();
    let shown: Vec<RegionId> = allocator
        .memory_map()
        .unwrap()
        .leaks()
        .map(|leak| leak.id)
        .collect();
    let shown = shown
        .into_iter()
        .filter(|id| regions.iter().all(|region| region.id() != *id));
    let mut tried = 0;
    for id in ids_of_places(tag).chain(shown) {
        assert_eq!(allocator.info(id).err(), Some(GpuMisuse::Stale), "{id}");
        assert_eq!(allocator.map_id(id).err(), Some(STALE), "{id}");
        assert_eq!(allocator.unmap_id(id), Err(STALE), "{id}");
        assert_eq!(allocator.crop_id(id, 0, 256, 1).err(), Some(STALE), "{id}");
        assert_eq!(allocator.free_id(id), Err(STALE), "{id}");
        tried += 1;
    }
    assert!(tried > 400, "{tried}");
    assert_eq!(
        mock.live_counts(),
        objects,
        "what live regions lie in is not with the driver"
    );
    // What a freed page would be given to.
    for _ in 0..20 {
        regions.push(
            allocator
                .allocate(
                    &needs(200_000),
                    &RegionOptions::new()
                        .preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE)),
                )
                .unwrap(),
        );
    }
    assert_apart(regions.iter());
    for region in &regions {
        let mapping = allocator.map(region).unwrap();
        // SAFETY: mapped, and as long as it says.
        unsafe { mapping.as_ptr().write_bytes(1, mapping.len().min(16)) };
    }
    for region in regions {
        shard.free(region).unwrap();
    }
    drop(shard);
    close(allocator, &mock);
}

/// Whoever works until enough was looked at ends also where looking failed.
struct Ends<'l>(&'l AtomicU32);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(u32::MAX, Ordering::Release);
    }
}

/// From another thread, and at any moment, what is seen of a page tiles it; what lives all the time is always seen.
#[test]
fn an_internal_page_is_looked_into_while_its_shard_works() {
    let least = if cfg!(miri) { 3 } else { 3000 };
    let mock = Mock::new(MockProfile::Nvidia, FromGlobalAlloc::SYSTEM);
    let allocator = allocator(&mock);
    let (looks, ready) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut shard = allocator.shard();
            let lasting =
                LIFETIMES.map(|lifetime| shard.allocate(&needs(256), &living(lifetime)).unwrap());
            ready.store(true, Ordering::Release);
            let mut turn = 0u64;
            while looks.load(Ordering::Acquire) < least {
                // Few and large: pages begin anew all the time, so that what was seen of one is soon another's.
                let mut keep: Vec<Region> = Vec::new();
                for _ in 0..20 {
                    turn += 1;
                    let (lifetime, most) = if turn.is_multiple_of(5) {
                        (LIFETIMES[1], 4000)
                    } else {
                        (LIFETIMES[0], 120_000)
                    };
                    keep.push(
                        shard
                            .allocate(&needs(1 + turn * 99_991 % most), &living(lifetime))
                            .unwrap(),
                    );
                }
                keep.into_iter()
                    .for_each(|region| shard.free(region).unwrap());
            }
            (shard, lasting)
        });
        let _ends = Ends(&looks);
        while looks.load(Ordering::Relaxed) < least {
            let there = ready.load(Ordering::Acquire);
            let picture = allocator.memory_map().unwrap();
            for (block, ranges) in picture.blocks_with_ranges() {
                let end = ranges.iter().fold(0, |end, range| {
                    assert_eq!(range.offset, end, "a gap, or an overlap");
                    end + range.size
                });
                assert_eq!(end, block.size);
            }
            // The two that last are the only ones that are neither freed nor about to be.
            assert!(!there || picture.leaks().count() >= 2);
            looks.fetch_add(1, Ordering::Release);
        }
        let (mut shard, lasting) = worker.join().expect("no panic");
        let mut shown: Vec<RegionId> = allocator
            .memory_map()
            .unwrap()
            .leaks()
            .map(|leak| leak.id)
            .collect();
        shown.sort_unstable();
        let mut expected = lasting.each_ref().map(Region::id);
        expected.sort_unstable();
        assert_eq!(shown, expected, "exact, now that nobody works");
        lasting
            .into_iter()
            .for_each(|region| shard.free(region).unwrap());
    });
    close(allocator, &mock);
}
