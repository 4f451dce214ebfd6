//! `Object`.

use std::cell::RefCell;

use alloc_core::Scope;
use testkit::{Sink, Stage};
use vk_callbacks::{Chain, Level, Object, ObjectRefused};

use super::{Ground, Operation, SYSTEM, nothing, takes};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Object::create"], "", |s, g| created(s, g, |chain| Object::create(chain, [7; 4]))),
        takes(&["Object::create_with_scope"], "a cache", |s, g| {
            created(s, g, |chain| Object::create_with_scope(chain, Scope::Cache, [7; 4]));
        }),
        takes(&["Object::set_name"], "the first", |s, g| named(s, g, "")),
        takes(&["Object::set_name"], "another", |s, g| named(s, g, "old")),
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

type Created = Result<Object<[u64; 4]>, ObjectRefused<[u64; 4]>>;

fn created<S: Stage>(stage: &S, ground: &Ground<'_>, create: fn(&Chain<'_>) -> Created) {
    let object = stage.attempt(
        || ground.picture(),
        || {
            create(&ground.chain()).map_err(|refused| {
                assert_eq!(refused.given, [7; 4], "the value comes back");
                refused.error
            })
        },
    );
    // SAFETY: the chain it was created with.
    assert_eq!(unsafe { object.destroy(&ground.chain()) }.expect("its level is there"), [7; 4]);
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
        // SAFETY: as above.
        || unsafe { object.borrow_mut().set_name(&chain, "a new name") },
    );
    let object = object.into_inner();
    assert_eq!(object.name(), Some("a new name"));
    // SAFETY: as above.
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
        let refused = unsafe { object.destroy(&Chain::new(&SYSTEM)) }.expect_err("its level is missing");
        assert!(Sink::debug(&refused) > 0);
        // SAFETY: the chain it was created with.
        unsafe { refused.given.destroy(&chain) }.expect("its level is there");
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
        // SAFETY: as above.
        unsafe { Object::<u8>::from_handle(handle) }.expect("not null")
    });
    // SAFETY: the chain it was created with.
    unsafe { object.destroy(&chain) }.expect("its level is there");
}
