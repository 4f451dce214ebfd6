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
fn a_compiler_may_make_nothing_of_no_size() {
    let contexts = Contexts::new();
    let cache = ShaderCache::<(), Broken>::new(contexts.shared.handle(), CacheLimits::NONE).expect("memory");
    let owner = own(&cache, CacheDevice::new_unique(), &contexts.a);
    let hold = owner
        .get_or_compile(key(owner.device(), 1), || Ok(CompiledShader { value: (), bytes: 0 }))
        .expect("it compiles");
    assert_eq!(*hold, ());
}
