//! Shards: one thread's own share, and what comes back to it from others.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use alloc_core::{FromGlobalAlloc, held_state_locks};

use gpu_suballoc::allocator::Shard;
use gpu_suballoc::mock::{MockDevice, MockProfile};
use gpu_suballoc::{
    AllocatorOptions, GpuAllocator, GpuError, GpuMisuse, Lifetime, MemoryPreference, PropertyFlags,
    Region, RegionOptions, ResourceRequirements,
};

type Host = FromGlobalAlloc<std::alloc::System>;
type Mock = MockDevice<Host>;
type Allocator<'m> = GpuAllocator<&'m Mock, Host>;

fn mock(profile: MockProfile) -> Mock {
    MockDevice::new(profile, FromGlobalAlloc::SYSTEM)
}

fn allocator(mock: &Mock) -> Allocator<'_> {
    // SAFETY: nothing is described to a mock that it does not have.
    unsafe { GpuAllocator::new(mock, FromGlobalAlloc::SYSTEM, AllocatorOptions::default()) }
        .unwrap_or_else(|refused| panic!("{refused}"))
}

fn close(allocator: Allocator<'_>) {
    if let Err(refused) = allocator.close() {
        panic!("{refused}");
    }
}

fn needs(size: u64, alignment: u64) -> ResourceRequirements {
    ResourceRequirements {
        size,
        alignment,
        memory_type_bits: u32::MAX,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

fn living(lifetime: Lifetime) -> RegionOptions<'static> {
    RegionOptions::new().lifetime(lifetime)
}

const LIFETIMES: [Lifetime; 3] = [Lifetime::Transient, Lifetime::Persistent, Lifetime::Unknown];

/// Where regions lie, so that one that overlaps is seen.
#[derive(Default)]
struct Map(BTreeMap<(u64, u64), u64>);

impl Map {
    fn enter(&mut self, region: &Region) {
        let memory = region.memory().expect("it has memory").as_raw();
        let (start, end) = (region.offset(), region.offset() + region.size());
        let before = self.0.range(..(memory, end)).next_back();
        assert!(
            before.is_none_or(|((other, _), until)| *other != memory || *until <= start),
            "{region:?} overlaps {before:?}"
        );
        self.0.insert((memory, start), end);
    }

    fn leave(&mut self, region: &Region) {
        let memory = region.memory().expect("it has memory").as_raw();
        assert!(self.0.remove(&(memory, region.offset())).is_some());
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % below
    }
}

#[test]
fn a_shard_serves_what_its_allocator_serves() {
    for profile in MockProfile::ALL {
        let mock = mock(profile);
        let allocator = allocator(&mock);
        let mut shard = allocator.shard();
        let (mut map, mut random, mut live) = (Map::default(), Random(1), Vec::new());
        for turn in 0..4000 {
            let most = 1 << random.below(18);
            let (size, alignment) = (1 + random.below(most), 1 << random.below(13));
            let region = shard
                .allocate(&needs(size, alignment), &living(LIFETIMES[turn % 3]))
                .expect("there is room");
            assert!(region.size() >= size && region.offset().is_multiple_of(alignment));
            map.enter(&region);
            live.push(region);
            while live.len() > 200 {
                let region = live.swap_remove(random.below(live.len() as u64) as usize);
                map.leave(&region);
                // Anybody may free anything: the shard the allocator's, the allocator the shard's.
                if random.below(2) == 0 {
                    shard.free(region).unwrap()
                } else {
                    allocator.free(region).unwrap()
                }
            }
        }
        let usage = shard.usage();
        assert!(
            usage.regions > 0 && usage.regions <= 200 && usage.page_bytes >= usage.region_bytes,
            "{usage:?}"
        );
        for region in live {
            shard.free(region).unwrap();
        }
        assert_eq!((shard.usage().regions, shard.usage().region_bytes), (0, 0));
        shard.trim();
        assert_eq!(shard.usage().page_bytes, 0);
        drop(shard);
        close(allocator);
        assert!(mock.violations().is_empty(), "{}", mock.violations());
        assert_eq!(mock.live_counts().memory, 0);
    }
}

/// Takes for the other, frees what the other took.
fn cross<'a>(
    mut shard: Shard<'a, &'a Mock, Host>,
    give: Sender<Region>,
    get: Receiver<Region>,
) -> (u32, Shard<'a, &'a Mock, Host>) {
    let (mut random, mut freed) = (Random(7), 0);
    for turn in 0..20_000 {
        let size = 1 + random.below(4096);
        let region = shard
            .allocate(&needs(size, 256), &living(LIFETIMES[turn % 2]))
            .expect("there is room");
        give.send(region).expect("the other listens");
        while let Ok(region) = get.try_recv() {
            shard.free(region).expect("it lives");
            freed += 1;
        }
    }
    drop(give);
    for region in get {
        shard.free(region).expect("it lives");
        freed += 1;
    }
    assert_eq!(held_state_locks(), 0);
    (freed, shard)
}

