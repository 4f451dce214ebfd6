//! `TryVec`.

use std::cell::RefCell;

use alloc_core::{ContextHandle, HostError, TryVec};
use testkit::{MemoryUse, Sink, Stage};

use super::{Ground, Operation, nothing, takes};

type Array = TryVec<u32, ContextHandle>;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["TryVec::try_with_capacity_in"], "", |s, g| {
            made(s, g, || {
                TryVec::try_with_capacity_in(10, g.context().handle())
            });
        }),
        takes(&["TryVec::try_from_elem_in"], "", |s, g| {
            made(s, g, || {
                TryVec::try_from_elem_in(7, 10, g.context().handle())
            })
        }),
        takes(&["TryVec::try_from_slice_in"], "", |s, g| {
            made(s, g, || {
                TryVec::try_from_slice_in(&[1, 2, 3], g.context().handle())
            });
        }),
        takes(&["TryVec::try_push"], "into an empty one", |s, g| {
            changed(s, g, TryVec::new_in(g.context().handle()), |array| {
                Ok(array.try_push(1)?)
            });
        }),
        takes(
            &["TryVec::try_push"],
            "over a borrowed context",
            borrowed::<S>,
        ),
        takes(&["TryVec::try_push"], "", |s, g| {
            full(s, g, |array| Ok(array.try_push(1)?))
        }),
        takes(&["TryVec::try_insert"], "", |s, g| {
            full(s, g, |array| Ok(array.try_insert(1, 9)?))
        }),
        takes(&["TryVec::try_reserve"], "", |s, g| {
            full(s, g, |array| array.try_reserve(1))
        }),
        takes(&["TryVec::try_reserve_exact"], "", |s, g| {
            full(s, g, |array| array.try_reserve_exact(3))
        }),
        takes(&["TryVec::try_extend_from_slice"], "", |s, g| {
            full(s, g, |array| array.try_extend_from_slice(&[1; 9]))
        }),
        takes(&["TryVec::try_extend"], "of a known length", |s, g| {
            full(s, g, |array| array.try_extend(0..9))
        }),
        takes(&["TryVec::try_append"], "", append::<S>),
        takes(&["TryVec::try_resize"], "", |s, g| {
            full(s, g, |array| array.try_resize(50, 3))
        }),
        takes(&["TryVec::try_resize_with"], "", |s, g| {
            full(s, g, |array| array.try_resize_with(50, || 3))
        }),
        takes(&["TryVec::try_shrink_to_fit"], "", |s, g| {
            roomy(s, g, TryVec::try_shrink_to_fit)
        }),
        takes(&["TryVec::try_shrink_to"], "", |s, g| {
            roomy(s, g, |array| array.try_shrink_to(20))
        }),
        takes(&["TryVec::try_clone"], "", |s, g| {
            let array = TryVec::try_from_slice_in(&[1, 2, 3], g.context().handle())
                .expect("refused nothing");
            made(s, g, || array.try_clone());
        }),
        takes(&["TryVec::try_into_boxed_slice"], "", boxed::<S>),
        Operation {
            names: &["TryVec::try_extend"],
            how: "of an unknown length",
            takes: MemoryUse::MemoryButKeeps(
                "room taken on the way stays when even shrinking is refused, as its docs say",
            ),
            body: |s, g| {
                full(s, g, |array| {
                    array.try_extend((0..40).filter(|n| n % 2 == 0))
                })
            },
        },
        nothing(
            &[
                "TryVec::new_in",
                "TryVec::allocator",
                "TryVec::as_mut_slice",
                "TryVec::as_slice",
                "TryVec::capacity",
                "TryVec::clear",
                "TryVec::drain",
                "TryVec::from_raw_parts_in",
                "TryVec::into_raw_parts_with_allocator",
                "TryVec::pop",
                "TryVec::remove",
                "TryVec::retain",
                "TryVec::set_len",
                "TryVec::spare_capacity_mut",
                "TryVec::swap_remove",
                "TryVec::truncate",
                "TryVecIntoIter::as_slice",
            ],
            "they read, or make shorter within the block",
            within_the_block::<S>,
        ),
    ]
}

fn made<S: Stage>(stage: &S, ground: &Ground, make: impl FnMut() -> Result<Array, HostError>) {
    assert_ne!(stage.attempt(|| ground.picture(), make).capacity(), 0);
}

