//! H73: a limit lets go what nobody needs.

use gpu_suballoc::{CacheDevice, CacheLimits};

use crate::bench::{Contexts, Counts, get, key};

#[test]
fn h73_what_was_used_least_goes_and_what_is_held_stays() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    cache.set_limits(CacheLimits { bytes: 1000, entries: u64::MAX });
    let owner = cache.owner(CacheDevice::fresh(), contexts.a.handle()).expect("memory");
    let held: Vec<_> = (0..3).map(|number| get(&owner, &counts, number)).collect();
    for number in 3..500 {
        drop(get(&owner, &counts, number));
        // One that is used all the time.
        drop(get(&owner, &counts, 3));
        assert!(cache.stats().bytes <= 1000, "{:?}", cache.stats());
    }
    assert!(held.iter().enumerate().all(|(number, hold)| hold.number == number as u64));
    assert!((0..4).all(|number| cache.get(key(owner.device(), number)).is_some()), "held or used");
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.dead, counts.now().1), (10, 0, 10));
    assert!(stats.evicted >= 490 && stats.compiled <= 500 + 10, "{stats:?}");
}

#[test]
fn h73_entries_are_counted_too_and_a_new_limit_holds_at_once() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache.owner(CacheDevice::fresh(), contexts.a.handle()).expect("memory");
    (0..50).for_each(|number| drop(get(&owner, &counts, number)));
    assert_eq!(cache.stats().entries, 50);
    cache.set_limits(CacheLimits { bytes: u64::MAX, entries: 20 });
    assert_eq!((cache.stats().entries, counts.now()), (20, (50, 20)));
    cache.set_limits(CacheLimits { bytes: 0, entries: u64::MAX });
    assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
    // Larger than the limit: it is there while it is held.
    let hold = get(&owner, &counts, 1);
    assert_eq!((cache.stats().entries, hold.number), (1, 1));
    drop(hold);
    drop(get(&owner, &counts, 2));
    assert_eq!(cache.stats().entries, 1, "the one just used stays until the next comes");
}
