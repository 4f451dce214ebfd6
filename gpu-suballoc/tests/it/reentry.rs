//! A device, or a host allocator, that calls back the allocator that called it, on the same thread and in the middle of
//! its call: what waits for itself fails here, by a bound, instead of waiting for ever.

mod margins;

use testkit::{HookedAllocator, Moment, Request, with_hook};

use crate::*;

type System = FromGlobalAlloc<std::alloc::System>;
type Mock = MockDevice;
type Gpu = GpuAllocator<&'static Mock, HookedAllocator<System>>;

const ANY: RegionOptions<'static> = RegionOptions::new();
const NESTED: GpuError = GpuError::Misuse(NestedMap);

thread_local! {
    /// How far in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A device and an allocator that stay, so that a hook can have them.
struct Scene {
    mock: &'static Mock,
    gpu: OnceLock<Gpu>,
    /// How often the hook did something.
    entered: AtomicU64,
}

impl std::ops::Deref for Scene {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        self.gpu.get().unwrap()
    }
}

impl Scene {
    fn new(profile: MockProfile) -> &'static Self {
        Self::with(profile, AllocatorOptions::default())
    }

    fn with(profile: MockProfile, options: AllocatorOptions) -> &'static Self {
        let mock: &'static Mock = Box::leak(Box::new(MockDevice::new(profile)));
        let scene = Box::leak(Box::new(Self { mock, gpu: OnceLock::new(), entered: AtomicU64::new(0) }));
        let gpu = over_with(mock, HookedAllocator::new(FromGlobalAlloc::SYSTEM), options);
        scene.gpu.set(gpu).unwrap_or_else(|_| unreachable!("the first"));
        scene
    }

    fn take(&self, options: &RegionOptions<'_>) -> Region {
        self.allocate(&needs(500), options).unwrap()
    }

    fn free(&self, region: Region) {
        self.gpu.get().unwrap().free(region).unwrap();
    }

    /// `hook` runs at each such call of the device, but not within itself.
    fn on(&'static self, call: MockCall, hook: impl Fn(&'static Self) + Sync + 'static) {
        self.mock.set_hook(Some(Box::leak(Box::new(move |called| {
            if called == call {
                once(|| {
                    self.entered.fetch_add(1, SeqCst);
                    hook(self);
                });
            }
        }))));
    }

    /// `hook` runs at each such call of the device, also within itself.
    fn on_each(&'static self, call: MockCall, hook: impl Fn() + Sync + 'static) {
        let hook = move |called| {
            if called == call {
                hook();
            }
        };
        self.mock.set_hook(Some(Box::leak(Box::new(hook))));
    }

    /// The hook ran; everything was given back, and no rule was broken.
    fn end(&self) {
        self.mock.set_hook(None);
        assert!(self.entered.load(SeqCst) > 0, "nothing was entered again");
        let total = self.stats().total;
        assert_eq!((total.regions, total.crops, total.wrapped), (0, 0, 0));
        self.trim(u64::MAX);
        assert!(self.mock.violations().is_empty(), "{}", self.mock.violations());
    }
}

/// Not within itself.
fn once(run: impl FnOnce()) {
    if DEPTH.replace(1) == 0 {
        run();
        DEPTH.set(0);
    }
}

/// Runs it on a thread of its own, which is left behind where it does not end.
fn ends(run: impl FnOnce() + Send + 'static) {
    let (ended, end) = channel();
    thread::spawn(move || {
        run();
        ended.send(()).unwrap();
    });
    // A thread that finds that it waits for itself has yielded hundreds of times before: that takes seconds where all
    // processors are busy.
    end.recv_timeout(Duration::from_secs(300)).expect("it ends, and without a panic");
}

fn needs(size: u64) -> ResourceRequirements {
    ResourceRequirements::new(size, 16)
}

fn visible() -> RegionOptions<'static> {
    RegionOptions::new().preference(MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE))
}

fn assert_apart(one: &Region, other: &Region) {
    let (a, b) = (one.offset()..one.offset() + one.size(), other.offset()..other.offset() + other.size());
    assert!(one.memory() != other.memory() || a.end <= b.start || b.end <= a.start, "{one:?} and {other:?} overlap");
}

