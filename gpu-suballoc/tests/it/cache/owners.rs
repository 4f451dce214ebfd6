//! Whose entries they are: H25 to H27, H64 to H67, H74, H75.

use gpu_suballoc::cache::CacheDevice;

use super::bench::{Contexts, Counts, get, key};

#[test]
fn h25_h26_h27_contexts_share_and_each_takes_its_own_along() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let device = CacheDevice::new_unique();
    let a = cache.owner(device, contexts.a.handle()).expect("memory");
    let b = cache.owner(device, contexts.b.handle()).expect("memory");
    // A compiles 0 to 9, B 10 to 19; each uses all.
    (0..10).for_each(|number| drop(get(&a, &counts, number)));
    (10..20).for_each(|number| drop(get(&b, &counts, number)));
    for owner in [&a, &b] {
        (0..20).for_each(|number| drop(get(owner, &counts, number)));
    }
    assert_eq!(counts.now(), (20, 20));
    assert_eq!(
        (a.stats().entries, b.stats().entries, cache.stats().entries),
        (10, 10, 20)
    );
    let removed = a.release();
    assert_eq!((removed.destroyed, removed.held), (10, 0));
    // B's own go on being found; A's are compiled anew, exactly once.
    (0..20).for_each(|number| drop(get(&b, &counts, number)));
    (0..20).for_each(|number| drop(get(&b, &counts, number)));
    assert_eq!((counts.now(), b.stats().entries), ((30, 20), 20));
}

#[test]
fn h64_a_running_kernel_outlives_the_release_of_its_owner() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let device = CacheDevice::new_unique();
    let a = cache.owner(device, contexts.a.handle()).expect("memory");
    drop(get(&a, &counts, 1));
    drop(get(&a, &counts, 2));
    let running = cache.get(key(device, 1)).expect("it is there");
    assert_eq!(
        a.release(),
        gpu_suballoc::cache::RemovalCounts {
            destroyed: 1,
            held: 1
        }
    );
    assert_eq!(
        (running.number, counts.now(), cache.stats().dead),
        (1, (2, 1), 1)
    );
    drop(running);
    assert_eq!((counts.now(), cache.stats().dead), ((2, 0), 0));
    assert_eq!(
        contexts.bytes()[0],
        0,
        "A's memory went back with the last hold"
    );
}

#[test]
fn h65_a_device_that_comes_again_finds_nothing_of_the_one_before() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let device = CacheDevice::new_unique();
    let a = cache.owner(device, contexts.a.handle()).expect("memory");
    let held = get(&a, &counts, 1);
    assert_eq!(cache.release_device(device).held, 1);
    // The same handle's value, say, and another device.
    let again = CacheDevice::new_unique();
    assert_ne!(device, again);
    let b = cache.owner(again, contexts.b.handle()).expect("memory");
    drop(get(&b, &counts, 1));
    assert_eq!(counts.now(), (2, 2));
    drop(held);
    assert_eq!(
        (counts.now(), cache.stats().dead, cache.stats().entries),
        ((2, 1), 0, 1)
    );
}

#[test]
fn h66_the_last_handle_takes_all_along() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    (0..300).for_each(|number| drop(get(&owner, &counts, number)));
    let other = cache.clone();
    drop(cache);
    assert_eq!(counts.now(), (300, 300));
    drop(owner);
    assert_eq!((counts.now(), other.stats().entries), ((300, 0), 0));
    drop(other);
    contexts.end();
}

#[test]
fn h67_those_that_a_predicate_wants_go() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    (0..10).for_each(|number| drop(get(&owner, &counts, number)));
    let held = cache.get(key(owner.device(), 4)).expect("it is there");
    let mut seen = Vec::new();
    let removed = cache.delete_where(|key, shader| {
        assert_eq!(alloc_core::held_state_locks(), 0);
        seen.push((key, shader.number));
        shader.number % 2 == 0
    });
    assert_eq!((removed.destroyed, removed.held, seen.len()), (4, 1, 10));
    assert!(
        seen.iter()
            .all(|(seen, number)| *seen == key(owner.device(), *number))
    );
    let left: Vec<u64> = (0..10)
        .filter(|number| cache.get(key(owner.device(), *number)).is_some())
        .collect();
    assert_eq!((left, held.number), (vec![1, 3, 5, 7, 9], 4));
    drop(held);
    assert_eq!(counts.now(), (10, 5));
}

#[test]
fn h74_h75_an_entry_lies_in_its_owners_memory_whoever_runs_and_drops_it() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let device = CacheDevice::new_unique();
    let a = cache.owner(device, contexts.a.handle()).expect("memory");
    let b = cache.owner(device, contexts.b.handle()).expect("memory");
    drop(get(&a, &counts, 1));
    let [of_a, of_b, _] = contexts.bytes();
    assert!(of_a > 0 && of_b == 0);
    // B runs A's: nothing of B's is in it.
    let by_b = get(&b, &counts, 1);
    assert_eq!(contexts.bytes()[..2], [of_a, 0]);
    drop(a);
    assert_eq!(contexts.bytes()[..2], [of_a, 0], "B still runs it");
    std::thread::scope(|threads| {
        threads.spawn(move || drop(by_b));
    });
    assert_eq!(
        contexts.bytes()[..2],
        [0, 0],
        "given back to A's, by B, on another thread"
    );
    assert_eq!(counts.now(), (1, 0));
}

#[test]
fn a_strict_release_is_refused_while_one_is_held_and_changes_nothing() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let device = CacheDevice::new_unique();
    let mut owner = cache.owner(device, contexts.a.handle()).expect("memory");
    (0..3).for_each(|number| drop(get(&owner, &counts, number)));
    let hold = cache.get(key(device, 2)).expect("it is there");
    let refused = owner.release_unused().expect_err("one is held");
    owner = refused.0;
    assert_eq!(
        (refused.1, owner.stats().entries, counts.now()),
        (1, 3, (3, 3))
    );
    assert!(cache.get(key(device, 0)).is_some());
    drop(hold);
    assert_eq!(
        owner
            .release_unused()
            .map_err(|_| ())
            .expect("nobody holds one")
            .destroyed,
        3
    );
}

/// Nothing is left of owners that went, but of those whose entries are still held.
#[test]
fn a_thousand_owners_come_and_go_in_the_room_of_a_few() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let device = CacheDevice::new_unique();
    let first = cache.owner(device, contexts.a.handle()).expect("memory");
    let held = get(&first, &counts, 0).into_work_ref();
    drop(first);
    cache.trim();
    let before = contexts.bytes();
    for number in 1..1000 {
        let owner = cache.owner(device, contexts.b.handle()).expect("memory");
        drop(get(&owner, &counts, number));
        assert_eq!((owner.stats().entries, owner.stats().dead), (1, 0));
    }
    cache.trim();
    assert_eq!((contexts.bytes(), counts.now()), (before, (1000, 1)));
    drop(held);
    assert_eq!(counts.now().1, 0);
}
