//! Values with a destructor in arenas: in which order they go, and what panics, refusals and moves leave behind.
//!
//! Runs under miri.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::scene::DropLog;
use crate::witness::Witness;
use alloc_core::{Arena, HostError, Scoped};

#[test]
fn m15_types_without_a_destructor_get_no_header() {
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    let used = |make: &dyn Fn()| {
        let before = arena.bytes_used();
        make();
        arena.bytes_used() - before
    };
    assert_eq!(used(&|| *arena.try_own(7_u64).expect("memory") += 1), 8);
    assert_eq!(used(&|| *arena.try_own([0_u8; 24]).expect("memory") = [1; 24]), 24);
    struct Word(#[expect(dead_code, reason = "its size counts")] u64);
    impl Drop for Word {
        fn drop(&mut self) {}
    }
    let header = 2 * size_of::<usize>();
    assert_eq!(used(&|| drop(arena.try_own(Word(1)).map(drop))), header + 8);
    assert_eq!(used(&|| arena.try_own_with(|| Word(1)).map(drop).expect("memory")), header + 8);
}

#[test]
fn values_of_every_alignment_and_of_no_size_are_dropped() {
    thread_local!(static DROPPED: Cell<u32> = const { Cell::new(0) });
    struct Nothing;
    #[repr(align(128))]
    struct Wide(u8);
    fn count() {
        DROPPED.set(DROPPED.get() + 1);
    }
    impl Drop for Nothing {
        fn drop(&mut self) {
            count();
        }
    }
    impl Drop for Wide {
        fn drop(&mut self) {
            assert_eq!(self.0, 9);
            count();
        }
    }
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    for _ in 0..20 {
        arena.try_own(Nothing).expect("memory");
        let wide = arena.try_own(Wide(9)).expect("memory");
        assert!((&raw const *wide).addr().is_multiple_of(128));
    }
    drop(arena);
    assert_eq!(DROPPED.get(), 40);
    w.assert_empty();
}

/// How many values `fill` makes; the one at three fifths panics.
const FILLED: u32 = if cfg!(miri) { 20 } else { 100 };
const PANICS: u32 = FILLED / 5 * 3;

fn fill(arena: &Arena<Scoped<&Witness>>, log: &DropLog) {
    for number in 0..FILLED {
        arena
            .try_own((log.panicking(number, number == PANICS), [0_u64; 40]))
            .map(drop)
            .map_err(|refused| refused.error)
            .expect("memory");
    }
}

#[test]
fn a_destructor_that_panics_keeps_nobody_from_going() {
    for release in [false, true] {
        let (w, log) = (Witness::new(), DropLog::default());
        let mut arena = Arena::new_in(w.source());
        fill(&arena, &log);
        let end = AssertUnwindSafe(|| if release { arena.release() } else { arena.reset() });
        assert!(catch_unwind(end).is_err(), "one value panics");
        assert_eq!(log.take(), (0..FILLED).rev().collect::<Vec<_>>(), "all went, each once");
        assert!(arena.bytes_used() == 0 && w.blocks() <= usize::from(!release));

        // It can be used again; a scope's end is the same.
        arena.try_own(log.value(1000)).map(drop).expect("memory");
        let scope = arena.scope();
        fill(&scope, &log);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(scope))).is_err(), "one value panics");
        assert_eq!(log.take(), (0..FILLED).rev().collect::<Vec<_>>());
        drop(arena);
        assert_eq!(log.take(), [1000]);
        w.assert_empty();
    }
}

#[test]
fn a_refused_value_is_given_back_and_not_dropped() {
    let (w, log) = (Witness::new(), DropLog::default());
    let arena = Arena::new_in(w.source());
    w.set_limit(Some(0));
    let refused = arena.try_own(log.value(1)).map(drop).expect_err("no memory");
    assert!(refused.error.is_out_of_host_memory());
    assert_eq!(log.take(), [0; 0]);
    let made = arena.try_own_with(|| -> String { unreachable!("there is no room for it") });
    assert!(made.is_err());
    w.set_limit(None);
    arena.try_own(refused.value).map(drop).expect("memory again");
    drop(arena);
    assert_eq!(log.take(), [1]);
    w.assert_empty();
}

#[test]
fn a_value_that_was_never_finished_is_not_dropped() {
    let (w, log) = (Witness::new(), DropLog::default());
    let arena = Arena::new_in(w.source());
    let made = catch_unwind(AssertUnwindSafe(|| {
        let _: Result<&mut String, HostError> = arena.try_own_with(|| {
            // What is made on the way is older.
            arena.try_own(log.value(1)).map(drop).expect("memory");
            panic!("no value")
        });
    }));
    assert!(made.is_err());
    let outer = arena.try_own_with(|| {
        arena.try_own(log.value(2)).map(drop).expect("memory");
        log.value(3)
    });
    assert!(outer.is_ok());
    drop(arena);
    assert_eq!(log.take(), [3, 2, 1]);
    w.assert_empty();
}