/// Changes an array; a refusal leaves length, content and capacity.
fn changed<S: Stage>(
    stage: &S,
    ground: &Ground,
    array: Array,
    mut change: impl FnMut(&mut Array) -> Result<(), HostError>,
) {
    let array = RefCell::new(array);
    stage.attempt(
        || {
            let array = array.borrow();
            let sum = array
                .iter()
                .zip(1..)
                .map(|(element, at)| u64::from(*element) * at)
                .sum::<u64>();
            (array.len(), array.capacity(), sum, ground.picture())
        },
        || change(&mut array.borrow_mut()),
    );
}

/// One without spare room.
fn full<S: Stage>(
    stage: &S,
    ground: &Ground,
    change: impl FnMut(&mut Array) -> Result<(), HostError>,
) {
    let array =
        TryVec::try_from_slice_in(&[5, 6, 7], ground.context().handle()).expect("refused nothing");
    changed(stage, ground, array, change);
}

/// One with plenty.
fn roomy<S: Stage>(
    stage: &S,
    ground: &Ground,
    change: impl FnMut(&mut Array) -> Result<(), HostError>,
) {
    let mut array =
        TryVec::try_with_capacity_in(100, ground.context().handle()).expect("refused nothing");
    array.try_extend(0..9).expect("there is room");
    changed(stage, ground, array, change);
}

fn borrowed<S: Stage>(stage: &S, ground: &Ground) {
    let array = RefCell::new(TryVec::new_in(ground.context()));
    stage.attempt(
        || (array.borrow().len(), ground.picture()),
        || array.borrow_mut().try_push("text"),
    );
}

fn append<S: Stage>(stage: &S, ground: &Ground) {
    let other = RefCell::new(
        TryVec::try_from_slice_in(&[1, 2], ground.context().handle()).expect("refused nothing"),
    );
    full(stage, ground, |array| {
        let before = other.borrow().len();
        let answer = array.try_append(&mut other.borrow_mut());
        assert_eq!(
            other.borrow().len(),
            if answer.is_ok() { 0 } else { before }
        );
        answer
    });
}

fn boxed<S: Stage>(stage: &S, ground: &Ground) {
    let mut array =
        TryVec::try_with_capacity_in(10, ground.context().handle()).expect("refused nothing");
    array.try_push(3).expect("there is room");
    let array = RefCell::new(Some(array));
    let boxed = stage.attempt(
        || ground.picture(),
        || {
            array
                .take()
                .expect("given back")
                .try_into_boxed_slice()
                .map_err(|refused| {
                    assert_eq!(refused.value.capacity(), 10);
                    array.replace(Some(refused.value));
                    refused.error
                })
        },
    );
    assert_eq!(&*boxed, &[3]);
}

fn within_the_block<S: Stage>(stage: &S, ground: &Ground) {
    let mut array =
        TryVec::try_with_capacity_in(20, ground.context().handle()).expect("refused nothing");
    stage.attempt_plainly(|| {
        assert_eq!(TryVec::<u8, _>::new_in(ground.context()).capacity(), 0);
        array.try_extend(0..10).expect("there is room");
        array.retain(|n| *n != 0);
        assert_eq!(
            (
                array.pop(),
                array.remove(0),
                array.swap_remove(0),
                array.remove(99)
            ),
            (Some(9), Some(1), Some(2), None)
        );
        array.drain(1..3).expect("in the range").for_each(drop);
        array.truncate(4);
        array.as_mut_slice().reverse();
        array.spare_capacity_mut()[0].write(5);
        // SAFETY: one more was just written.
        unsafe { array.set_len(array.len() + 1) };
        assert_eq!(
            (
                array.as_slice().len(),
                array.capacity(),
                array.allocator().id()
            ),
            (5, 20, ground.context().id())
        );
        assert!(Sink::debug(&array) > 0);
        let empty = TryVec::new_in(ground.context().handle());
        let (first, len, capacity, allocator) =
            std::mem::replace(&mut array, empty).into_raw_parts_with_allocator();
        // SAFETY: just taken apart.
        array = unsafe { TryVec::from_raw_parts_in(first, len, capacity, allocator) };
        let empty = TryVec::new_in(ground.context().handle());
        let mut values = std::mem::replace(&mut array, empty).into_iter();
        let (first, last) = (values.next(), values.next_back());
        assert_eq!(
            (values.as_slice().len(), values.len(), first.is_some(), last),
            (3, 3, true, Some(5))
        );
        array.clear();
    });
}
