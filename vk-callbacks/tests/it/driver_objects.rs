//! What a driver needs beside plain objects: handles for the loader, arrays in the object's block, domains that hold the callbacks
//! their own memory comes from, pools.

use std::alloc::System;
use std::ptr;

use crate::common::{App, Call};
use std::sync::atomic::Ordering::SeqCst;

use alloc_core::{FromGlobalAlloc, Scope, TryVec};
use vk_callbacks::driver::{
    ArrayObject, DeviceDomain, InstanceDomain, LOADER_MAGIC, ObjectPlace, PoolDomain,
};
use vk_callbacks::{CallbackAllocator, Level, Object};

static OWN: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

fn domains(app: &App) -> (InstanceDomain<'static>, DeviceDomain) {
    // SAFETY: the test application follows the rules.
    let instance = unsafe { InstanceDomain::new(&app.callbacks(), &OWN) }.expect("whole");
    // SAFETY: NULL is allowed.
    let device = unsafe { DeviceDomain::new(ptr::null()) }.expect("NULL");
    (instance, device)
}

#[test]
fn a_handle_begins_with_the_loaders_word_which_the_loader_may_overwrite() {
    let app = App::default();
    let (instance, device) = domains(&app);
    let chain = device.chain(&instance, None);
    let queue = Object::create_with_scope(&chain, Scope::Device, 41_u32).expect("memory");
    assert_eq!((queue.level(), *queue.get()), (Level::Instance, 41));
    let handle = queue.into_handle();
    let word = ptr::with_exposed_provenance_mut::<usize>(handle as usize);
    // SAFETY: the handle is the address of a word.
    assert_eq!(unsafe { word.read() }, LOADER_MAGIC);
    // SAFETY: what the loader does, with its own table's address.
    unsafe { word.write(0xABCD) };
    // SAFETY: this object's handle, which nothing else uses.
    let value = unsafe { Object::<u32>::borrow_handle_mut(handle) }.expect("not NULL");
    *value += 1;
    // SAFETY: this object's handle, which nothing else uses.
    let borrowed = unsafe { Object::<u32>::borrow_handle(handle) };
    assert_eq!(borrowed.map(|queue| *queue.get()), Some(42));
    // SAFETY: NULL.
    assert!(unsafe { Object::<u32>::from_handle(0) }.is_none());
    // SAFETY: the last use of this object's handle.
    let queue = unsafe { Object::<u32>::from_handle(handle) }.expect("not NULL");
    // SAFETY: the chain it was created with.
    assert_eq!(unsafe { queue.destroy(&chain) }.expect("its level"), 42);
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn a_value_and_its_array_are_one_block() {
    let app = App::default();
    let (instance, device) = domains(&app);
    let chain = device.chain(&instance, None);
    for length in [0, 1, 1000] {
        let before = app.calls().len();
        let items = |index: usize| index as u64 * 3;
        let object =
            ArrayObject::create(&chain, Scope::Object, 7_u8, length, items).expect("memory");
        assert_eq!(app.calls().len(), before + 1, "one request");
        assert_eq!((*object.get(), object.items().len()), (7, length));
        let handle = object.into_handle();
        // SAFETY: this object's handle, which nothing else uses.
        let borrowed = unsafe { ArrayObject::<u8, u64>::borrow_handle_mut(handle) };
        let (value, all) = borrowed.expect("not NULL");
        *value = 8;
        all.iter_mut().for_each(|item| *item += 1);
        // SAFETY: this object's handle, which nothing else uses.
        let (value, all) =
            unsafe { ArrayObject::<u8, u64>::borrow_handle(handle) }.expect("not NULL");
        assert_eq!(*value, 8);
        assert!((0..).zip(all).all(|(index, item)| *item == index * 3 + 1));
        // SAFETY: the last use of this object's handle.
        let object = unsafe { ArrayObject::<u8, u64>::from_handle(handle) }.expect("not NULL");
        // SAFETY: the chain it was created with.
        assert_eq!(unsafe { object.destroy(&chain) }.expect("its level"), 8);
        assert_eq!(app.heap.live(), 0);
    }
    let too_large = ArrayObject::create(&chain, Scope::Object, (), usize::MAX / 8, |_| 0_u64);
    assert!(too_large.is_err(), "no such layout");
    app.refuses.store(true, SeqCst);
    let refused = ArrayObject::create(&chain, Scope::Object, "back", 3, |_| 0_u64);
    assert_eq!(refused.expect_err("refused").value, "back");
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn a_domain_lies_in_memory_of_its_own_callbacks_and_is_freed_by_those_that_destroy_brings() {
    let app = App::default();
    // SAFETY: the test application follows the rules.
    let domain = unsafe { InstanceDomain::new(&app.callbacks(), &OWN) }.expect("whole");
    let place = ObjectPlace::allocate(&domain.chain(None), Scope::Instance).expect("memory");
    let handle = place.fill(domain).into_handle();
    assert_eq!(app.heap.live(), 1);

    let other = App::compatible(&app);
    // SAFETY: this object's handle, used for the last time.
    let object = unsafe { Object::<InstanceDomain<'_>>::from_handle(handle) }.expect("not NULL");
    let (place, _) = object.vacate();
    // SAFETY: the test application follows the rules.
    let brought = unsafe { InstanceDomain::new(&other.callbacks(), &OWN) }.expect("whole");
    // SAFETY: no callbacks.
    let none = unsafe { InstanceDomain::new(ptr::null(), &OWN) }.expect("NULL");
    // SAFETY: a chain without the level refuses, and nothing happens.
    let place = unsafe { place.free(&none.chain(None)) }
        .expect_err("no callbacks")
        .value;
    assert_eq!(app.heap.live(), 1);
    // SAFETY: compatible callbacks.
    unsafe { place.free(&brought.chain(None)) }.expect("its level");
    assert!(matches!(other.calls().as_slice(), [Call::Free]));
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn v34_what_a_pools_children_hold_comes_from_the_pools_callbacks() {
    let (app, pools) = (App::default(), App::default());
    let (instance, device) = domains(&app);
    // SAFETY: the test application follows the rules.
    let own = unsafe { CallbackAllocator::from_raw(&pools.callbacks()) }.expect("whole");
    // SAFETY: the test application follows the rules.
    let domain = unsafe { PoolDomain::new(&pools.callbacks()) }.expect("whole");
    let chain = device.chain(&instance, Some(&own));
    let mut pool = Object::create(&chain, domain).expect("memory");
    assert!(pool.get_mut().reserve_children(1).is_err(), "not open yet");
    // SAFETY: the three domains stay where they are until it is closed below.
    unsafe { pool.get_mut().open("pool", &device, &instance) }.expect("memory");
    let app_blocks = app.heap.live();

    let pool_domain = pool.get_mut();
    pool_domain.reserve_children(2).expect("memory");
    let context = pool_domain.context().expect("open").handle();
    let mut recorded = TryVec::new_in(context);
    recorded.try_push(5_u64).expect("memory");
    for child in [10, 11] {
        pool_domain.add_child(child).expect("reserved");
    }
    assert_eq!(
        (app.heap.live(), pool_domain.children()),
        (app_blocks, &[10, 11][..])
    );
    assert!(pool_domain.remove_child(10) && !pool_domain.remove_child(10));
    assert_eq!(
        (pool_domain.pop_child(), pool_domain.pop_child()),
        (Some(11), None)
    );

    let refused = pool_domain.close();
    assert!(refused.is_err(), "a child holds memory");
    let other = App::compatible(&pools);
    // SAFETY: compatible callbacks.
    let brought = unsafe { CallbackAllocator::from_raw(&other.callbacks()) }.expect("whole");
    let before = pools.calls().len();
    // SAFETY: compatible callbacks; this thread alone has the pool, and runs no callback.
    unsafe { pool_domain.replace_callbacks(Some(brought)) };
    drop(recorded);
    pool_domain.close().expect("no child");
    assert_eq!(pools.calls().len(), before, "also what a child holds");
    assert!(
        !other.calls().is_empty(),
        "freed through what destroy brought"
    );
    // SAFETY: the chain it was created with.
    drop(unsafe { pool.destroy(&chain) }.expect("its level"));
    assert_eq!((pools.heap.live(), app.heap.live()), (0, app_blocks));
}

/// A pool without callbacks draws on the device's, the instance's, the driver's own: the first there is.
#[test]
fn v30_a_pool_without_callbacks_draws_on_the_next_level() {
    let app = App::default();
    let (instance, device) = domains(&app);
    // SAFETY: NULL is allowed.
    let without = unsafe { InstanceDomain::new(ptr::null(), &OWN) }.expect("NULL");
    for (given, expected) in [(&instance, 1), (&without, 0)] {
        // SAFETY: NULL is allowed.
        let mut pool = Box::new(unsafe { PoolDomain::new(ptr::null()) }.expect("NULL"));
        // SAFETY: the box and both domains stay until it is closed.
        unsafe { pool.open("pool", &device, given) }.expect("memory");
        assert_eq!(app.heap.live(), expected);
        pool.close().expect("no child");
        assert_eq!(app.heap.live(), 0);
    }
}
