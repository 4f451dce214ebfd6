//! H73: a limit lets go what nobody needs.

use gpu_suballoc::{CacheDevice, CacheLimits, CompiledShader};

use super::bench::{Contexts, Counts, get, key};

#[test]
fn h73_what_was_used_least_goes_and_what_is_held_stays() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    cache.set_limits(CacheLimits {
        bytes: 1000,
        entries: u64::MAX,
    });
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let held: Vec<_> = (0..3).map(|number| get(&owner, &counts, number)).collect();
    for number in 3..500 {
        drop(get(&owner, &counts, number));
        // One that is used all the time.
        drop(get(&owner, &counts, 3));
        assert!(cache.stats().bytes <= 1000, "{:?}", cache.stats());
    }
    assert!(
        held.iter()
            .enumerate()
            .all(|(number, hold)| hold.number == number as u64)
    );
    assert!(
        (0..4).all(|number| cache.get(key(owner.device(), number)).is_some()),
        "held or used"
    );
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.dead, counts.now().1), (10, 0, 10));
    assert!(
        stats.evicted >= 490 && stats.compiled <= 500 + 10,
        "{stats:?}"
    );
}

#[test]
fn h73_entries_are_counted_too_and_a_new_limit_holds_at_once() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    (0..50).for_each(|number| drop(get(&owner, &counts, number)));
    assert_eq!(cache.stats().entries, 50);
    cache.set_limits(CacheLimits {
        bytes: u64::MAX,
        entries: 20,
    });
    assert_eq!((cache.stats().entries, counts.now()), (20, (50, 20)));
    cache.set_limits(CacheLimits {
        bytes: 0,
        entries: u64::MAX,
    });
    assert_eq!((cache.stats().entries, cache.stats().bytes), (0, 0));
    // Larger than the limit: it is there while it is held.
    let hold = get(&owner, &counts, 1);
    assert_eq!((cache.stats().entries, hold.number), (1, 1));
    drop(hold);
    drop(get(&owner, &counts, 2));
    assert_eq!(
        cache.stats().entries,
        1,
        "the one just used stays until the next comes"
    );
}

/// What a compiler says may be anything; the sum is kept in 64 bits, and what was compiled is kept all the same (H61).
#[test]
fn compiled_bytes_overflow_is_counted_up_to_what_64_bits_hold() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let make = |number: u64, bytes: u64| {
        let compiled = owner.get_or_compile(key(owner.device(), number), || {
            counts
                .make(number)
                .map(|made| CompiledShader { bytes, ..made })
        });
        drop(compiled.expect("it compiles"));
    };
    make(1, u64::MAX - 10);
    for number in 2..5 {
        make(number, u64::MAX);
    }
    assert_eq!(
        (
            cache.stats().bytes,
            cache.stats().entries,
            owner.stats().bytes
        ),
        (u64::MAX, 4, u64::MAX)
    );
    cache.set_limits(CacheLimits {
        bytes: 100,
        entries: u64::MAX,
    });
    let stats = cache.stats();
    assert!(
        stats.bytes <= 100 && stats.entries == 4 - stats.evicted && stats.evicted > 0,
        "{stats:?}"
    );
    assert_eq!(cache.delete_where(|_, _| true).destroyed, 4 - stats.evicted);
    assert_eq!(
        (cache.stats().bytes, owner.stats().bytes, counts.now().1),
        (0, 0, 0)
    );
}
