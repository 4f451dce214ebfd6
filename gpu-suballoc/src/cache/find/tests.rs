use std::alloc::System;

use alloc_core::{Context, ContextOptions, FromGlobalAlloc};

use super::*;
use crate::cache::{CacheDevice, CacheLimits, CompiledShader, ShaderCache};
use crate::sync::Ordering::Acquire;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// A lookup of a shader that is removed at that moment names its block, where another shader lies by now. An eviction that sees the word
/// keeps that shader, which must still be evicted although no reference to it is left.
#[test]
fn what_a_lookup_named_for_a_moment_does_not_stay_above_the_limits() {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("test")).expect("memory");
    let limits = |entries| CacheLimits {
        bytes: u64::MAX,
        entries,
    };
    let cache = ShaderCache::<u32, ()>::new(root.handle(), limits(1)).expect("memory");
    let device = CacheDevice::new_unique();
    let owner = cache.owner(device, root.handle()).expect("memory");
    let key = |number| ShaderKey::kernel(device, number);
    let compile = |number: u32| {
        let compile = || {
            Ok(CompiledShader {
                value: number,
                bytes: 1,
            })
        };
        let shader = owner.get_or_compile(key(u64::from(number)), compile);
        assert_eq!(*shader.expect("memory"), number);
    };
    let core = cache.core();
    compile(1);
    // The lookup of the first shader, up to reading its place.
    let place = core
        .tables
        .search(key(1).hash(), |place| Some(NonNull::from(place)))
        .expect("it is there");
    // SAFETY: places live as long as the cache.
    let place = unsafe { place.as_ref() };
    let block = NonNull::new(place.load(Acquire)).expect("it is there");
    // The second shader evicts the first, and the third one evicts the second and reuses the first one's block.
    compile(2);
    compile(3);
    let found = cache.get(key(3)).expect("it is there");
    let third = NonNull::from(&*found);
    assert!(third.addr() > block.addr() && third.addr() < block.addr().saturating_add(128));
    drop(found);
    // The lookup continues: it names the block, whose first shader is gone.
    let record = core.records.of(threads::slot());
    let word = ref_records::publish(&core.records, record, block).expect("a free word");
    cache.set_limits(limits(0));
    assert_eq!(cache.stats().entries, 1, "named, as if it were held");
    let tried = ref_records::confirm(word, place, block);
    assert!(matches!(tried, RefAttempt::Gone(_)));
    let found = core.find_slowly(record, FindAttempt::Gone(block), key(1), None);
    assert!(found.is_none());
    let stats = cache.stats();
    assert_eq!(
        (stats.entries, stats.bytes, stats.dead, stats.refs),
        (0, 0, 0, 0)
    );
}
