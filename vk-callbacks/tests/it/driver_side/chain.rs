//! The most specific allocator serves, and gets back what it served.

use super::*;

/// A pipeline is created with allocators of its own, and with a cache that was created with others, or with none.
#[test]
fn v29_cache_memory_comes_from_the_cache_and_never_from_the_object() {
    let apps = [App::default(), App::default(), App::default()];
    let [cache, pipeline, device] = apps.each_ref().map(of);
    let chain = FallbackChain::new(&OWN).object(Some(&pipeline)).device(Some(&device));
    assert_eq!(chain.cache(Some(&cache)).resolve(Scope::Cache).level, Level::Cache);
    assert_eq!(chain.cache(LevelAllocator::NONE).resolve(Scope::Cache).level, Level::Device);
    assert_eq!(chain.resolve(Scope::Cache).level, Level::Object, "the command creates the cache itself");
    for scope in [Scope::Command, Scope::Object] {
        assert_eq!(chain.cache(Some(&cache)).resolve(scope).level, Level::Object, "{scope}");
    }
    let creating = FallbackChain::new(&OWN).object(Some(&cache)).device(Some(&device));
    let made = Object::create_with_scope(&creating, Scope::Cache, 5_u32).expect("memory");
    let asked = apps[0].calls();
    assert!(matches!(asked[..], [Call::Alloc { scope, .. }] if scope == raw(Scope::Cache)), "{asked:?}");
    assert_eq!(
        // SAFETY: the chain it was created with.
        unsafe { made.destroy(&creating) }.expect("its level is there"),
        5
    );
}

