//! Scopes within an arena, and blocks that are larger than its chunks.

use super::*;

#[test]
fn scopes_end_what_came_within_and_keep_one_spare() {
    let w = Witness::new();
    let mut arena = Arena::new_in(w.source());
    let outer = NonNull::from(arena.try_alloc(1_u64).unwrap());
    let before = (arena.bytes_used(), w.blocks());
    {
        let mut scope = arena.scope();
        for _ in 0..3000 {
            scope.try_alloc([0_u64; 8]).unwrap();
        }
        scope.try_alloc_layout(layout(100_000, 8)).unwrap();
        let middle = (scope.bytes_used(), scope.chunks_held());
        {
            let inner = scope.scope();
            inner.try_alloc_slice_fill_with(100_000, |_| 0_u8).unwrap();
            assert_ne!(inner.chunks_held(), middle.1);
        }
        assert_eq!((scope.bytes_used(), scope.chunks_held()), middle);
    }
    assert_eq!((arena.bytes_used(), w.blocks()), (before.0, before.1 + 1), "all but one chunk went back");
    assert_eq!(arena.bytes_held(), 1024 - 32 + 65536 - 32, "the largest shared one was kept");
    // The same again asks for one chunk less; a scope that fits the spare asks for nothing.
    let requests = w.requests();
    for _ in 0..10 {
        let scope = arena.scope();
        for _ in 0..600 {
            scope.try_alloc([0_u64; 8]).unwrap();
        }
    }
    assert_eq!(w.requests(), requests);
    // SAFETY: allocated before every scope, and the arena still stands.
    assert_eq!(unsafe { outer.read() }, 1);
    arena.reset();
    assert_eq!((arena.bytes_used(), w.blocks()), (0, 1), "reset keeps the one chunk");
    arena.try_alloc(1_u8).unwrap();
    assert_eq!(w.blocks(), 1);
    arena.release();
    assert_eq!((w.blocks(), arena.bytes_held()), (0, 0));
    arena.try_alloc(1_u8).unwrap();
}

#[test]
fn a_forgotten_scope_is_ended_by_the_one_around_it() {
    let w = Witness::new();
    let mut arena = Arena::new_in(w.source());
    let mut outer = arena.scope();
    {
        let inner = outer.scope();
        for _ in 0..300 {
            inner.try_alloc([0_u64; 8]).unwrap();
        }
        inner.try_alloc_layout(layout(50_000, 8)).unwrap();
        std::mem::forget(inner);
    }
    assert!(outer.bytes_used() > 69_000);
    drop(outer);
    assert_eq!((arena.bytes_used(), arena.chunks_held()), (0, 1));
}

#[test]
fn a_large_block_leaves_the_current_chunk_in_use() {
    let w = Witness::new();
    let arena = Arena::new_in(w.source());
    let first = std::ptr::from_mut(arena.try_alloc(1_u64).unwrap()).addr();
    arena.try_alloc_layout(layout(1 << 20, 8)).unwrap();
    assert_eq!(w.bytes(), (1024 - 32) + (1 << 20) + 16, "exactly its size and a header");
    let second = std::ptr::from_mut(arena.try_alloc(2_u64).unwrap()).addr();
    assert_eq!(second - first, 8);
    assert_eq!(arena.bytes_used(), 16 + (1 << 20));
}