/// Two threads that free what the other took, each with its own shard.
#[test]
fn frees_cross_between_two_shards() {
    let mock = mock(MockProfile::ALL[0]);
    let allocator = allocator(&mock);
    let (to_one, from_other) = channel::<Region>();
    let (to_other, from_one) = channel::<Region>();
    let shards = thread::scope(|scope| {
        let one = scope.spawn(|| cross(allocator.shard(), to_other, from_other));
        let other = scope.spawn(|| cross(allocator.shard(), to_one, from_one));
        [one, other].map(|thread| thread.join().expect("a thread ends"))
    });
    for (freed, mut shard) in shards {
        assert_eq!(freed, 20_000);
        let usage = shard.usage();
        assert_eq!(
            (usage.regions, usage.region_bytes),
            (0, 0),
            "everything came back"
        );
        // One page and one slab of each size at most wait for what comes next.
        assert!(usage.page_bytes <= 64 << 20, "{usage:?}");
    }
    close(allocator);
    assert!(mock.violations().is_empty(), "{}", mock.violations());
    assert_eq!(
        (mock.live_counts().memory, mock.live_counts().bytes),
        (0, 0)
    );
}

#[test]
fn regions_outlive_their_shard() {
    let mock = mock(MockProfile::ALL[0]);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    let mut map = Map::default();
    let mut regions: Vec<Region> = (0..1000)
        .map(|turn| {
            shard
                .allocate(&needs(1 + turn, 16), &living(LIFETIMES[turn as usize % 2]))
                .expect("there is room")
        })
        .inspect(|region| map.enter(region))
        .collect();
    drop(shard);
    let Err(refused) = allocator.close() else {
        panic!("a thousand regions live")
    };
    assert_eq!(refused.error.regions, 1000);
    let allocator = refused.value;

    // Another shard goes on in the same pages, without touching what lives there.
    let mut heir = allocator.shard();
    for turn in 0..1000 {
        let region = heir
            .allocate(&needs(1 + turn, 16), &living(LIFETIMES[turn as usize % 2]))
            .expect("there is room");
        map.enter(&region);
        regions.push(region);
    }
    assert_eq!(heir.usage().regions, 2000);
    drop(heir);
    thread::scope(|scope| {
        let rest = regions.split_off(1000);
        for part in [regions, rest] {
            let allocator = &allocator;
            scope.spawn(move || {
                part.into_iter()
                    .for_each(|region| allocator.free(region).expect("it lives"))
            });
        }
    });
    close(allocator);
    assert!(mock.violations().is_empty(), "{}", mock.violations());
    assert_eq!(mock.live_counts().memory, 0);
}

