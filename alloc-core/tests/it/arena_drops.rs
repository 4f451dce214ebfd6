//! Values with a destructor in arenas: in which order they go, and what panics, refusals and moves leave behind.
//!
//! Runs under miri.

use std::alloc::System;
use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::witness::Witness;
use alloc_core::{
    Arena, Budget, Context, ContextHandle, ContextOptions, FromGlobalAlloc, HostError, Scoped,
    TryVec, held_state_locks,
};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// The numbers of values that were dropped, in that order.
#[derive(Clone, Default)]
struct DropLog(Arc<Mutex<Vec<u32>>>);

impl DropLog {
    fn value(&self, number: u32) -> Logged {
        self.panicking(number, false)
    }
    fn panicking(&self, number: u32, panics: bool) -> Logged {
        Logged {
            log: self.clone(),
            number,
            panics,
        }
    }
    fn taken(&self) -> Vec<u32> {
        mem::take(&mut *self.0.lock().expect("no panic inside"))
    }
}

struct Logged {
    log: DropLog,
    number: u32,
    panics: bool,
}

impl Drop for Logged {
    fn drop(&mut self) {
        assert_eq!(held_state_locks(), 0, "a destructor runs outside of locks");
        self.log
            .0
            .lock()
            .expect("no panic inside")
            .push(self.number);
        assert!(!self.panics, "value {} panics", self.number);
    }
}

fn root() -> Context {
    Context::root_static(&SYSTEM, ContextOptions::new("root")).expect("memory")
}

#[test]
fn values_are_dropped_newest_first_wherever_they_lie() {
    let (w, log) = (Witness::new(), DropLog::default());
    let mut arena = Arena::new_in(w.source());
    let count = if cfg!(miri) { 60 } else { 300 };
    for number in 0..count {
        // Plain blocks between them, large ones with chunks of their own, and many chunks.
        arena.try_alloc([number; 7]).expect("memory");
        if number % 50 == 0 {
            arena
                .try_own(([0_u64; 3000], log.value(number)))
                .expect("memory");
        } else {
            let placed = arena.try_own(log.value(number)).expect("memory");
            assert_eq!(placed.number, number);
        }
    }
    assert!(arena.chunks_held() > if cfg!(miri) { 3 } else { 8 });
    assert_eq!(
        log.taken(),
        [0_u32; 0],
        "nothing is dropped before its time"
    );
    arena.reset();
    assert_eq!(log.taken(), (0..count).rev().collect::<Vec<_>>());
    arena.reset();
    arena.release();
    assert_eq!(log.taken(), [0_u32; 0], "and nothing twice");
    arena.try_own(log.value(7)).expect("memory");
    drop(arena);
    assert_eq!(log.taken(), [7]);
    w.assert_empty();
}

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
    assert_eq!(
        used(&|| *arena.try_own([0_u8; 24]).expect("memory") = [1; 24]),
        24
    );
    struct Word(#[expect(dead_code, reason = "its size counts")] u64);
    impl Drop for Word {
        fn drop(&mut self) {}
    }
    let header = 2 * size_of::<usize>();
    assert_eq!(used(&|| drop(arena.try_own(Word(1)).map(drop))), header + 8);
    assert_eq!(
        used(&|| arena.try_own_with(|| Word(1)).map(drop).expect("memory")),
        header + 8
    );
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
        let end = AssertUnwindSafe(|| {
            if release {
                arena.release()
            } else {
                arena.reset()
            }
        });
        assert!(catch_unwind(end).is_err(), "one value panics");
        assert_eq!(
            log.taken(),
            (0..FILLED).rev().collect::<Vec<_>>(),
            "all went, each once"
        );
        assert!(arena.bytes_used() == 0 && w.blocks() <= usize::from(!release));

        // It can be used again; a scope's end is the same.
        arena.try_own(log.value(1000)).map(drop).expect("memory");
        let scope = arena.scope();
        fill(&scope, &log);
        assert!(
            catch_unwind(AssertUnwindSafe(|| drop(scope))).is_err(),
            "one value panics"
        );
        assert_eq!(log.taken(), (0..FILLED).rev().collect::<Vec<_>>());
        drop(arena);
        assert_eq!(log.taken(), [1000]);
        w.assert_empty();
    }
}

