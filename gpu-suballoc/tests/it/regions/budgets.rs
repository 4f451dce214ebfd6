//! Budgets of a program that has no frames: they are asked again by count and by age, and before a refusal, but not for
//! each request.

use super::*;

fn within() -> RegionOptions<'static> {
    any().within_budget()
}

/// On each profile that reports budgets.
fn budgeted(options: AllocatorOptions, body: impl Fn(&Scene<'_>)) {
    let mut told = 0;
    for profile in MockProfile::ALL {
        if profile.config().features.memory_budget {
            scene(profile, options, |s| body(&s));
            told += 1;
        }
    }
    assert!(told >= 4, "of {} profiles", MockProfile::ALL.len());
}

impl Scene<'_> {
    fn budgets(&self, bytes: u64) {
        let heaps = self.mock.properties().heaps.len();
        (0..heaps).for_each(|heap| self.mock.set_budget(heap, Some(bytes)));
    }

    fn queries(&self) -> u64 {
        self.mock.calls(Budget)
    }
}

/// VMA 204, GPGMM 471: another process came, and nobody says `set_frame`.
#[test]
fn vma204_a_budget_that_fell_stops_who_stays_within_it() {
    for size in [64 << 10, MIB, 16 * MIB, 100 * MIB] {
        budgeted(AllocatorOptions::default(), |s| {
            let before = s.queries();
            s.budgets(100 * MIB);
            let wish = MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL);
            let options = within().preference(wish);
            let info = copied(size);
            let (mut live, mut refused) = (Vec::new(), 0);
            for _ in 0..200 {
                match s.create_buffer(&info, &options) {
                    Ok(region) => live.push(region),
                    Err(error) => {
                        assert!(matches!(error, GpuError::Limit(Limit::Budget { .. })), "{error}");
                        refused += 1;
                    }
                }
            }
            let heaps = s.mock.properties().heaps.len() as u64;
            let most = 100 * MIB * heaps + 32 * size;
            assert!(live.len() as u64 * size <= most, "{} of {size}", live.len());
            let asked = s.queries() - before;
            assert!(asked <= 200 / 30 + 1 + refused, "{asked}, {refused} refused");
            s.free_each(live);
        });
    }
}

/// wgpu 9769: a query for each buffer is slow.
#[test]
fn vma204_budgets_are_not_asked_for_each_request() {
    budgeted(AllocatorOptions::default(), |s| {
        let before = s.queries();
        let block = s.take(1024, &within());
        let small = times(1000, || s.take(1024, &within()));
        s.free_each(small);
        assert_eq!(s.queries(), before, "a block that exists needs no budget");
        let dedicated = alone();
        let count = if s.mock.properties().limits.max_memory_allocation_count < 100 { 20 } else { 90 };
        for _ in 0..4 {
            let large = Vec::from_iter((0..count).map(|_| s.take(4096, &dedicated)));
            s.free_each(large);
        }
        let (asked, calls) = (s.queries() - before, 4 * 2 * count);
        let most = calls / 30 + 1;
        assert!((calls / 90..=most).contains(&asked), "{asked} for {calls}");
        s.free(block);
    });
}

