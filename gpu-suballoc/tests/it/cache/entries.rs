//! What is found, and for how long: H58 to H63, H68, H71.

use std::sync::atomic::Ordering::SeqCst;

use gpu_suballoc::cache::{CacheDevice, CacheError, CompiledShader, ContentHash, ShaderKey};

use super::bench::{Broken, Contexts, Counts, get, key};

#[test]
fn h58_a_shader_of_one_device_is_never_anothers() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let [one, other] = [CacheDevice::new_unique(), CacheDevice::new_unique()];
    let a = cache.owner(one, contexts.a.handle()).expect("memory");
    let b = cache.owner(other, contexts.b.handle()).expect("memory");
    // Neighbours in device and number.
    for number in 0..100 {
        drop(get(&a, &counts, number));
        drop(get(&b, &counts, number));
    }
    assert_eq!(counts.now(), (200, 200));
    assert_eq!(
        a.get_or_compile(key(other, 1), || counts.make(1)).err(),
        Some(CacheError::OtherDevice)
    );
    drop((a, b));
    drop(cache);
    contexts.end();
}

#[test]
fn h59_h60_any_number_of_64_bits_is_a_key() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    for number in [0, 1, 2, u64::from(u32::MAX), 1 << 63, u64::MAX] {
        drop(get(&owner, &counts, number));
        drop(get(&owner, &counts, number));
    }
    assert_eq!(counts.now(), (6, 6));
}

#[test]
fn h61_a_miss_compiles_once_and_a_failure_is_not_kept() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let wanted = key(owner.device(), 7);
    for round in 1..=2 {
        let failed = owner.get_or_compile(wanted, || Err(Broken(round)));
        assert_eq!(failed.err(), Some(CacheError::Compile(Broken(round))));
        assert!(cache.get(wanted).is_none());
    }
    drop(get(&owner, &counts, 7));
    drop(get(&owner, &counts, 7));
    assert_eq!(
        (counts.now(), cache.stats().failed, cache.stats().hits),
        ((1, 1), 2, 1)
    );
}

#[test]
fn h62_what_was_found_stays_while_it_is_held() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let device = owner.device();
    drop(get(&owner, &counts, 1));
    let hold = cache.get(key(device, 1)).expect("it is there");
    let removed = cache.delete_where(|_, _| true);
    assert_eq!((removed.destroyed, removed.held), (0, 1));
    assert!(cache.get(key(device, 1)).is_none());
    assert_eq!(
        (hold.number, hold.key(), counts.now()),
        (1, key(device, 1), (1, 1))
    );
    drop(hold);
    assert_eq!(counts.now(), (1, 0));
}

#[test]
fn h63_references_balance() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    drop(get(&owner, &counts, 1));
    for _ in 0..3 {
        let holds: Vec<_> = (0..40)
            .map(|_| cache.get(key(owner.device(), 1)).expect("it is there"))
            .collect();
        assert_eq!((owner.in_use(), owner.held_keys().count()), (1, 1));
        assert_eq!(
            cache.delete_where(|_, shader| shader.number == 2).destroyed,
            0
        );
        drop(holds);
        assert_eq!((owner.in_use(), owner.held_keys().count()), (0, 0));
    }
    assert_eq!(
        cache.delete_where(|_, _| true).destroyed,
        1,
        "nobody holds it"
    );
    assert_eq!(counts.now(), (1, 0));
}

#[test]
fn h71_many_kernels_are_compiled_once_and_again_after_their_device_was_released() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let device = CacheDevice::new_unique();
    let owner = cache.owner(device, contexts.a.handle()).expect("memory");
    for compiled in [70, 70, 140] {
        if compiled == 140 {
            assert_eq!(cache.release_device(device).destroyed, 70);
            assert_eq!(counts.now(), (70, 0));
        }
        (0..70).for_each(|number| drop(get(&owner, &counts, number)));
        assert_eq!(counts.now(), (compiled, 70));
    }
}

#[test]
fn h68_ten_thousand_kernels_are_all_found() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    (0..10_000).for_each(|number| drop(get(&owner, &counts, number)));
    assert!((0..10_000).all(|number| {
        cache
            .get(key(owner.device(), number))
            .is_some_and(|hold| hold.number == number)
    }));
    assert_eq!(counts.now(), (10_000, 10_000));
}

#[test]
fn h68_what_was_held_before_a_growth_is_let_go_after_it() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    (0..3).for_each(|number| drop(get(&owner, &counts, number)));
    let found = |number| cache.get(key(owner.device(), number)).expect("it is there");
    let [stays, goes, work] = [found(0), found(1), found(2)];
    (3..200).for_each(|number| drop(get(&owner, &counts, number)));
    let work = work.into_work_ref();
    assert_eq!(
        cache
            .delete_where(|_, shader| (1..3).contains(&shader.number))
            .held,
        2
    );
    assert_eq!(
        (stays.number, goes.number, work.number, counts.now().1),
        (0, 1, 2, 200)
    );
    drop(goes);
    assert_eq!((cache.stats().dead, counts.now().1), (1, 199));
    drop(work);
    drop(stays);
    assert_eq!(
        (
            cache.stats().dead,
            counts.now().1,
            cache.get(key(owner.device(), 0)).is_some()
        ),
        (0, 198, true)
    );
    assert_eq!(
        cache.delete_where(|_, shader| shader.number == 0).destroyed,
        1
    );
}

