//! What a driver needs beside plain objects: handles for the loader, arrays in the object's block, domains that hold
//! the callbacks their own memory comes from, pools.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::rc::Rc;

use crate::common::{App, Call, SYSTEM as OWN};

use alloc_core::{Scope, TryVec};
use vk_callbacks::driver::{ArrayObject, DeviceDomain, InstanceDomain, ObjectPlace, PoolDomain};
use vk_callbacks::{CallbackAllocator, Object};

fn domains(app: &App) -> (InstanceDomain<'static>, DeviceDomain) {
    // SAFETY: the test application follows the rules.
    let instance = unsafe { InstanceDomain::new(&app.callbacks(), &OWN) }.expect("whole");
    // SAFETY: NULL is allowed.
    let device = unsafe { DeviceDomain::new(ptr::null()) }.expect("NULL");
    (instance, device)
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
    let place = unsafe { place.free(&none.chain(None)) }.expect_err("no callbacks").value;
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
    assert_eq!((app.heap.live(), pool_domain.children()), (app_blocks, &[10, 11][..]));
    assert!(pool_domain.remove_child(10) && !pool_domain.remove_child(10));
    assert_eq!((pool_domain.pop_child(), pool_domain.pop_child()), (Some(11), None));

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
    assert!(!other.calls().is_empty(), "freed through what destroy brought");
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

#[test]
fn an_array_whose_items_unwind_leaves_no_block_and_drops_the_value() {
    let app = App::default();
    let (instance, device) = domains(&app);
    let chain = device.chain(&instance, None);
    let value = Rc::new(());
    for last in [0, 5, 9] {
        let create = AssertUnwindSafe(|| {
            let item = |index| {
                if index == last {
                    resume_unwind(Box::new("planted"));
                }
                index
            };
            ArrayObject::create(&chain, Scope::Object, value.clone(), 10, item).is_ok()
        });
        assert!(catch_unwind(create).is_err());
        assert_eq!((app.heap.live(), Rc::strong_count(&value)), (0, 1));
    }
}
