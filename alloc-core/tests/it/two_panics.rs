//! Two destructors that panic one after the other: the second, during the unwinding of the first, aborts the process,
//! which is the language's rule for every container. Until then each value was destroyed once, in order; and where each
//! panic is caught by itself, nothing is lost.
//!
//! Each case aborts in a process of its own.
#![cfg(unix)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crate::scene::root_over;
use crate::witness::Witness;
use alloc_core::{Arena, Context, ContextHandle, TryBox, TryMap, TryVec};
use testkit::Child;

const SIGABRT: i32 = 6;

/// Says its number when it is destroyed, and panics where it is to.
struct Speaks(u32, bool);

impl Drop for Speaks {
    fn drop(&mut self) {
        println!("destroyed {}", self.0);
        assert!(!self.1, "value {} panics", self.0);
    }
}

/// Values 0 to 5, of which 1 and 4 panic.
fn values() -> impl Iterator<Item = Speaks> {
    (0..6).map(|number| Speaks(number, matches!(number, 1 | 4)))
}

/// In a child process `act` must abort at the second panic, having destroyed the values in this order.
fn aborts_at_the_second(name: &str, order: &[u32], act: impl FnOnce(&Context)) {
    if Child::is_child(name) {
        let witness = Witness::new();
        act(&root_over(&witness));
        println!("came back");
        return;
    }
    let end = Child::this_test(name).env("RUST_BACKTRACE", "0").run();
    end.assert_signal(SIGABRT);
    let said: Vec<_> =
        end.stdout.lines().filter_map(|line| line.split_once("destroyed ")?.1.parse::<u32>().ok()).collect();
    assert_eq!(said, order, "{end}");
    assert!(!end.stdout.contains("came back") && end.stderr.contains("panic in a destructor during cleanup"), "{end}");
    assert!(end.stderr.contains("value 4 panics") && end.stderr.contains("value 1 panics"), "{end}");
}

#[test]
fn two_values_of_an_arena_that_panic_abort() {
    aborts_at_the_second("two_values_of_an_arena_that_panic_abort", &[5, 4, 3, 2, 1], |root| {
        let arena = Arena::new_in(root);
        values().for_each(|value| drop(arena.try_own(value).map(drop)));
        drop(arena);
    });
}

#[test]
fn two_owned_values_that_panic_when_their_context_ends_abort() {
    aborts_at_the_second("two_owned_values_that_panic_when_their_context_ends_abort", &[5, 4, 3, 2, 1], |root| {
        let child = root.child("child").expect("memory");
        values().for_each(|value| drop(child.own(value).map(drop)));
        drop(child);
    });
}

#[test]
fn two_owned_values_that_panic_when_their_context_is_cleared_abort() {
    aborts_at_the_second("two_owned_values_that_panic_when_their_context_is_cleared_abort", &[5, 4, 3, 2, 1], |root| {
        values().for_each(|value| drop(root.own(value).map(drop)));
        root.clear();
    });
}

#[test]
fn two_contexts_below_that_panic_in_their_ends_abort() {
    aborts_at_the_second("two_contexts_below_that_panic_in_their_ends_abort", &[5, 4, 3, 2, 1], |root| {
        for value in values() {
            let child = root.child("child").expect("memory");
            drop(child.own(value).map(drop));
            drop(root.own(child).map(drop));
        }
        root.clear();
    });
}

/// Every panic caught by itself: each value goes once, and every block goes back.
#[test]
fn panics_one_at_a_time_lose_nothing() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let witness = Witness::new();
    let root = root_over(&witness);
    let caught = |act: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(act)).is_err();

    // One that panics a time, in each kind of container.
    let mut arena = Arena::new_in(&root);
    for _ in 0..3 {
        values().take(4).for_each(|value| drop(arena.try_own(value).map(drop)));
        assert!(caught(&mut || arena.reset()));
        values().take(4).for_each(|value| drop(arena.try_own(value).map(drop)));
        assert!(caught(&mut || arena.release()));
        assert_eq!(arena.bytes_held(), 0);
    }
    drop(arena);
    let mut list = TryVec::<Speaks, &Context>::new_in(&root);
    values().take(4).for_each(|value| drop(list.try_push(value)));
    assert!(caught(&mut || list.truncate(0)));
    assert_eq!(list.len(), 0);
    values().take(4).for_each(|value| drop(list.try_push(value)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(list))).is_err());
    let counted = Rc::new(());
    let mut map = TryMap::new_in(&root);
    let fill = |map: &mut TryMap<u32, (Rc<()>, Speaks), &Context>| {
        for (number, value) in (0..).zip(values().take(4)) {
            map.try_insert(number, (counted.clone(), value)).map_err(|refused| refused.error).expect("memory");
        }
    };
    fill(&mut map);
    assert!(caught(&mut || map.clear()));
    assert_eq!((map.len(), Rc::strong_count(&counted)), (0, 1), "those that did not panic went as well");
    fill(&mut map);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(map))).is_err());
    assert_eq!(Rc::strong_count(&counted), 1);
    let boxed = TryBox::try_new_in(Speaks(1, true), &root).map_err(|refused| refused.error).expect("memory");
    assert!(catch_unwind(AssertUnwindSafe(|| drop(boxed))).is_err());

    // Two contexts, each with one that panics, ended one after the other; then two values, destroyed by hand.
    let mut contexts: Vec<_> = (0..2)
        .map(|_| {
            let child = root.child("child").expect("memory");
            values().take(4).for_each(|value| drop(child.own(value).map(drop)));
            Some(child)
        })
        .collect();
    for context in &mut contexts {
        assert!(caught(&mut || drop(context.take())));
    }
    let ids: Vec<_> = values().map(|value| root.own(value).map_err(|refused| refused.error).expect("memory")).collect();
    let panicked = ids.iter().filter(|id| caught(&mut || root.destroy(**id).expect("nobody holds it"))).count();
    assert_eq!((panicked, root.owned_values()), (2, 0));

    // A handle that is the last reference: the forgotten hold's value panics in its drop.
    let child = root.child("child").expect("memory");
    let id = child.own(Speaks(1, true)).map_err(|refused| refused.error).expect("memory");
    std::mem::forget(child.get_mut(id).expect("free"));
    let mut last: Option<ContextHandle> = Some(child.handle());
    drop(child);
    assert!(caught(&mut || drop(last.take())));
    std::panic::set_hook(quiet);
    root.close_root().expect("nothing is left");
    witness.assert_empty();
}