#[test]
fn a_region_of_a_shard_dies_once() {
    let mock = mock(MockProfile::ALL[0]);
    let (allocator, other) = (allocator(&mock), allocator(&mock));
    let (mut shard, mut neighbour) = (allocator.shard(), allocator.shard());
    for lifetime in [Lifetime::Transient, Lifetime::Persistent] {
        let options = living(lifetime);
        let region = shard.allocate(&needs(1000, 16), &options).unwrap();
        let id = region.id();
        assert_eq!(
            other.free_id(id),
            Err(GpuError::Misuse(GpuMisuse::OtherAllocator))
        );
        assert_eq!(allocator.free_id(id), Ok(()));
        assert_eq!(
            allocator.free_id(id),
            Err(GpuError::Misuse(GpuMisuse::Stale)),
            "a second free, before the owner knows of the first"
        );
        let refused = shard.free(region).expect_err("it was freed by its id");
        assert_eq!(refused.error, GpuError::Misuse(GpuMisuse::Stale));
        let refused = neighbour
            .free(refused.value)
            .expect_err("it was freed by its id");
        assert_eq!(refused.error, GpuError::Misuse(GpuMisuse::Stale));
        drop(refused);
        assert_eq!(shard.usage().regions, 0);
        for _ in 0..1000 {
            let next = shard.allocate(&needs(1000, 16), &options).unwrap();
            assert_ne!(next.id(), id);
            assert_eq!(
                allocator.free_id(id),
                Err(GpuError::Misuse(GpuMisuse::Stale))
            );
            shard.free(next).unwrap();
        }
    }
    drop((shard, neighbour));
    close(allocator);
    close(other);
}

/// The worst that can be done with an id: two threads free it at once, one of them the owner's. At least one is told that it freed it, it
/// is counted once, and what is taken afterwards lives.
#[test]
fn two_that_free_one_region_at_once_free_it_once() {
    let mock = mock(MockProfile::ALL[0]);
    let allocator = allocator(&mock);
    let (to_freer, ids) = channel::<gpu_suballoc::RegionId>();
    let (answer, answers) = channel::<bool>();
    thread::scope(|scope| {
        let other = &allocator;
        scope.spawn(move || {
            for id in ids {
                answer
                    .send(other.free_id(id).is_ok())
                    .expect("the owner listens");
            }
        });
        let mut shard = allocator.shard();
        let mut refused = 0;
        for turn in 0..10_000 {
            let options = living(LIFETIMES[turn % 2]);
            let region = shard.allocate(&needs(256, 1), &options).unwrap();
            to_freer.send(region.id()).expect("the freer listens");
            // Both orders come up, and now and then the very same moment.
            for _ in 0..turn % 200 {
                std::hint::spin_loop();
            }
            let here = shard.free(region).is_ok();
            let next = shard.allocate(&needs(256, 1), &options).unwrap();
            let there = answers.recv().expect("the freer answers");
            assert!(here || there, "nobody freed it");
            refused += u32::from(!here || !there);
            assert_eq!(shard.usage().regions, 1);
            shard.free(next).expect("it is another region");
        }
        assert!(refused > 0);
        drop(to_freer);
    });
    close(allocator);
}

#[test]
fn regions_of_shards_are_mapped_and_cropped_like_others() {
    let mock = mock(MockProfile::ALL[0]);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    let wish = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE);
    for lifetime in [Lifetime::Transient, Lifetime::Persistent] {
        let options = RegionOptions::new().preference(wish).lifetime(lifetime);
        let [one, two] = [0, 1].map(|_| shard.allocate(&needs(1000, 16), &options).unwrap());
        for (region, byte) in [(&one, 1u8), (&two, 2)] {
            let mapping = allocator.map(region).expect("it can be mapped");
            assert!(mapping.len() >= 1000);
            // SAFETY: mapped, and as long as it says.
            unsafe { mapping.as_ptr().write_bytes(byte, mapping.len()) };
        }
        let mapping = allocator.map(&one).unwrap();
        assert_eq!(
            // SAFETY: as above.
            unsafe { mapping.as_ptr().wrapping_add(999).read() },
            1,
            "two regions of one page are two"
        );
        let refused = shard.free(one).expect_err("it is mapped");
        assert_eq!(refused.error, GpuError::Misuse(GpuMisuse::Mapped));
        drop(mapping);
        let crop = allocator.crop(&refused.value, 256, 256, 1).expect("within");
        let refused = shard.free(refused.value).expect_err("it has a crop");
        assert_eq!(refused.error, GpuError::Misuse(GpuMisuse::HasCrops));
        allocator.free(crop).unwrap();
        shard.free(refused.value).unwrap();
        shard.free_batch(&mut [None, Some(two)]).unwrap();
    }
    drop(shard);
    close(allocator);
    assert!(mock.violations().is_empty(), "{}", mock.violations());
}