#[test]
fn a_device_that_reenters_while_a_block_is_made_gets_one_of_its_own() {
    for lifetime in [Unknown, Transient, Persistent] {
        ends(move || {
            let scene = Scene::new(Nvidia);
            let inner: &'static Mutex<Vec<Region>> = Box::leak(Box::default());
            let options = RegionOptions::new().lifetime(lifetime);
            scene.on(Allocate, move |scene| {
                inner.lock().unwrap().push(scene.take(&options));
                assert!(scene.memory_map().is_ok());
            });
            let outer = scene.take(&options);
            let regions = std::mem::take(&mut *inner.lock().unwrap());
            assert_eq!(scene.mock.live_counts().memory, scene.stats().total.blocks);
            regions.iter().for_each(|region| assert_apart(&outer, region));
            regions.into_iter().chain([outer]).for_each(|region| scene.free(region));
            scene.end();
        });
    }
}

/// At each of its requests in turn, one of which is for a block that is being made.
#[test]
fn vma204_a_device_that_reenters_from_budget_is_not_asked_by_what_it_calls() {
    ends(|| {
        let scene = Scene::new(IntelUma);
        scene.mock.set_budget(0, Some(0));
        assert!(scene.set_frame(1));
        let within = RegionOptions::new().within_budget();
        scene.on_each(Budget, move || {
            assert!(scene.entered.fetch_add(1, SeqCst) < 2, "asked from within");
            assert!(scene.allocate(&needs(500), &within).is_err());
        });
        assert!(scene.allocate(&needs(500), &within).is_err());
        scene.end();
    });
}

/// A slow driver: half a second passes with each query.
#[test]
fn vma204_a_budget_does_not_grow_old_while_it_is_asked() {
    ends(|| {
        let scene = Scene::new(IntelUma);
        let later = || {
            let turns = scene.entered.fetch_add(1, SeqCst);
            scene.mock.set_clock(Some(Duration::from_secs(turns + 1)));
            turns
        };
        later();
        scene.on_each(Budget, move || {
            assert_eq!(later(), 1, "asked from within");
            let region = scene.allocate(&needs(500), &ANY);
            scene.free(region.unwrap());
        });
        let region = scene.allocate(&needs(500), &ANY);
        assert_eq!(scene.entered.load(SeqCst), 2, "asked once");
        scene.free(region.unwrap());
        scene.end();
    });
}

/// A block that became empty while a flush held it goes with the flush.
#[test]
fn di7_a_block_that_empties_during_a_flush_is_not_kept() {
    for map_policy in [MapPolicy::Persistent, MapPolicy::Counted] {
        ends(move || {
            let mut options = AllocatorOptions::default();
            options.memory.map_policy = map_policy;
            options.memory.keep_empty = Some(0);
            let scene = Scene::with(Tiler, options);
            let region = scene.take(&visible());
            let id = region.id();
            scene.map_id(id).unwrap();
            scene.on(Flush, move |scene| {
                scene.unmap_id(id).unwrap();
                scene.free_id(id).unwrap();
            });
            assert_eq!(scene.flush_id(id, 0, 500), Ok(()));
            assert_eq!(scene.stats().total.blocks, 0, "{map_policy:?}");
            scene.end();
        });
    }
}

#[test]
fn a_host_allocator_that_reenters_while_a_block_is_made_gets_one_of_its_own() {
    ends(|| {
        for nth in 0.. {
            let scene = Scene::new(Nvidia);
            let (counted, inner) = (Cell::new(0), RefCell::new(None));
            let hook = |request: Request| {
                if request.moment == Moment::Before && counted.replace(counted.get() + 1) == nth {
                    scene.entered.fetch_add(1, SeqCst);
                    *inner.borrow_mut() = Some(scene.take(&ANY));
                }
            };
            let [outer, named, crop] = with_hook(1, &hook, || {
                let outer = scene.take(&ANY);
                let named = scene.take(&ANY.name("named"));
                let crop = scene.crop(&outer, 0, 16, 1).unwrap();
                [outer, named, crop]
            });
            let inner = inner.take();
            inner.iter().for_each(|inner| assert_apart(&outer, inner));
            let entered = inner.is_some();
            let all = [crop, outer, named].into_iter().chain(inner);
            all.for_each(|region| scene.free(region));
            if !entered {
                assert!(nth > 5, "{nth}");
                break;
            }
            scene.end();
        }
    });
}

/// Two threads in the driver, each of which asks for what the other is about to make.
#[test]
fn a_device_that_reenters_from_two_threads_for_one_anothers_blocks_ends_both() {
    ends(|| {
        let scene = Scene::new(AmdSmallBar);
        let inside: &'static AtomicU32 = Box::leak(Box::default());
        scene.on(Allocate, move |scene| {
            // Both are in the driver, or the other one is through already.
            inside.fetch_add(1, SeqCst);
            let begin = Instant::now();
            while inside.load(SeqCst) < 2 && begin.elapsed() < Duration::from_millis(500) {
                thread::yield_now();
            }
            for wish in [
                MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE),
                MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL),
            ] {
                let region = scene.take(&ANY.preference(wish));
                scene.free(region);
            }
        });
        thread::scope(|threads| {
            for wish in [
                MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE),
                MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL),
            ] {
                threads.spawn(move || {
                    let region = scene.take(&ANY.preference(wish));
                    scene.free(region);
                });
            }
        });
        scene.end();
    });
}

