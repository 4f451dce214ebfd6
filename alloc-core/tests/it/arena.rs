//! Arenas: where blocks lie, what is given back and when, and what a refusal leaves behind.

mod linear;
mod model;
mod refusals;
mod scopes;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::scene::{limited, root_over};
use crate::witness::Witness;
use alloc_core::{
    AllocError, Allocator, Arena, ArenaScope, Budget, Context, ContextOptions, FromGlobalAlloc, HostAllocator,
    HostError, HostSource, Misuse, Scope, Scoped, TryString, TryVec,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

type WitnessArena<'w> = Arena<Scoped<&'w Witness>>;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// For want of room, or to another allocator; an empty one may go anywhere.
#[test]
fn an_arena_that_cannot_move_stays_whole() {
    let (w, elsewhere) = (Witness::new(), Witness::new());
    let (root, other) = (root_over(&w), root_over(&elsewhere));
    let short = limited(&root, Budget::exact(900));
    let mut arena = Arena::new_in(root.handle());
    let value = NonNull::from(arena.try_alloc(5_u32).unwrap());
    let before = (root.subtree_usage().total().live_bytes, w.bytes());
    let error = arena.move_to(short.handle()).unwrap_err();
    assert!(matches!(error, HostError::OverBudget { context, .. } if context == short.id()));
    let error = arena.move_to(other.handle()).unwrap_err();
    assert_eq!(error, HostError::Misuse(Misuse::OtherBacking));
    let after = (root.subtree_usage().total().live_bytes, w.bytes());
    assert_eq!((after, other.usage().total().live_blocks), (before, 1));
    // SAFETY: the arena has its blocks.
    assert_eq!(unsafe { value.read() }, 5);
    drop(arena);
    assert!(Arena::new_in(root.handle()).move_to(other.handle()).is_ok());
    drop((short, other));
    root.close_root().unwrap();
    w.assert_empty();
    elsewhere.assert_empty();
}

#[test]
fn a_collection_in_an_arena_grows_in_place_while_it_is_the_newest() {
    let w = Witness::new();
    let mut arena = Arena::new_in(w.source());
    let mut list = TryVec::new_in(&arena);
    for n in 0..50_u64 {
        list.try_push(n).unwrap();
    }
    assert_eq!(arena.bytes_used(), list.capacity() * 8, "growing left nothing behind");
    let mut text = TryString::new_in(&arena);
    text.try_push_str("hello").unwrap();
    (50..100).for_each(|n| list.try_push(n).unwrap());
    assert!(list.iter().copied().eq(0..100), "a block that is not the newest moves");
    assert_eq!(text.as_str(), "hello");
    let before = arena.bytes_used();
    drop(list);
    assert!(arena.bytes_used() < before, "the newest block came back");
    drop(text);
    arena.reset();
    assert_eq!(arena.bytes_used(), 0);
    // A block that outgrows its chunk.
    let mut list = TryVec::new_in(&arena);
    for n in 0..100_000_u32 {
        list.try_push(n).unwrap();
    }
    assert!(list.iter().copied().eq(0..100_000));
    w.set_limit(Some(0));
    list.try_reserve_exact(1 << 20).unwrap_err();
    assert!(list.iter().copied().eq(0..100_000));
}

#[test]
fn the_allocator_serves_alignment_zeros_and_refusals() {
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    for align in [1, 2, 8, 16, 64, 4096] {
        for size in [1, 7, 100, 5000] {
            let block = arena.try_alloc_layout(layout(size, align)).unwrap();
            assert_eq!(block.addr().get() % align, 0, "{size} at {align}");
        }
    }
    let used = arena.try_alloc_layout(layout(64, 8)).unwrap();
    // SAFETY: a new block of 64 bytes.
    unsafe { used.write_bytes(0xaa, 64) };
    // SAFETY: the newest block of the arena, used no more.
    unsafe { (&arena).deallocate(used, layout(64, 8)) };
    let zeros = (&arena).allocate_zeroed(layout(64, 8)).unwrap();
    assert_eq!(zeros.cast(), used, "in the same place");
    // SAFETY: a new block of 64 initialised bytes.
    assert_eq!(unsafe { zeros.as_ref() }, [0; 64]);
    w.set_limit(Some(0));
    assert_eq!((&arena).allocate(layout(1 << 20, 8)), Err(AllocError));
    assert_eq!((&arena).refusal(layout(100, 8)), HostAllocator::refusal(&w, layout(128, 16), Scope::Object));
}

#[test]
fn arenas_are_small_and_belong_to_one_thread_at_a_time() {
    fn send<T: Send>(_: &T) {}
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    send(&arena);
    if cfg!(target_pointer_width = "64") {
        assert_eq!(size_of::<Arena<&Context>>(), 48);
    } else {
        assert!(size_of::<Arena<&Context>>() < 48);
    }
    assert_eq!(format!("{arena:?}"), "Arena { bytes_held: 0, bytes_used: 0, chunks_held: 0, .. }");
    std::thread::scope(|threads| {
        threads.spawn(move || assert_eq!(*arena.try_alloc(1_u8).unwrap(), 1));
    });
    w.assert_empty();
    // `Sync` would make both candidates fit, and the call would not compile.
    trait Probe<Which> {
        fn probe() {}
    }
    struct IsSync;
    impl<T> Probe<()> for T {}
    impl<T: Sync> Probe<IsSync> for T {}
    <Arena<&Context> as Probe<_>>::probe();
}