#[test]
fn dropping_an_arena_whose_value_panics_gives_every_chunk_back() {
    let (w, log) = (Witness::new(), DropLog::default());
    let mut arena = Arena::new_in(w.source());
    // A spare chunk, too.
    arena.try_alloc([0_u64; 100]).expect("memory");
    arena.scope().try_alloc([0_u64; 900]).expect("memory");
    for number in 0..9 {
        arena
            .try_own(log.panicking(number, number == 4))
            .map(drop)
            .expect("memory");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(arena))).is_err());
    assert_eq!(log.taken(), [8, 7, 6, 5, 4, 3, 2, 1, 0]);
    w.assert_empty();
}

#[test]
fn a_refused_value_is_given_back_and_not_dropped() {
    let (w, log) = (Witness::new(), DropLog::default());
    let arena = Arena::new_in(w.source());
    w.set_limit(Some(0));
    let refused = arena
        .try_own(log.value(1))
        .map(drop)
        .expect_err("no memory");
    assert!(refused.error.is_out_of_host_memory());
    assert_eq!((refused.value.number, log.taken()), (1, vec![]));
    let made = arena.try_own_with(|| -> Logged { unreachable!("there is no room for it") });
    assert!(made.is_err());
    w.set_limit(None);
    arena
        .try_own(refused.value)
        .map(drop)
        .expect("memory again");
    drop(arena);
    assert_eq!(log.taken(), [1]);
    w.assert_empty();
}

#[test]
fn a_value_that_was_never_finished_is_not_dropped() {
    let (w, log) = (Witness::new(), DropLog::default());
    let arena = Arena::new_in(w.source());
    let made = catch_unwind(AssertUnwindSafe(|| {
        let _: Result<&mut Logged, HostError> = arena.try_own_with(|| {
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
    assert_eq!(outer.expect("memory").number, 3);
    drop(arena);
    assert_eq!(log.taken(), [3, 2, 1]);
    w.assert_empty();
}

#[test]
fn values_move_with_their_arena_to_another_context_and_thread() {
    let (root, log) = (root(), DropLog::default());
    let [a, b] = ["a", "b"].map(|name| root.child(name).expect("memory"));
    let mut arena = Arena::new_in(a.handle());
    let count = if cfg!(miri) { 8 } else { 50 };
    for number in 0..count {
        arena
            .try_own((log.value(number), [0_u64; 10]))
            .map(drop)
            .map_err(|refused| refused.error)
            .expect("memory");
    }
    arena
        .move_to(b.handle())
        .expect("the same allocator and scope");
    assert_eq!((log.taken(), a.usage().total().live_bytes), (vec![], 0));
    assert_eq!(b.usage().total().live_bytes, arena.bytes_held() as u64);
    thread::spawn(move || drop(arena)).join().expect("no panic");
    assert_eq!(log.taken(), (0..count).rev().collect::<Vec<_>>());
    assert_eq!(b.usage().total().live_bytes, 0);

    // Refused: it is the arena it was.
    let poor = root
        .child_with(ContextOptions::new("poor").budget(Budget::exact(10)))
        .expect("memory");
    let mut arena = Arena::new_in(a.handle());
    arena.try_own(log.value(1)).map(drop).expect("memory");
    let error = arena
        .move_to(poor.handle())
        .expect_err("10 bytes are short");
    assert!(matches!(error, HostError::OverBudget { .. }));
    assert_eq!(log.taken(), [0_u32; 0]);
    drop(arena);
    assert_eq!(log.taken(), [1]);
    drop((a, b, poor));
    root.close_root().expect("nothing is left");
}

/// Destructors that allocate and free, in the context behind the arena and in arenas of their own, while the arena is going.
#[test]
fn destructors_may_use_the_context_behind_the_arena() {
    struct Busy(ContextHandle, TryVec<u8, ContextHandle>);
    impl Drop for Busy {
        fn drop(&mut self) {
            let mut more = TryVec::<u64, _>::new_in(self.0.clone());
            more.try_extend_from_slice(&[1; 50]).expect("memory");
            let mut own = Arena::new_in(self.0.clone());
            own.try_own(more).map(drop).expect("memory");
            own.reset();
            self.1.try_extend_from_slice(&[2; 100]).expect("memory");
        }
    }
    let root = root();
    let context = root.child("busy").expect("memory");
    let mut arena = Arena::new_in(context.handle());
    for _ in 0..if cfg!(miri) { 3 } else { 20 } {
        arena
            .try_own(Busy(context.handle(), TryVec::new_in(context.handle())))
            .map(drop)
            .expect("memory");
    }
    arena.reset();
    assert_eq!(
        context.usage().total().live_bytes,
        arena.bytes_held() as u64
    );
    drop(arena);
    assert_eq!(context.usage().total().live_bytes, 0);
    drop(context);
    root.close_root().expect("nothing is left");
}