#[test]
fn a_device_that_reenters_from_map_or_unmap_is_refused_the_same_memory_and_has_any_other() {
    for call in [Map, Unmap] {
        ends(move || {
            let mut options = AllocatorOptions::default();
            options.memory.map_policy = MapPolicy::Counted;
            let scene = Scene::with(Nvidia, options);
            let alone = RegionOptions { dedicated: Required, ..visible() };
            let region: &'static Region = Box::leak(Box::new(scene.take(&visible())));
            let other: &'static Region = Box::leak(Box::new(scene.take(&alone)));
            assert_ne!(region.memory(), other.memory());
            scene.on(call, move |scene| {
                assert_eq!(scene.map(region).map(drop), Err(NESTED));
                assert_eq!(scene.map_id(region.id()), Err(NESTED));
                assert_eq!(scene.unmap_id(region.id()), refusal(NotMapped));
                assert!(scene.map(other).is_ok());
                assert!(scene.memory_map().is_ok());
            });
            let mapping = scene.map(region).unwrap();
            // SAFETY: mapped, and as long as that.
            unsafe { mapping.as_ptr().write_bytes(1, mapping.len()) };
            drop(mapping);
            drop(scene.map(region).unwrap());
            assert_eq!(scene.info(region.id()).unwrap().maps(), 0);
            scene.free_id(region.id()).unwrap();
            scene.free_id(other.id()).unwrap();
            scene.end();
        });
    }
}

#[test]
fn a_device_that_reenters_from_map_of_wrapped_memory_is_refused_the_same_memory() {
    for call in [Map, Unmap] {
        ends(move || {
            let scene = Scene::new(Nvidia);
            let types = scene.mock.properties().types;
            let index = types.iter().position(|one| one.properties.contains(PropertyFlags::HOST_VISIBLE)).unwrap();
            let info = BufferInfo::new(4096, BufferUsage::TRANSFER_SRC);
            // SAFETY: a mock; the request is valid.
            let memory = unsafe { scene.mock.allocate(&MemoryRequest::new(4096, index as u32)) }.unwrap();
            // SAFETY: a mock; the info is valid.
            let buffer = unsafe { scene.mock.create_buffer(&info) }.unwrap();
            let backing =
                Backing { memory, offset: 0, memory_size: 4096, properties: types[index].properties, mapped: None };
            let wrap = || scene.wrap(&WrapInfo::new(buffer, 4096).backing(backing)).unwrap();
            let region: &'static Region = Box::leak(Box::new(wrap()));
            let same: &'static Region = Box::leak(Box::new(wrap()));
            scene.on(call, move |scene| {
                assert_eq!(scene.map(same).map(drop), Err(NESTED));
                assert_eq!(scene.map(region).map(drop), Err(NESTED));
                scene.free(scene.crop(same, 0, 16, 1).unwrap());
            });
            drop(scene.map(region).unwrap());
            let both = (scene.map(region).unwrap(), scene.map(same).unwrap());
            assert_eq!(both.0.as_ptr(), both.1.as_ptr());
            drop(both);
            scene.free_id(region.id()).unwrap();
            scene.free_id(same.id()).unwrap();
            scene.end();
        });
    }
}

/// What is flushed is mapped by that too: memory of its own goes when the flush is over, and nobody waits.
#[test]
fn a_device_that_reenters_from_flush_may_free_what_is_flushed() {
    ends(|| {
        let mut options = AllocatorOptions::default();
        options.memory.map_policy = MapPolicy::Counted;
        let scene = Scene::with(Tiler, options);
        let alone = RegionOptions { dedicated: Required, ..visible() };
        let info = BufferInfo::new(5000, BufferUsage::TRANSFER_SRC);
        let region: &'static Region = Box::leak(Box::new(scene.create_buffer(&info, &alone).unwrap()));
        scene.map_id(region.id()).unwrap();
        let before = scene.mock.live_counts().memory;
        scene.on(Flush, move |scene| {
            scene.unmap_id(region.id()).unwrap();
            scene.free_id(region.id()).unwrap();
            assert_eq!(scene.free_id(region.id()), refusal(Stale));
            assert_eq!(scene.map_id(region.id()), refusal(Stale));
            let picture = scene.memory_map().unwrap();
            assert_eq!(picture.leaks().count(), 0, "it is nobody's");
            for (block, ranges) in picture.blocks_with_ranges() {
                assert_eq!(ranges.iter().map(|range| range.size).sum::<u64>(), block.size);
                assert!(ranges.iter().all(|range| range.range_use != RangeUse::Region));
            }
        });
        scene.flush(region, 0, 100).unwrap();
        assert_eq!(scene.mock.live_counts().memory, before - 1, "it went when the flush was over");
        assert_eq!(scene.stats().total.blocks, before - 1);
        // The place is another one's now, under another id.
        let next = scene.create_buffer(&info, &alone).unwrap();
        assert_ne!(next.id(), region.id());
        scene.free(next);
        scene.end();
    });
}

