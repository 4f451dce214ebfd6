//! `TryString`.

use std::cell::RefCell;
use std::fmt::Write;

use alloc_core::{ContextHandle, HostError, TryString, TryVec};
use testkit::{Sink, Stage};

use super::{Ground, Operation, nothing, takes};

type Text = TryString<ContextHandle>;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["TryString::try_with_capacity_in"], "", |s, g| {
            made(s, g, || {
                TryString::try_with_capacity_in(10, g.context().handle())
            });
        }),
        takes(&["TryString::try_from_str_in"], "", |s, g| {
            made(s, g, || {
                TryString::try_from_str_in("a text", g.context().handle())
            });
        }),
        takes(&["TryString::try_join_in"], "", |s, g| {
            made(s, g, || {
                TryString::try_join_in(&["a", "b", "c"], ", ", g.context().handle())
            });
        }),
        takes(&["TryString::try_clone"], "", |s, g| {
            let text = full_text(g);
            made(s, g, || text.try_clone());
        }),
        takes(&["TryString::try_push_str"], "", |s, g| {
            changed(s, g, |text| text.try_push_str("more"))
        }),
        takes(&["TryString::try_push"], "", |s, g| {
            changed(s, g, |text| text.try_push('\u{20ac}'))
        }),
        takes(&["TryString::try_reserve"], "", |s, g| {
            changed(s, g, |text| text.try_reserve(1))
        }),
        takes(&["TryString::try_write_fmt"], "", |s, g| {
            changed(s, g, |text| {
                text.try_write_fmt(format_args!("{:0100}{}", 1, "end"))
            });
        }),
        takes(
            &["TryString::try_write_fmt"],
            "through `fmt::Write`",
            |s, g| {
                changed(s, g, |text| {
                    text.write_char('x').map_err(|_| HostError::TooLarge)
                });
            },
        ),
        takes(&["TryString::try_shrink_to_fit"], "", shrunk::<S>),
        nothing(
            &[
                "TryString::new_in",
                "TryString::allocator",
                "TryString::as_str",
                "TryString::capacity",
                "TryString::clear",
                "TryString::from_utf8",
                "TryString::into_bytes",
                "TryString::pop",
                "TryString::truncate",
            ],
            "they read, or make shorter within the block",
            within_the_block::<S>,
        ),
    ]
}

fn made<S: Stage>(stage: &S, ground: &Ground, make: impl FnMut() -> Result<Text, HostError>) {
    assert_ne!(stage.attempt(|| ground.picture(), make).capacity(), 0);
}

fn full_text(ground: &Ground) -> Text {
    TryString::try_from_str_in("full", ground.context().handle()).expect("refused nothing")
}

/// Changes a text without spare room; a refusal leaves it.
fn changed<S: Stage>(
    stage: &S,
    ground: &Ground,
    mut change: impl FnMut(&mut Text) -> Result<(), HostError>,
) {
    let text = RefCell::new(full_text(ground));
    stage.attempt(
        || {
            let text = text.borrow();
            (text.as_str() == "full", text.capacity(), ground.picture())
        },
        || change(&mut text.borrow_mut()),
    );
    assert!(text.borrow().starts_with("full"));
}

fn shrunk<S: Stage>(stage: &S, ground: &Ground) {
    let mut text =
        TryString::try_with_capacity_in(100, ground.context().handle()).expect("refused nothing");
    text.try_push_str("short").expect("there is room");
    let text = RefCell::new(text);
    stage.attempt(
        || (text.borrow().capacity(), ground.picture()),
        || text.borrow_mut().try_shrink_to_fit(),
    );
    assert_eq!(
        (text.borrow().capacity(), text.borrow().as_str()),
        (5, "short")
    );
}

fn within_the_block<S: Stage>(stage: &S, ground: &Ground) {
    let mut text = Some(full_text(ground));
    stage.attempt_plainly(|| {
        assert_eq!(TryString::new_in(ground.context()).as_str(), "");
        let mut text = text.take().expect("made above");
        assert_eq!(
            (text.pop(), text.as_str(), text.allocator().id()),
            (Some('l'), "ful", ground.context().id())
        );
        text.truncate(2);
        assert!(Sink::debug(&text) > 0);
        let bytes: TryVec<u8, _> = text.into_bytes();
        let mut text = TryString::from_utf8(bytes).expect("valid text");
        text.clear();
        assert_eq!((text.as_str(), text.capacity()), ("", 4));
    });
}
