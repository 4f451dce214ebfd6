//! One allocator under four threads: regions cross threads, are cropped, mapped, written, freed or kept by whoever comes.
//! Whenever all pause, regions lie apart and the sums are right. Runs under ThreadSanitizer too, which sees what lies
//! over another.

use crate::*;

type Mock = MockDevice;
type Over<'m> = GpuAllocator<&'m Mock, RecordingAllocator>;

const THREADS: u64 = 4;
const ROUNDS: u64 = 12;
const TURNS: u64 = 400;

/// A region, or a root with its only crop, that whoever takes it may use and give back.
struct Item {
    region: Region,
    crop: Option<Region>,
    /// What its first eight bytes are, if they were written.
    mark: Option<u64>,
}

struct RacingShared<'m> {
    gpu: &'m Over<'m>,
    pool: Mutex<Vec<Item>>,
}

impl RacingShared<'_> {
    fn put(&self, item: Item) {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(item);
    }

    fn take(&self, rng: &mut Rng) -> Option<Item> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let at = rng.below(pool.len() as u64) as usize;
        (!pool.is_empty()).then(|| pool.swap_remove(at))
    }

    /// Writes the first bytes, and finds what was written before.
    fn write(&self, item: &mut Item, mark: u64) {
        let Ok(mapping) = self.gpu.map(&item.region) else {
            return;
        };
        self.gpu.invalidate(&item.region, 0, item.region.size()).unwrap();
        if let Some(first) = item.region.mapped() {
            assert_eq!(first.as_ptr(), mapping.as_ptr(), "mapped for life");
        }
        let at = mapping.as_ptr().cast::<u64>();
        // SAFETY: regions of this test have 64 bytes at least, and this thread alone has this one.
        let found = unsafe { at.read_unaligned() };
        assert!(item.mark.is_none_or(|mark| mark == found), "{:?} was written by another", item.region);
        // SAFETY: regions of this test have 64 bytes at least, and this thread alone has this one.
        unsafe { at.write_unaligned(mark) };
        self.gpu.flush(&item.region, 0, item.region.size()).unwrap();
        item.mark = Some(mark);
    }

    fn end(&self, item: Item) {
        if let Some(crop) = item.crop {
            self.gpu.free(crop).unwrap();
        }
        self.gpu.release(item.region).unwrap();
    }

    fn turn(&self, rng: &mut Rng) {
        let visible = MemoryPreference::requiring(PropertyFlags::HOST_VISIBLE);
        let (for_life, alone) = (rng.below(4) == 0, rng.below(16) == 0);
        let policies = [Allowed, Required];
        let options = |lifetime| RegionOptions {
            mapped: for_life,
            ..RegionOptions::new().lifetime(lifetime).preference(visible).dedicated(policies[usize::from(alone)])
        };
        let lifetime = [Transient, Unknown, Persistent][rng.below(3) as usize];
        let needs = ResourceRequirements::new(64 + rng.below(5000), 1 << rng.below(9));
        match rng.below(17) {
            0..7 => {
                let region = self.gpu.allocate(&needs, &options(lifetime)).unwrap();
                self.put(Item { region, crop: None, mark: None });
            }
            7 => {
                let info = BufferInfo::new(needs.size, BufferUsage::TRANSFER_SRC);
                let region = self.gpu.create_buffer(&info, &options(lifetime)).unwrap();
                self.put(Item { region, crop: None, mark: None });
            }
            8..10 => {
                let Some(mut item) = self.take(rng) else {
                    return;
                };
                let mark = rng.next();
                self.write(&mut item, mark);
                self.put(item);
            }
            10 => {
                let Some(mut item) = self.take(rng) else {
                    return;
                };
                if item.crop.is_none() {
                    let crop = self.gpu.crop(&item.region, 8, 16, 8).expect("room for a record");
                    assert_eq!(crop.offset(), item.region.offset() + 8);
                    let refused = self.gpu.free(item.region).expect_err("a crop lives");
                    item = Item { region: refused.value, crop: Some(crop), mark: item.mark };
                }
                self.put(item);
            }
            11..15 => {
                let Some(item) = self.take(rng) else { return };
                self.end(item);
            }
            15 => {
                self.gpu.set_reuse(rng.below(2) == 0);
            }
            _ => {
                self.gpu.trim(rng.below(1 << 20));
                assert!(self.gpu.stats().total.blocks > 0 || self.gpu.stats().total.regions < 1000);
            }
        }
    }

    /// Nobody else is at it: what lives lies apart, and is as many as the sums say.
    fn compare(&self, mock: &Mock) {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let mut starts = BTreeMap::new();
        for Item { region, .. } in pool.iter() {
            assert_eq!(region.ownership(), Ownership::Owned);
            let memory = region.memory().unwrap().as_raw();
            starts.insert((memory, region.offset()), region.offset() + region.size());
        }
        assert_eq!(starts.len(), pool.len(), "two begin at one place");
        for (((memory, _), end), ((next_memory, next), _)) in starts.iter().zip(starts.iter().skip(1)) {
            assert!(
                memory != next_memory || end <= next,
                "{memory:#x}: one ends at {end:#x}, the next begins at {next:#x}"
            );
        }
        let (total, live) = (self.gpu.stats().total, mock.live_counts());
        assert_eq!((total.blocks, total.block_bytes), (live.memory, live.bytes));
        assert_eq!(total.crops, pool.iter().filter(|item| item.crop.is_some()).count() as u64);
        assert!(mock.violations().is_empty(), "{}", mock.violations());
    }
}

fn race(profile: MockProfile, maps: MapPolicy) {
    let mock = MockDevice::with_config(profile.config().with_heap_size(0, 64 << 20));
    // Two threads on one memory object are to meet there, if they can.
    mock.set_linger(20);
    let witness = RecordingAllocator::system();
    // Small blocks, so that they come and go.
    let memory = MemoryOptions {
        first_block: Some(1 << 20),
        max_block: Some(4 << 20),
        map_policy: maps,
        ..MemoryOptions::default()
    };
    let options = AllocatorOptions { memory, ..AllocatorOptions::default() };
    let gpu = over_with(&mock, witness.clone(), options);
    let shared = RacingShared { gpu: &gpu, pool: Mutex::default() };
    for round in 0..ROUNDS {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let shared = &shared;
                scope.spawn(move || {
                    let mut rng = Rng::new(round * THREADS + thread);
                    (0..TURNS).for_each(|_| shared.turn(&mut rng));
                });
            }
        });
        shared.compare(&mock);
    }
    let left = shared.pool.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(left.len() > 100, "{} regions lived to the end", left.len());
    let shared = RacingShared { gpu: &gpu, pool: Mutex::default() };
    left.into_iter().for_each(|item| shared.end(item));
    end(gpu);
    mock.assert_ended();
    witness.assert_empty("when the allocator was closed");
}

#[test]
fn di1_four_threads_with_blocks_that_stay_mapped() {
    race(Nvidia, MapPolicy::Persistent);
}

#[test]
fn h119_four_threads_with_blocks_that_are_unmapped() {
    race(IntelUma, MapPolicy::Counted);
}

#[test]
fn four_threads_with_memory_that_must_be_flushed() {
    race(Tiler, MapPolicy::Counted);
}
