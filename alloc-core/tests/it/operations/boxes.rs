//! `TryBox`.

use std::fmt::Debug;

use alloc_core::{ContextHandle, TryBox, unsize_try_box};
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing, takes};

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["TryBox::try_new_in"], "", new::<S>),
        takes(&["TryBox::try_new_uninit_in"], "", |s, g| {
            drop(s.attempt(
                || g.picture(),
                || TryBox::<[u64; 9], _>::try_new_uninit_in(g.context()),
            ));
        }),
        takes(&["TryBox::try_pin_in"], "", |s, g| {
            assert_eq!(
                *s.attempt(
                    || g.picture(),
                    || TryBox::try_pin_in(7_u64, g.context().handle())
                ),
                7
            );
        }),
        takes(&["TryBox::try_new_uninit_slice_in"], "", |s, g| {
            drop(s.attempt(
                || g.picture(),
                || TryBox::<[u64], _>::try_new_uninit_slice_in(9, g.context()),
            ));
        }),
        takes(&["TryBox::try_new_zeroed_slice_in"], "", |s, g| {
            drop(s.attempt(
                || g.picture(),
                || TryBox::<[u64], _>::try_new_zeroed_slice_in(9, g.context()),
            ));
        }),
        takes(&["TryBox::try_from_slice_in"], "", |s, g| {
            assert_eq!(
                *s.attempt(
                    || g.picture(),
                    || TryBox::try_from_slice_in(&[1, 2, 3], g.context())
                ),
                [1, 2, 3]
            );
        }),
        nothing(
            &[
                "TryBox::allocator",
                "TryBox::assume_init",
                "TryBox::assume_init_slice",
                "TryBox::from_raw_in",
                "TryBox::into_inner",
                "TryBox::into_pin",
                "TryBox::into_raw_with_allocator",
                "TryBox::write",
            ],
            "they read, write in place, or free",
            in_place::<S>,
        ),
    ]
}

fn new<S: Stage>(stage: &S, ground: &Ground) {
    let boxed = stage.attempt(
        || ground.picture(),
        || {
            TryBox::try_new_in([1_u64, 2, 3], ground.context().handle()).map_err(|refused| {
                assert_eq!(refused.value, [1, 2, 3], "the value comes back");
                refused.error
            })
        },
    );
    assert_eq!(*boxed, [1, 2, 3]);
}

fn in_place<S: Stage>(stage: &S, ground: &Ground) {
    let uninit = || {
        TryBox::<u64, ContextHandle>::try_new_uninit_in(ground.context().handle())
            .expect("refused nothing")
    };
    let slice =
        TryBox::<[u32], ContextHandle>::try_new_zeroed_slice_in(3, ground.context().handle())
            .expect("refused nothing");
    let mut boxes = Some((uninit(), uninit(), uninit(), slice));
    stage.attempt_plainly(|| {
        let (first, mut second, third, slice) = boxes.take().expect("made above");
        let first = TryBox::write(first, 5);
        second.write(6);
        // SAFETY: just written.
        let second = unsafe { TryBox::assume_init(second) };
        // SAFETY: zeros are valid.
        let slice = unsafe { TryBox::assume_init_slice(slice) };
        assert_eq!(
            (*second, &*slice, TryBox::allocator(&first).id()),
            (6, [0; 3].as_slice(), ground.context().id())
        );
        let (value, allocator) = TryBox::into_raw_with_allocator(second);
        // SAFETY: just taken apart.
        let second = unsafe { TryBox::from_raw_in(value, allocator) };
        assert_eq!(
            (TryBox::into_inner(first), *TryBox::into_pin(second)),
            (5, 6)
        );
        let third: TryBox<dyn Debug, ContextHandle> = unsize_try_box!(TryBox::write(third, 8));
        assert!(Sink::debug(&third) > 0);
    });
}
