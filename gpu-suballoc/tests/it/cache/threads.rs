//! H72, and all at once.

use super::*;

/// Finding, compiling, deleting, evicting, owners that come and go, holds that are dropped elsewhere.
#[test]
fn h72_everything_at_once_balances() {
    let rounds = if cfg!(miri) { 20 } else { 4000 };
    cache_scene!(contexts, counts, cache);
    cache.set_limits(CacheLimits { bytes: 3000, entries: 40 });
    let device = CacheDevice::new_unique();
    let (send, receive) = channel();
    thread::scope(|threads| {
        for seed in 0..4_u64 {
            let (cache, counts, contexts, send) = (&cache, &counts, &contexts, send.clone());
            threads.spawn(move || {
                let context = if seed % 2 == 0 { &contexts.a } else { &contexts.b };
                let mut owner = own(cache, device, context);
                let mut rng = Rng::new(seed + 1);
                let mut next = |below| rng.below(below);
                for _ in 0..rounds {
                    let number = next(64);
                    match next(100) {
                        0 => owner = own(cache, device, context),
                        1 => drop(cache.delete_where(|_, shader| shader.number == number)),
                        2 => drop(cache.release_device(CacheDevice::new_unique())),
                        3..10 => send.send(get(&owner, counts, number).into_work_ref()).expect("somebody listens"),
                        10..50 => {
                            if let Some(hold) = cache.get(key(device, number)) {
                                assert_eq!(hold.number, number);
                            }
                        }
                        _ => {
                            let holds =
                                Vec::from_iter((0..next(20)).map(|more| get(&owner, counts, (number + more) % 64)));
                            drop(holds);
                        }
                    }
                }
            });
        }
        drop(send);
        threads.spawn(move || receive.into_iter().for_each(drop));
    });
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.dead, stats.compiling), (0, 0, 0), "all owners are gone");
    let (compiled, alive) = counts.now();
    assert!(compiled > u64::from(rounds > 20) * 64 && alive == 0, "{compiled} {alive}");
    assert_eq!(stats.compiled, compiled);
    drop(cache);
    contexts.end();
}

/// Of a reference that is dropped while another thread evicts one of both sees the other: at rest nothing is left above
/// a limit.
#[test]
fn ge9_references_that_two_threads_drop_leave_nothing_above_the_limit() {
    let rounds = if cfg!(miri) { 10 } else { 1000 };
    cache_scene!(contexts, counts, cache);
    cache.set_limits(CacheLimits { entries: 4, ..CacheLimits::NONE });
    let device = CacheDevice::new_unique();
    let barrier = Barrier::new(2);
    thread::scope(|threads| {
        for context in [&contexts.a, &contexts.b] {
            let (cache, counts, barrier) = (&cache, &counts, &barrier);
            threads.spawn(move || {
                let owner = own(cache, device, context);
                for round in 0..rounds {
                    let first = round * 6;
                    let held = Vec::from_iter((first..first + 6).map(|number| get(&owner, counts, number)));
                    drop(held);
                    barrier.wait();
                    assert!(cache.stats().entries <= 4, "round {round}");
                    barrier.wait();
                }
            });
        }
    });
    drop(cache);
    contexts.end();
}