#[test]
fn a_region_of_a_shard_that_is_gone_is_neither_mapped_nor_cropped() {
    let mock = mock(MockProfile::Tiler);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    let wish = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE);
    for lifetime in [Lifetime::Transient, Lifetime::Persistent] {
        let region = shard
            .allocate(
                &needs(1000, 16),
                &RegionOptions::new().preference(wish).lifetime(lifetime),
            )
            .unwrap();
        allocator.flush(&region, 0, 1000).expect("while it lives");
        allocator.free_id(region.id()).unwrap();
        shard.trim();
        allocator.trim(u64::MAX);
        assert_eq!(
            mock.live_counts().memory,
            0,
            "what it lay in is with the driver"
        );
        let stale = GpuError::Misuse(GpuMisuse::Stale);
        assert_eq!(allocator.map(&region).unwrap_err(), stale);
        assert_eq!(allocator.crop(&region, 0, 256, 1).unwrap_err(), stale);
        assert_eq!(
            allocator.set_name(&region, &RegionOptions::new().name("gone")),
            Err(stale)
        );
        assert_eq!(allocator.flush(&region, 0, 256), Err(stale));
        assert_eq!(allocator.invalidate(&region, 0, 256), Err(stale));
        assert_eq!(allocator.free(region).unwrap_err().error, stale);
    }
    drop(shard);
    close(allocator);
    assert!(mock.violations().is_empty(), "{}", mock.violations());
}

/// Structures of the caller's own, an import for instance, are for a memory object of its own; a page would ignore them.
#[test]
fn a_request_with_a_chain_is_not_served_from_a_page() {
    let mock = mock(MockProfile::ALL[0]);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    for lifetime in [Lifetime::Transient, Lifetime::Persistent] {
        shard
            .allocate(&needs(1000, 16), &living(lifetime))
            .map(|region| shard.free(region).unwrap())
            .unwrap();
        let structure = 0u64;
        // SAFETY: a mock follows no chain.
        let next = Some(unsafe {
            gpu_suballoc::device::NextChain::new(std::ptr::NonNull::from(&structure).cast())
        });
        let region = shard
            .allocate(
                &needs(1000, 16),
                &RegionOptions {
                    next,
                    ..living(lifetime)
                },
            )
            .unwrap();
        assert_eq!((region.offset(), allocator.stats().total.dedicated), (0, 1));
        shard.free(region).unwrap();
    }
    drop(shard);
    close(allocator);
}

#[test]
fn more_kinds_of_requests_than_lanes_are_served_all_the_same() {
    let mock = mock(MockProfile::ALL[0]);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    let kinds = 20u32;
    let regions: Vec<Region> = (0..kinds)
        .map(|kind| {
            let needs = ResourceRequirements {
                memory_type_bits: u32::MAX ^ 1 << (31 - kind),
                ..needs(1000, 16)
            };
            shard
                .allocate(&needs, &living(Lifetime::Transient))
                .expect("there is room")
        })
        .collect();
    assert_eq!(shard.usage().regions, 8, "the others are the allocator's");
    for region in regions {
        shard.free(region).unwrap();
    }
    drop(shard);
    close(allocator);
}

#[test]
fn bad_requests_are_refused_as_the_allocator_refuses_them() {
    let mock = mock(MockProfile::ALL[0]);
    let allocator = allocator(&mock);
    let mut shard = allocator.shard();
    for lifetime in LIFETIMES {
        for (size, alignment) in [(0, 1), (1, 0), (1, 3), (u64::MAX - 15, 16), (1, 1 << 63)] {
            let (ours, theirs) = (
                shard
                    .allocate(&needs(size, alignment), &living(lifetime))
                    .map(|_| ()),
                allocator
                    .allocate(&needs(size, alignment), &living(lifetime))
                    .map(|_| ()),
            );
            assert!(ours.is_err());
            assert_eq!(ours, theirs, "{size} {alignment}");
        }
    }
    drop(shard);
    close(allocator);
}