/// For each scope and each set of levels that are there, the first that the specification names.
#[test]
fn v28_the_most_specific_allocator_serves() {
    let apps = [App::default(), App::default(), App::default()];
    let hosts = apps.each_ref().map(of);
    for mask in 0..8_usize {
        let there = |i: usize| (mask >> i & 1 == 1).then(|| &hosts[i] as &DynHost<'_>);
        let chain = FallbackChain::new(&OWN).object(there(0)).device(there(1)).instance(there(2));
        for scope in Scope::ALL {
            let skipped = match scope {
                Scope::Command | Scope::Object | Scope::Cache => 0,
                Scope::Device => 1,
                Scope::Instance => 2,
            };
            let expected = (skipped..3).find(|i| mask >> i & 1 == 1);
            let served = chain.resolve(scope);
            let levels = [Level::Object, Level::Device, Level::Instance];
            assert_eq!(served.level, expected.map_or(Level::Default, |i| levels[i]), "mask {mask:03b}, scope {scope}");
            let before: Vec<_> = apps.iter().map(|app| app.calls().len()).collect();
            drop(chain.allocate(layout(16, 8), scope).expect("memory"));
            for (i, app) in apps.iter().enumerate() {
                assert_eq!(
                    app.calls().len() - before[i],
                    if expected == Some(i) { 2 } else { 0 },
                    "app {i}, mask {mask:03b}"
                );
            }
        }
    }
}

#[test]
fn v42_destroying_without_the_allocator_gives_the_object_back() {
    let app = App::default();
    let host = of(&app);
    let with = FallbackChain::new(&OWN).object(Some(&host));
    let object = Object::create(&with, String::from("kept")).expect("memory");
    let handle = object.into_handle();
    let word = ptr::with_exposed_provenance_mut::<usize>(handle as usize);
    // SAFETY: the word that the loader finds, of a live object.
    assert_eq!(unsafe { word.read() }, vk_callbacks::driver::LOADER_MAGIC);
    // SAFETY: the word that the loader overwrites, of a live object.
    unsafe { word.write(7) };
    // SAFETY: the object's handle, used no more.
    let object = unsafe { Object::<String>::from_handle(handle) }.expect("not null");
    // SAFETY: nothing is freed through an incompatible allocator: it is refused.
    let refused = unsafe { object.destroy(&FallbackChain::new(&OWN)) }.expect_err("no allocator at the object level");
    assert_eq!(refused.error, CallbackError::LevelMissing(Level::Object));
    // SAFETY: the object lives at the same place.
    assert_eq!(unsafe { word.read() }, 7, "the loader's word");
    assert_eq!((refused.value.get().as_str(), app.heap.live()), ("kept", 1));
    assert_eq!(
        // SAFETY: the same allocator.
        unsafe { refused.value.destroy(&with) }.expect("destroyed"),
        "kept"
    );
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn m27_without_callbacks_the_drivers_own_allocator_serves_and_alignment_is_kept() {
    let chain = FallbackChain::new(&OWN);
    for align in [1, 8, 64, 4096] {
        let block = chain.allocate_zeroed(layout(100, align), Scope::Object).expect("memory");
        assert_eq!(block.level(), Level::Default);
        assert!(block.as_ptr().as_ptr().addr().is_multiple_of(align), "asserted at most, in Mesa; kept here");
        // SAFETY: the block holds 100 zeros.
        assert!((0..100).all(|i| unsafe { block.as_ptr().as_ptr().wrapping_add(i).read() } == 0));
    }
}

#[test]
fn v43_m28_a_block_goes_back_to_whom_it_came_from() {
    let (object, device) = (App::default(), App::default());
    let (object_host, device_host) = (of(&object), of(&device));
    let creating = FallbackChain::new(&OWN).device(Some(&device_host));
    let kept = creating.allocate(layout(64, 8), Scope::Object).expect("memory").store();
    assert_eq!(kept.level(), Level::Device);
    // Freed by a command that has an allocator of its own: Mesa's vk_free2 with that pAllocator would take the wrong
    // one. SAFETY: the device level is the same.
    unsafe { kept.free(&creating.object(Some(&object_host))) }.expect("given back");
    assert_eq!((device.heap.live(), object.calls().len()), (0, 0));

    let kept = creating.object(Some(&object_host)).allocate(layout(64, 8), Scope::Object).expect("memory").store();
    // SAFETY: it is refused.
    let refused = unsafe { kept.free(&creating) }.expect_err("no allocator at that level");
    assert_eq!((refused.error, object.heap.live()), (CallbackError::LevelMissing(Level::Object), 1));
    // SAFETY: the same allocator.
    unsafe { refused.value.free(&creating.object(Some(&object_host))) }.expect("given back");
    assert_eq!(object.heap.live(), 0);
}

#[test]
fn m29_instance_and_device_keep_callbacks_by_value_and_fall_back() {
    let (for_instance, for_device) = (App::default(), App::default());
    let mut given = Box::new(for_instance.callbacks());
    // SAFETY: readable now; the application follows the rules.
    let instance = unsafe { InstanceDomain::new(&raw const *given, &OWN) }.expect("whole");
    *given = for_device.callbacks();
    // SAFETY: readable now; the application follows the rules.
    let device = unsafe { DeviceDomain::new(&raw const *given) }.expect("whole");
    drop(given);
    // SAFETY: NULL.
    let plain = unsafe { DeviceDomain::new(ptr::null()) }.expect("NULL is whole");
    assert_eq!(device.chain(&instance, None).resolve(Scope::Device).level, Level::Device);
    assert_eq!(plain.chain(&instance, None).resolve(Scope::Device).level, Level::Instance);
    drop(device.chain(&instance, None).allocate(layout(8, 8), Scope::Object).expect("memory"));
    assert_eq!((for_instance.calls().len(), for_device.calls().len()), (0, 2));
    drop(plain.chain(&instance, None).allocate(layout(8, 8), Scope::Object).expect("memory"));
    assert_eq!((for_instance.calls().len(), for_device.calls().len()), (2, 2));
}

/// The options of callbacks that a driver keeps go into a chain as they are: by reference, by `as_ref()`, and as any
/// allocator's.
#[test]
fn a_chain_takes_the_options_that_a_driver_keeps() {
    let app = App::default();
    let given = app.callbacks();
    // SAFETY: the application outlives the body.
    let kept = unsafe { CallbackAllocator::from_ptr(&raw const given) }.expect("whole");
    // SAFETY: NULL.
    let none = unsafe { CallbackAllocator::from_ptr(ptr::null()) }.expect("NULL is whole");
    let level = |chain: FallbackChain<'_>| chain.resolve(Scope::Cache).level;
    let own = FallbackChain::new(&OWN);
    assert_eq!(level(own.instance(&kept).device(&none)), Level::Instance);
    assert_eq!(level(own.device(kept.as_ref())), Level::Device);
    assert_eq!(level(own.object(kept.as_ref().map(|kept| kept as &DynHost<'_>))), Level::Object);
    assert_eq!(level(own.device(&kept).cache(&none)), Level::Device);
    assert_eq!(level(own.object(&kept).cache(&kept)), Level::Cache);
    assert_eq!(level(own.object(none.as_ref()).device(LevelAllocator::NONE)), Level::Default);
    drop(own.device(&kept).allocate(layout(8, 8), Scope::Object).expect("memory"));
    assert_eq!(app.calls().len(), 2);
}
