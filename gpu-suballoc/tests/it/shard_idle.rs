//! Empty pages of shards whose threads do nothing: who gets them, and when.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use alloc_core::FromGlobalAlloc;

use gpu_suballoc::allocator::Shard;
use gpu_suballoc::mock::{MockDevice, MockProfile};
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::{
    AllocatorOptions, GpuAllocator, GpuMisuse, Lifetime, MemoryPreference, PropertyFlags, Region,
    RegionOptions, ResourceRequirements,
};

type Host = FromGlobalAlloc<std::alloc::System>;
type Mock = MockDevice<Host>;
type Allocator<'m> = GpuAllocator<&'m Mock, Host>;
type ShardOf<'a, 'm> = Shard<'a, &'m Mock, Host>;

const MIB: u64 = 1 << 20;
const LIFETIMES: [Lifetime; 2] = [Lifetime::Transient, Lifetime::Persistent];

/// An allocator that may have 16 MiB of the device, on each profile.
fn within_16_mib(scene: impl Fn(&Allocator<'_>, &Mock)) {
    for profile in MockProfile::ALL {
        let mock = MockDevice::new(profile, FromGlobalAlloc::SYSTEM);
        let memory = MemoryOptions {
            max_bytes: 16 * MIB,
            ..MemoryOptions::default()
        };
        let options = AllocatorOptions {
            memory,
            ..AllocatorOptions::default()
        };
        // SAFETY: nothing is described to a mock that it does not have.
        let allocator = unsafe { GpuAllocator::new(&mock, FromGlobalAlloc::SYSTEM, options) }
            .unwrap_or_else(|refused| panic!("{refused}"));
        scene(&allocator, &mock);
        allocator.close().unwrap_or_else(|left| panic!("{left}"));
        assert!(mock.violations().is_empty(), "{}", mock.violations());
        assert_eq!(mock.live_counts().memory, 0);
    }
}

fn needs(size: u64) -> ResourceRequirements {
    ResourceRequirements {
        size,
        alignment: 16,
        memory_type_bits: u32::MAX,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

/// Mapped pages have one more thing to undo.
fn options(lifetime: Lifetime) -> RegionOptions<'static> {
    RegionOptions::new()
        .preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
        .lifetime(lifetime)
}

/// Some MiB of regions, small ones of each lifetime.
fn fill(shard: &mut ShardOf<'_, '_>, regions: usize) -> Vec<Region> {
    (0..regions)
        .map(|turn| {
            let size = if turn % 2 == 0 { 20_000 } else { 1000 };
            shard
                .allocate(&needs(size), &options(LIFETIMES[turn % 2]))
                .expect("there is room")
        })
        .collect()
}

/// Nearly all that the device has is had, which it is not while a page of the shard is kept; and goes again.
fn all_is_had(allocator: &Allocator<'_>) {
    let all = allocator
        .allocate(&needs(15 * MIB), &options(Lifetime::Unknown))
        .expect("nothing lives");
    allocator.free(all).unwrap();
}

#[test]
fn ge4_pressure_takes_the_empty_pages_of_a_shard_in_which_nothing_lives() {
    within_16_mib(|allocator, _| {
        let mut shard = allocator.shard();
        for _ in 0..3 {
            for region in fill(&mut shard, 400) {
                shard.free(region).unwrap();
            }
            let kept = shard.usage().page_bytes;
            assert!(kept >= MIB, "a page is kept for what comes: {kept}");
            all_is_had(allocator);
            assert_eq!(shard.usage().page_bytes, 0);
        }
    });
}

#[test]
fn ge4_a_trim_of_the_allocator_takes_them_and_what_lives_stays() {
    within_16_mib(|allocator, mock| {
        let (mut idle, mut busy) = (allocator.shard(), allocator.shard());
        let lives = fill(&mut busy, 2);
        for region in fill(&mut idle, 400) {
            idle.free(region).unwrap();
        }
        assert!(idle.usage().page_bytes > 0);
        allocator.trim(u64::MAX);
        assert_eq!(idle.usage().page_bytes, 0);
        assert_eq!(
            busy.usage().regions,
            2,
            "nobody works in these but their shard"
        );
        for region in lives {
            busy.free(region).unwrap();
        }
        assert!(mock.live_counts().memory > 0);
        allocator.trim(u64::MAX);
        assert_eq!(mock.live_counts().memory, 0);
    });
}

/// A thread trims and waits. Whatever others free of its regions goes back to the device without it.
#[test]
fn ge4_after_its_own_trim_a_shard_holds_back_nothing_that_others_free() {
    within_16_mib(|allocator, _| {
        let mut shard = allocator.shard();
        for _ in 0..3 {
            let regions = fill(&mut shard, 400);
            shard.trim();
            assert_eq!(shard.usage().regions, 400);
            thread::scope(|scope| {
                for part in 0..2 {
                    let regions = &regions;
                    scope.spawn(move || {
                        for region in regions.iter().skip(part).step_by(2) {
                            allocator.free_id(region.id()).expect("it lives");
                        }
                    });
                }
            });
            all_is_had(allocator);
            assert_eq!((shard.usage().regions, shard.usage().page_bytes), (0, 0));
            assert!(
                regions
                    .into_iter()
                    .all(|region| shard.free(region).is_err())
            );
        }
    });
}

/// What others freed of a shard that was not trimmed is its thread's to give back: the refusal says so, the statistics how much it is.
#[test]
fn ge4_a_refusal_names_shards_where_their_threads_have_the_pages() {
    within_16_mib(|allocator, _| {
        let mut shard = allocator.shard();
        for region in fill(&mut shard, 400) {
            allocator.free(region).expect("it lives");
        }
        let refused = allocator
            .allocate(&needs(15 * MIB), &options(Lifetime::Unknown))
            .expect_err("the shard has not seen it");
        assert!(refused.is_out_of_device_memory() && refused.to_string().contains("shards"));
        let total = allocator.stats().total;
        assert!(total.shard_page_bytes >= 2 * MIB && total.regions == total.shard_pages);
        shard.trim();
        assert_eq!(allocator.stats().total.shard_page_bytes, 0);
        all_is_had(allocator);
    });
}

/// A shard that was trimmed is the owner of what it took: it maps it by id, frees it, and goes on where it was.
#[test]
fn ge4_a_trimmed_shard_comes_back_to_what_it_has() {
    within_16_mib(|allocator, mock| {
        let (mut shard, mut neighbour) = (allocator.shard(), allocator.shard());
        let regions = fill(&mut shard, 50);
        shard.trim();
        // Room in its pages is nobody else's while something lives there.
        let others = fill(&mut neighbour, 50);
        let before = shard.usage().page_bytes;
        assert!(before > 0 && neighbour.usage().regions == 50);
        for region in &regions {
            shard.map_id(region.id()).expect("its own");
            allocator.unmap_id(region.id()).expect("as often");
            let found = neighbour.map_id(region.id()).err();
            assert_eq!(found, Some(GpuMisuse::OtherShard.into()));
            shard.trim();
        }
        let more = fill(&mut shard, 2);
        assert_eq!(shard.usage().page_bytes, before, "there was room");
        for region in regions.into_iter().chain(more).chain(others) {
            shard.free(region).expect("each lives");
        }
        drop(shard);
        neighbour.trim();
        allocator.trim(u64::MAX);
        assert_eq!(mock.live_counts().memory, 0);
    });
}

/// Where nothing lives another shard goes on in what is there; whoever comes later gets lanes of its own.
#[test]
fn ge4_pages_in_which_nothing_lives_serve_whichever_shard_asks_first() {
    within_16_mib(|allocator, _| {
        let (mut one, mut other) = (allocator.shard(), allocator.shard());
        for region in fill(&mut one, 400) {
            one.free(region).unwrap();
        }
        let kept = one.usage().page_bytes;
        let taken = fill(&mut other, 2);
        assert_eq!(one.usage().page_bytes, 0, "they are the other's by now");
        assert!(other.usage().page_bytes >= kept);
        let own = fill(&mut one, 2);
        assert_eq!((one.usage().regions, other.usage().regions), (2, 2));
        // A lane that is another's is not given up with the shard that had it.
        drop(one);
        assert_eq!(other.usage().regions, 2);
        for region in taken.into_iter().chain(own) {
            other.free(region).unwrap();
        }
    });
}

/// Says that it is over, also by a failure.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two shards work and pause, one thread frees what it is sent, and another lets go of everything that is idle, all at once.
#[test]
fn ge4_idle_pages_are_taken_while_their_shards_come_and_go() {
    within_16_mib(|allocator, _| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let ends = Ends(&done);
            let (to_freer, freed) = sync_channel::<Region>(16);
            let workers = [3usize, 5].map(|most| {
                let to_freer = to_freer.clone();
                scope.spawn(move || {
                    let mut shard = allocator.shard();
                    for turn in 0..500usize {
                        let mut regions = fill(&mut shard, 1 + turn % most);
                        for (index, region) in regions.iter().enumerate() {
                            let byte = index as u8;
                            let mapping = allocator.map(region).expect("it is visible");
                            // SAFETY: the region is this thread's, and of some KiB.
                            unsafe { mapping.as_ptr().write_volatile(byte) };
                            // SAFETY: as above.
                            assert_eq!(unsafe { mapping.as_ptr().read_volatile() }, byte);
                        }
                        if turn % 3 == 0 {
                            to_freer.send(regions.remove(0)).expect("it listens");
                        }
                        if turn % 5 == 0 {
                            shard.trim();
                        }
                        for region in regions {
                            shard.free(region).expect("it lives");
                        }
                    }
                })
            });
            drop(to_freer);
            let freer = scope.spawn(move || {
                for region in freed {
                    allocator.free(region).expect("it lives");
                }
            });
            let done = ends.0;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    allocator.trim(u64::MAX);
                    thread::yield_now();
                }
            });
            for worker in workers {
                worker.join().expect("a shard's thread ends");
            }
            freer.join().expect("the freer ends");
        });
        all_is_had(allocator);
    });
}