/// A picture asks for room, and meanwhile there is more to see, each time: with room to spare it ends.
#[test]
fn a_host_allocator_that_reenters_a_picture_with_more_to_see_does_not_keep_it_for_ever() {
    ends(|| {
        let scene = Scene::new(Nvidia);
        let _first = scene.take(&ANY);
        let hook = |_| {
            scene.entered.fetch_add(1, SeqCst);
            let _kept = scene.take(&ANY);
        };
        let picture = || scene.memory_map().unwrap();
        let seen = with_hook(1, &hook, picture);
        let entered = scene.entered.load(SeqCst);
        assert!((1..100).contains(&entered), "{entered} times");
        assert!(seen.leaks().count() > 0);
        drop(seen);
        picture().leaks().for_each(|leak| scene.free_id(leak.id).unwrap());
        scene.end();
    });
}

/// Whatever it frees, the device that calls back leaves as much behind: what was there in the beginning goes, and that
/// is all.
#[test]
fn a_device_that_reenters_from_free_or_destroy_with_more_to_free_does_not_keep_a_trim_for_ever() {
    for call in [Free, DestroyBuffer] {
        ends(move || {
            let scene = Scene::with(Nvidia, AllocatorOptions { reuse: true, ..AllocatorOptions::default() });
            let info = BufferInfo::new(5000, BufferUsage::TRANSFER_SRC);
            let kept = || {
                let region = scene.create_buffer(&info, &ANY).unwrap();
                scene.release(region).unwrap();
            };
            kept();
            scene.on(call, move |scene| {
                let info = BufferInfo::new(5000 + scene.entered.load(SeqCst), BufferUsage::TRANSFER_SRC);
                let region = scene.create_buffer(&info, &ANY).unwrap();
                scene.release(region).unwrap();
                let region = scene.allocate(&needs(500), &ANY.lifetime(Transient)).unwrap();
                scene.free(region);
            });
            scene.trim(u64::MAX);
            kept();
            let pool = scene.create_pool(&PoolOptions::new(1)).unwrap();
            scene.destroy_pool(pool).unwrap();
            kept();
            scene.set_reuse(false);
            assert!(scene.entered.load(SeqCst) < 20, "{}", scene.entered.load(SeqCst));
            scene.mock.set_hook(None);
            scene.trim(u64::MAX);
            assert_eq!(scene.mock.live_counts(), MockLiveCounts::default());
            scene.end();
        });
    }
}

#[test]
fn h111_a_buffer_in_the_making_is_nobodys_to_collect() {
    let calls = [CreateBuffer, BufferRequirements, BindBuffer];
    for call in calls {
        let scene = Scene::new(Nvidia);
        let release = |gpu: &Gpu, region| gpu.release(region).map_err(|refused| refused.error).unwrap();
        let make = |gpu: &Gpu, size| {
            let info = BufferInfo::new(size, BufferUsage::TRANSFER_SRC);
            gpu.create_buffer(&info, &ANY).unwrap()
        };
        // Collects everything, makes another one, gives it back, collects again.
        scene.on(call, move |scene| {
            scene.trim(u64::MAX);
            release(scene, make(scene, 100));
            scene.trim(u64::MAX);
        });
        let regions: Vec<Region> = (1..20).map(|n| make(scene, n * 1000)).collect();
        let bound = regions.iter().map(|region| scene.mock.buffer_bound(region.buffer().unwrap()));
        let bound: HashSet<_> = bound.collect();
        assert!(bound.len() == 19 && !bound.contains(&None), "each has a place of its own");
        for (number, region) in regions.into_iter().enumerate() {
            match number % 2 {
                0 => release(scene, region),
                _ => scene.free(region),
            }
        }
        // What was released is kept until then.
        scene.trim(u64::MAX);
        scene.end();
        assert_eq!((scene.mock.live_counts().buffers, scene.mock.live_counts().memory), (0, 0));
    }
}
