//! `Object`.

use std::cell::RefCell;

use alloc_core::{Rejected, Scope};
use testkit::{Sink, Stage};
use vk_callbacks::driver::{ArrayObject, DeviceDomain, InstanceDomain, ObjectPlace, PoolDomain};
use vk_callbacks::{CallbackError, FallbackChain, Level, Object};

use super::{Ground, Operation, SYSTEM, nothing, takes};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Object::create"], "", |s, g| created(s, g, |chain| Object::create(chain, [7; 4]))),
        takes(&["Object::create_with_scope"], "a cache", |s, g| {
            created(s, g, |chain| Object::create_with_scope(chain, Scope::Cache, [7; 4]));
        }),
        takes(&["Object::set_name"], "the first", |s, g| named(s, g, "")),
        takes(&["Object::set_name"], "another", |s, g| named(s, g, "old")),
        takes(
            &[
                "ArrayObject::create",
                "ArrayObject::destroy",
                "ArrayObject::get",
                "ArrayObject::items",
                "ArrayObject::into_handle",
                "ArrayObject::from_handle",
                "ArrayObject::borrow_handle",
                "ArrayObject::borrow_handle_mut",
            ],
            "",
            arrays::<S>,
        ),
        takes(
            &[
                "ObjectPlace::allocate",
                "ObjectPlace::fill",
                "ObjectPlace::free",
                "Object::vacate",
                "Object::borrow_handle_mut",
            ],
            "",
            places::<S>,
        ),
        takes(&["PoolDomain::new", "PoolDomain::open"], "", opened::<S>),
        takes(
            &[
                "PoolDomain::reserve_children",
                "PoolDomain::add_child",
                "PoolDomain::context",
                "PoolDomain::own",
                "PoolDomain::chain",
                "PoolDomain::remove_child",
                "PoolDomain::pop_child",
                "PoolDomain::children",
                "PoolDomain::replace_callbacks",
                "PoolDomain::close",
            ],
            "",
            pooled::<S>,
        ),
        nothing(&["Object::destroy"], "freeing takes nothing; a refusal gives back the same object", destroy::<S>),
        nothing(
            &[
                "Object::level",
                "Object::get",
                "Object::get_mut",
                "Object::name",
                "Object::into_handle",
                "Object::from_handle",
                "Object::borrow_handle",
                "ObjectRef::get",
                "ObjectRef::name",
                "ObjectRef::level",
            ],
            "they read, and write in place",
            questions::<S>,
        ),
    ]
}

type Created = Result<Object<[u64; 4]>, Rejected<[u64; 4], CallbackError>>;

fn created<S: Stage>(stage: &S, ground: &Ground<'_>, create: fn(&FallbackChain<'_>) -> Created) {
    let object = stage.attempt(
        || ground.picture(),
        || {
            create(&ground.chain()).map_err(|refused| {
                assert_eq!(refused.value, [7; 4], "the value comes back");
                refused.error
            })
        },
    );
    assert_eq!(
        // SAFETY: the chain it was created with.
        unsafe { object.destroy(&ground.chain()) }.expect("its level is there"),
        [7; 4]
    );
}

fn named<S: Stage>(stage: &S, ground: &Ground<'_>, before: &str) {
    let chain = ground.chain();
    let mut object = Object::create(&chain, 1_u8).expect("refused nothing");
    // SAFETY: the chain it was created with.
    unsafe { object.set_name(&chain, before) }.expect("refused nothing");
    let object = RefCell::new(object);
    stage.attempt(
        || {
            assert_eq!(object.borrow().name().unwrap_or(""), before);
            ground.picture()
        },
        // SAFETY: the chain that it was created with.
        || unsafe { object.borrow_mut().set_name(&chain, "a new name") },
    );
    let object = object.into_inner();
    assert_eq!(object.name(), Some("a new name"));
    // SAFETY: the chain that it was created with.
    unsafe { object.destroy(&chain) }.expect("its level is there");
}

fn destroy<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let chain = ground.chain();
    let mut object = Object::create(&chain, 1_u8).expect("refused nothing");
    // SAFETY: the chain it was created with.
    unsafe { object.set_name(&chain, "a name") }.expect("refused nothing");
    let mut object = Some(object);
    stage.attempt_plainly(|| {
        let object = object.take().expect("made above");
        // SAFETY: a chain without its level is refused before anything is touched.
        let refused = unsafe { object.destroy(&FallbackChain::new(&SYSTEM)) }.expect_err("its level is missing");
        assert!(Sink::debug(&refused) > 0);
        // SAFETY: the chain it was created with.
        unsafe { refused.value.destroy(&chain) }.expect("its level is there");
    });
}