#[test]
fn vma204_ge10_a_refusal_asks_once_before_it_refuses() {
    let options = with_memory(MemoryOptions { within_budget: true, ..MemoryOptions::default() });
    type Try = fn(&Scene<'_>) -> Result<(), GpuError>;
    let tries: [(&str, Try); 4] = [
        ("allocate", |s| s.allocate(&bytes(4096), &any()).map(|region| s.free(region))),
        ("dedicated", |s| {
            let alone = within().dedicated(Required);
            s.allocate(&bytes(4096), &alone).map(|region| s.free(region))
        }),
        ("reserve", |s| s.reserve(4096, u32::MAX, &any())),
        ("pool", |s| {
            let pool = PoolOptions { min_blocks: 1, block_size: Some(MIB), ..PoolOptions::new(0) };
            s.create_pool(&pool).map(|pool| s.must_destroy_pool(pool))
        }),
    ];
    for (name, attempt) in tries {
        budgeted(options, |s| {
            s.budgets(0);
            assert!(s.set_frame(1));
            let before = s.queries();
            let refused = attempt(s).expect_err(name);
            assert!(matches!(refused, GpuError::Limit(Limit::Budget { .. })), "{name}: {refused}");
            let asked = s.queries();
            assert!(asked > before && asked <= before + 1, "{name}");
            s.budgets(4 << 30);
            assert_eq!(attempt(s), Ok(()), "{name}");
            assert!(s.queries() > asked, "{name}");
            s.trim(u64::MAX);
        });
    }
}

/// By the device's clock, and where it has none by std's.
#[test]
fn vma204_a_budget_is_asked_again_when_it_is_old() {
    for is_std in [false, true] {
        let mock = Mock::new(IntelUma);
        mock.set_clock((!is_std).then_some(Duration::from_secs(7)));
        on_mock(&mock, |s| {
            let first = s.take(MIB, &within());
            s.budgets(MIB + 4096);
            let is_known = || {
                let mut json = String::new();
                let map = s.must_memory_map();
                s.write_json(&map, &mut json).expect("a string");
                json.contains("\"BudgetBytes\":1052672")
            };
            let large = bytes(16 * MIB);
            let before = s.queries();
            let mut others = times(4, || s.allocate(&large, &any()));
            // By std's clock it may be old already, on a busy machine.
            if is_std {
                thread::sleep(Duration::from_millis(600));
            } else {
                s.mock.set_clock(Some(Duration::from_millis(7499)));
                others.push(s.allocate(&large, &any()));
                assert_eq!((s.queries(), is_known()), (before, false), "it is not old");
                s.mock.set_clock(Some(Duration::from_millis(7500)));
            }
            others.push(s.allocate(&large, &any()));
            assert!(is_std || s.queries() == before + 1, "once");
            assert!(is_known());
            assert!(s.allocate(&large, &within()).is_err());
            s.free(first);
            for other in others {
                s.free(other.expect("it does not insist"));
            }
        });
    }
}

#[test]
fn vma204_a_reserve_that_cannot_be_had_creates_nothing() {
    budgeted(AllocatorOptions::default(), |s| {
        let made = s.made();
        let too_much = s.reserve(1 << 50, u32::MAX, &any());
        assert!(matches!(too_much, Err(GpuError::TooLarge { .. })), "{too_much:?}");
        s.budgets(64 * MIB);
        s.set_frame(1);
        let over = s.reserve(65 * MIB, u32::MAX, &within());
        assert!(matches!(over, Err(GpuError::Limit(Limit::Budget { .. }))), "{over:?}");
        assert_eq!(s.made(), made);
        assert_eq!(s.reserve(64 * MIB, u32::MAX, &within()), Ok(()));
        // What exists is in the budget already: regions in it are never refused.
        s.budgets(0);
        s.set_frame(2);
        assert_eq!(s.reserve(0, u32::MAX, &within()), Ok(()));
        // Who does not ask for that gets more.
        assert_eq!(s.reserve(65 * MIB, u32::MAX, &any()), Ok(()));
    });
}

/// A block is not larger than the budget's rest, though less of it was asked for.
#[test]
fn vma204_blocks_that_are_made_ahead_stay_within_the_budget() {
    let mut options = AllocatorOptions::default();
    options.memory.within_budget = true;
    budgeted(options, |s| {
        s.budgets(3 * MIB);
        s.set_frame(1);
        let first = PoolOptions { min_blocks: 1, ..PoolOptions::new(0) };
        let pool = s.create_pool(&first);
        assert!(matches!(pool, Err(GpuError::Limit(Limit::Budget { .. }))), "{pool:?}");
        assert_eq!(s.reserve(MIB, u32::MAX, &any()), Ok(()));
        let reserved = s.total().block_bytes;
        assert!((MIB..=3 * MIB).contains(&reserved), "{reserved} of 3 MiB");
    });
}

/// H118 without frames: the query that a new object caused frees what a heap over its budget keeps.
#[test]
fn h118_empty_blocks_of_a_heap_that_fills_are_freed_without_a_frame() {
    budgeted(AllocatorOptions::default(), |s| {
        let wish = MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL);
        let shared = any().preference(wish);
        s.free(s.take(4096, &shared.dedicated(Never)));
        let kept = s.objects();
        assert_eq!(kept, 1, "an empty block");
        s.budgets(1);
        let own = shared.dedicated(Required);
        (0..40).for_each(|_| s.free(s.take(4096, &own)));
        assert_eq!(s.objects(), 0);
    });
}
