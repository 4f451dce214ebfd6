//! What the list of `cache_model` cannot see: keys, growth, what outlives the cache: H59, H60, H68.

use super::*;

#[test]
fn h59_h60_any_number_of_64_bits_is_a_key() {
    cache_scene!(contexts, counts, cache, owner);
    for number in [0, 1, 2, u64::from(u32::MAX), 1 << 63, u64::MAX] {
        drop(get(&owner, &counts, number));
        drop(get(&owner, &counts, number));
    }
    assert_eq!(counts.now(), (6, 6));
}

#[test]
fn h68_what_was_held_before_a_growth_is_let_go_after_it() {
    cache_scene!(contexts, counts, cache, owner);
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
fn work_keeps_its_shader_and_the_cache() {
    cache_scene!(contexts, counts, cache, owner);
    let work = get(&owner, &counts, 5).into_work_ref();
    assert_eq!(owner.release().held, 1);
    drop(cache);
    let work = thread::scope(|threads| threads.spawn(move || work).join().expect("no panic"));
    assert_eq!((work.number, counts.alive.load(SeqCst)), (5, 1));
    drop(work);
    assert_eq!(counts.now(), (1, 0));
    contexts.end();
}

#[test]
fn a_compiler_may_make_nothing_of_no_size() {
    let contexts = Contexts::new();
    let cache = ShaderCache::<(), Broken>::new(contexts.shared.handle(), CacheLimits::NONE)
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