fn questions<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let chain = ground.chain();
    let mut object = Some(Object::create(&chain, 1_u8).expect("refused nothing"));
    let object = stage.attempt_plainly(|| {
        let mut object = object.take().expect("made above");
        *object.get_mut() += 1;
        assert_eq!((*object.get(), object.level(), object.name()), (2, Level::Device, None));
        let handle = object.into_handle();
        // SAFETY: the handle of a live object, only looked at meanwhile.
        let borrowed = unsafe { Object::<u8>::borrow_handle(handle) }.expect("not null");
        assert_eq!((*borrowed.get(), borrowed.level(), borrowed.name()), (2, Level::Device, None));
        // SAFETY: the handle of a live object, which nothing else uses now.
        unsafe { Object::<u8>::from_handle(handle) }.expect("not null")
    });
    // SAFETY: the chain it was created with.
    unsafe { object.destroy(&chain) }.expect("its level is there");
}

fn arrays<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let chain = ground.chain();
    let object = stage.attempt(
        || ground.picture(),
        || ArrayObject::create(&chain, Scope::Object, 7_u8, 3, |index| index).map_err(|refused| refused.error),
    );
    assert_eq!((*object.get(), object.items()), (7, &[0, 1, 2][..]));
    let handle = object.into_handle();
    // SAFETY: the handle of a live object, used exclusively, here and below.
    let (value, items) = unsafe { ArrayObject::<u8, usize>::borrow_handle_mut(handle) }.expect("not null");
    (*value, items[2]) = (8, 5);
    // SAFETY: the handle of a live object, used exclusively.
    let borrowed = unsafe { ArrayObject::<u8, usize>::borrow_handle(handle) };
    assert_eq!(borrowed, Some((&8, &[0, 1, 5][..])));
    // SAFETY: the handle of a live object, used exclusively.
    let object = unsafe { ArrayObject::<u8, usize>::from_handle(handle) }.expect("not null");
    // SAFETY: the chain it was created with.
    unsafe { object.destroy(&chain) }.expect("its level is there");
}

fn places<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let chain = ground.chain();
    let place = stage.attempt(|| ground.picture(), || ObjectPlace::allocate(&chain, Scope::Device));
    let handle = place.fill(7).into_handle();
    // SAFETY: the handle of a live object, used exclusively, here and below.
    *unsafe { Object::<u8>::borrow_handle_mut(handle) }.expect("not null") += 1;
    // SAFETY: the handle of a live object, used for the last time.
    let (place, value) = unsafe { Object::<u8>::from_handle(handle) }.expect("not null").vacate();
    assert_eq!(value, 8);
    // SAFETY: the chain it was created with.
    unsafe { place.free(&chain) }.expect("its level is there");
}

fn opened<S: Stage>(stage: &S, ground: &Ground<'_>) {
    in_pool(ground, |pool, device, instance| {
        stage.attempt(
            || ground.picture(),
            // SAFETY: all three stay where they are until `in_pool` has closed the pool.
            || unsafe { pool.borrow_mut().open("pool", device, instance) },
        );
    });
}

fn pooled<S: Stage>(stage: &S, ground: &Ground<'_>) {
    in_pool(ground, |pool, device, instance| {
        // SAFETY: pool, device and instance stay where they are until `in_pool` has closed the pool.
        unsafe { pool.borrow_mut().open("pool", device, instance) }.expect("refused nothing");
        stage.attempt(|| ground.picture(), || pool.borrow_mut().reserve_children(1));
        let mut pool = pool.borrow_mut();
        pool.add_child(1).expect("reserved");
        assert_eq!(pool.children(), [1]);
        assert!(pool.context().is_some() && pool.own().is_some());
        assert!(pool.chain(device, instance).at(Level::Object).is_some());
        assert_eq!((pool.pop_child(), pool.remove_child(1)), (Some(1), false));
    });
}

type Pool = RefCell<PoolDomain>;

/// Runs `body` with a pool that has the ground's callbacks, and closes it.
fn in_pool(ground: &Ground<'_>, body: impl FnOnce(&Pool, &DeviceDomain, &InstanceDomain<'_>)) {
    // SAFETY: no callbacks.
    let instance = unsafe { InstanceDomain::new(std::ptr::null(), &SYSTEM) }.expect("none");
    // SAFETY: NULL is no callbacks.
    let device = unsafe { DeviceDomain::new(std::ptr::null()) }.expect("none");
    // SAFETY: the ground's callbacks are complete and outlive the pool.
    let pool = unsafe { PoolDomain::new(&raw const ground.raw) }.expect("complete");
    let pool = RefCell::new(pool);
    body(&pool, &device, &instance);
    // SAFETY: nothing was brought, and `body` has ended.
    unsafe { pool.borrow_mut().replace_callbacks(None) };
    pool.borrow_mut().close().expect("no child");
}