#[test]
fn two_contents_with_one_key_are_two_shaders() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let same = ShaderKey::content(owner.device(), ContentHash::from_raw(1));
    let of = |content: &[u8], number| {
        owner
            .get_or_compile_from(same, content, || counts.make(number))
            .map(|hold| hold.number)
            .expect("it compiles")
    };
    assert_eq!(
        [
            of(b"one", 1),
            of(b"other", 2),
            of(b"one", 3),
            of(b"other", 4)
        ],
        [1, 2, 1, 2]
    );
    assert_eq!(counts.now(), (2, 2));
    assert_eq!(
        cache
            .get_compiled_from(same, b"other")
            .map(|hold| hold.number),
        Some(2)
    );
    assert!(cache.get_compiled_from(same, b"a third").is_none());
}

#[test]
fn a_compile_may_ask_for_others_but_not_for_itself() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let outer = owner.get_or_compile(key(owner.device(), 1), || {
        assert_eq!(get(&owner, &counts, 2).number, 2);
        let again = owner.get_or_compile(key(owner.device(), 1), || counts.make(1));
        assert_eq!(again.err(), Some(CacheError::Recursive));
        counts.make(1)
    });
    assert_eq!(outer.map(|hold| hold.number), Ok(1));
    assert_eq!(counts.now(), (2, 2));
}

#[test]
fn work_keeps_its_shader_and_the_cache() {
    let (contexts, counts) = (Contexts::new(), Counts::default());
    let cache = contexts.cache();
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let work = get(&owner, &counts, 5).into_work_ref();
    assert_eq!(owner.release().held, 1);
    drop(cache);
    let work = std::thread::scope(|threads| threads.spawn(move || work).join().expect("no panic"));
    assert_eq!((work.number, counts.alive.load(SeqCst)), (5, 1));
    drop(work);
    assert_eq!(counts.now(), (1, 0));
    contexts.end();
}

#[test]
fn a_refusal_of_host_memory_comes_before_the_compile_and_changes_nothing() {
    use alloc_core::{Context, ContextOptions};
    use debug_guard::{FailingAllocator, Fault};

    let mut refusals = 0;
    for nth in 0.. {
        let failing = FailingAllocator::new(&super::bench::SYSTEM, Fault::Never);
        // SAFETY: `failing` outlives the root, which is closed below.
        let root = unsafe { Context::root(&failing, ContextOptions::new("root")) }
            .expect("nothing fails yet");
        let counts = Counts::default();
        let cache =
            gpu_suballoc::ShaderCache::new(root.handle(), gpu_suballoc::cache::CacheLimits::NONE)
                .expect("nothing fails yet");
        failing.arm(Fault::Nth(nth));
        let refused = cache
            .owner(CacheDevice::new_unique(), root.handle())
            .map_err(CacheError::Host)
            .and_then(|owner| {
                for number in 0..24 {
                    let before = counts.now().0;
                    let made =
                        owner.get_or_compile_from(key(owner.device(), number), &[1; 40], || {
                            counts.make(number)
                        });
                    if let Err(error) = made {
                        assert_eq!(
                            (
                                counts.now().0,
                                cache.stats().entries,
                                cache.stats().compiling
                            ),
                            (before, number, 0)
                        );
                        failing.disarm();
                        // The next try succeeds.
                        drop(get(&owner, &counts, number));
                        return Err(error);
                    }
                }
                Ok(())
            });
        failing.disarm();
        drop(cache);
        assert_eq!(counts.now().1, 0);
        root.close_root().expect("nothing is left");
        if failing.refused() == 0 {
            break;
        }
        refusals += 1;
        if let Err(error) = refused {
            assert!(matches!(error, CacheError::Host(_)), "{error:?}");
        }
    }
    // The owner, tables, entries, contents.
    assert!(refusals > 50, "{refusals}");
}

#[test]
fn a_compiler_may_make_nothing_of_no_size() {
    let contexts = Contexts::new();
    let cache = gpu_suballoc::ShaderCache::<(), Broken>::new(
        contexts.shared.handle(),
        gpu_suballoc::cache::CacheLimits::NONE,
    )
    .expect("memory");
    let owner = cache
        .owner(CacheDevice::new_unique(), contexts.a.handle())
        .expect("memory");
    let hold = owner
        .get_or_compile(key(owner.device(), 1), || {
            Ok(CompiledShader {
                value: (),
                bytes: 0,
            })
        })
        .expect("it compiles");
    assert_eq!(*hold, ());
}

/// One of many references is enough, in whatever order the others go.
#[test]
fn h62_the_last_of_many_holds_keeps_its_shader_wherever_it_stands() {
    const HOLDS: usize = 50;
    for keep in 0..HOLDS {
        let (contexts, counts) = (Contexts::new(), Counts::default());
        let cache = contexts.cache();
        let owner = cache
            .owner(CacheDevice::new_unique(), contexts.a.handle())
            .expect("memory");
        drop(get(&owner, &counts, 1));
        let key = key(owner.device(), 1);
        let mut holds: Vec<_> = (0..HOLDS).filter_map(|_| cache.get(key)).collect();
        assert_eq!(holds.len(), HOLDS);
        let kept = holds.swap_remove(keep);
        drop(holds);
        assert_eq!(owner.in_use(), 1, "hold {keep}");
        let removed = cache.delete_where(|_, _| true);
        assert_eq!((removed.held, removed.destroyed), (1, 0), "hold {keep}");
        assert_eq!(counts.now(), (1, 1), "hold {keep}");
        drop(kept);
        assert_eq!(counts.now(), (1, 0), "hold {keep}");
    }
}
