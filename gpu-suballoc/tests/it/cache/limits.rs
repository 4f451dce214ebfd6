//! H73: a limit lets go what nobody needs.

use super::*;

#[test]
fn h73_what_was_used_least_goes_and_what_is_held_stays() {
    cache_scene!(contexts, counts, cache, owner);
    cache.set_limits(CacheLimits { bytes: 1000, entries: u64::MAX });
    let held = Vec::from_iter((0..3).map(|number| get(&owner, &counts, number)));
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

/// What a compiler says may be anything; the sum is kept in 64 bits, and what was compiled is kept all the same (H61).
#[test]
fn compiled_bytes_overflow_is_counted_up_to_what_64_bits_hold() {
    cache_scene!(contexts, counts, cache, owner);
    let make = |number: u64, bytes: u64| {
        let compiled = owner.get_or_compile(key(owner.device(), number), || {
            counts.make(number).map(|made| CompiledShader { bytes, ..made })
        });
        drop(compiled.expect("it compiles"));
    };
    make(1, u64::MAX - 10);
    for number in 2..5 {
        make(number, u64::MAX);
    }
    assert_eq!((cache.stats().bytes, cache.stats().entries, owner.stats().bytes), (u64::MAX, 4, u64::MAX));
    cache.set_limits(CacheLimits { bytes: 100, entries: u64::MAX });
    let stats = cache.stats();
    assert!(stats.bytes <= 100 && stats.entries == 4 - stats.evicted && stats.evicted > 0, "{stats:?}");
    assert_eq!(cache.delete_where(|_, _| true).destroyed, 4 - stats.evicted);
    assert_eq!((cache.stats().bytes, owner.stats().bytes, counts.now().1), (0, 0, 0));
}

#[test]
fn h61_a_context_that_was_closed_refuses_before_the_compile() {
    cache_scene!(contexts, counts, cache);
    cache.set_limits(CacheLimits { entries: 1, ..CacheLimits::NONE });
    let child = contexts.a.child("closed below").expect("memory");
    let owner = cache.owner(CacheDevice::new_unique(), child.handle()).expect("memory");
    get_each(&owner, &counts, 0..3);
    drop(child);
    let refused = owner.get_or_compile(key(owner.device(), 3), || counts.make(3));
    assert!(matches!(refused, Err(CacheError::Host(HostError::Closed { .. }))), "{refused:?}");
    assert_eq!(counts.now(), (3, 1), "nothing was compiled");
}

#[test]
fn h68_ge9_a_trim_frees_tables_that_nothing_lies_in_whoever_uses_the_cache() {
    cache_scene!(contexts, counts, cache);
    let device = CacheDevice::new_unique();
    let owner = own(&cache, device, &contexts.a);
    get_each(&owner, &counts, 0..10);
    let few = contexts.bytes()[2];
    let held = get(&owner, &counts, 3).into_work_ref();
    get_each(&owner, &counts, 10..20_000);
    assert!(
        (0..20_000)
            .step_by(7)
            .all(|number| { cache.get(key(device, number)).is_some_and(|hold| hold.number == number) })
    );
    let many = contexts.bytes()[2];
    assert!(many > 20 * few, "{few} {many}");
    assert_eq!(cache.trim(), 0, "all of it is used");
    assert_eq!(cache.delete_where(|key, _| key != self::key(device, 3)).destroyed, 19_999);
    assert_eq!(contexts.bytes()[2], many, "without a trim all of it stays");

    // Other handles, owners and references are no obstacle.
    let other = cache.clone();
    let freed = other.trim();
    assert_eq!(held.number, 3, "through a growth and a shrinking");
    assert_eq!(many - contexts.bytes()[2], freed);
    assert!(contexts.bytes()[2] <= few, "{} of {many}", contexts.bytes()[2]);
    drop((held, other));

    // What lived is found; what is new finds room; a second trim finds nothing.
    assert_eq!(get(&owner, &counts, 3).number, 3);
    assert_eq!(counts.now().0, 20_000, "not compiled again");
    assert_eq!(cache.trim(), 0);
    get_each(&owner, &counts, 0..1000);
    assert!((0..1000).all(|number| cache.get(key(device, number)).is_some()));
    assert_eq!(owner.stats().entries, 1000);
    drop(owner);
    assert!(cache.trim() == 0 && contexts.bytes()[2] < few);
    assert_eq!((counts.now().1, cache.stats().entries), (0, 0));
    let owner = own(&cache, device, &contexts.b);
    assert_eq!(get(&owner, &counts, 5).number, 5);
    drop(owner);
    drop(cache);
    contexts.end();
}

/// Whichever tables the shaders of a device lay in, they go with its owner.
#[test]
fn h69_owners_that_come_and_go_leave_no_memory() {
    cache_scene!(contexts, counts, cache);
    let device = CacheDevice::new_unique();
    let first = own(&cache, device, &contexts.b);
    // What is held of an owner that is gone, and of each device a thousandth owner: none of them is in the way.
    let held = get(&first, &counts, 9).into_work_ref();
    drop(first);
    cache.trim();
    let empty = contexts.bytes();
    for round in 0..1000 {
        let device = [device, CacheDevice::new_unique()][round % 2];
        let owner = own(&cache, device, &contexts.a);
        get_each(&owner, &counts, 0..2);
        assert_ne!(contexts.bytes(), empty);
        assert_eq!((owner.stats().entries, owner.stats().dead), (2, 0));
        if round % 4 < 2 {
            assert_eq!(owner.release().destroyed, 2);
        } else {
            assert_eq!(owner.release_unused().expect("unused").destroyed, 2);
        }
        assert_eq!(contexts.bytes(), empty, "{round}");
    }
    drop(held);
    assert_eq!(counts.now(), (2001, 0));
    drop(cache);
    contexts.end();
}

/// A compile in flight keeps the place that it reserved, and a refused smaller table leaves the larger one.
#[test]
fn ge9_a_trim_during_compiles_loses_nothing() {
    cache_scene!(contexts, counts, cache, owner);
    get_each(&owner, &counts, 0..2000);
    cache.delete_where(|_, _| true);
    fn nested<'c>(owner: &Owner<'c>, counts: &'c Counts, number: u64) -> Result<CompiledShader<Shader<'c>>, Broken> {
        if number > 0 {
            let before = owner.get_or_compile(key(owner.device(), number), || nested(owner, counts, number - 1));
            assert_eq!(before.expect("it compiles").number, number - 1);
        } else {
            owner.cache().trim();
        }
        counts.make(number)
    }
    let top = owner.get_or_compile(key(owner.device(), 65), || nested(&owner, &counts, 64));
    assert_eq!(top.expect("it compiles").number, 64);
    assert_eq!((cache.stats().entries, cache.stats().compiling), (65, 0));
    assert!((1..=65).all(|number| {
        let found = cache.get(key(owner.device(), number));
        found.is_some_and(|held| held.number == number - 1)
    }));
    drop(owner);
    drop(cache);
    contexts.end();
}

/// However many shaders came and went, the tables are as large as what lives needs.
#[test]
fn h69_what_came_and_went_leaves_no_trace_in_the_tables() {
    let rounds = if cfg!(miri) { 500 } else { 50_000 };
    cache_scene!(contexts, counts, cache, owner);
    cache.set_limits(CacheLimits { entries: 100, ..CacheLimits::NONE });
    (0..rounds / 10).for_each(|number| drop(get(&owner, &counts, number)));
    let early = contexts.bytes()[2];
    get_each(&owner, &counts, rounds / 10..rounds);
    assert_eq!((counts.now(), cache.stats().entries), ((rounds, 100), 100));
    assert!(contexts.bytes()[2] <= 2 * early, "{early}");
    assert!(early < 64 << 10, "{early}");
}
