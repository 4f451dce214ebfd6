//! `Arena`.

use std::alloc::Layout;

use alloc_core::{Arena, ContextHandle, HostError, TryVec};
use testkit::{Sink, Stage};

use super::Ground;

/// A value that an arena has to drop. Forgotten or dropped twice, it would not read the same.
struct Noisy<const N: usize>([u64; N]);

impl<const N: usize> Drop for Noisy<N> {
    fn drop(&mut self) {
        assert_eq!(std::mem::take(&mut self.0[0]), 7);
    }
}

fn see(arena: &Arena<ContextHandle>) -> (usize, usize, usize) {
    (arena.bytes_held(), arena.bytes_used(), arena.chunks_held())
}

/// Blocks too large for a shared chunk.
pub(super) fn own_chunks<S: Stage>(g: &Ground<'_, S>) {
    let arena = Arena::new_in(g.handle());
    arena.try_alloc([0_u64; 400]).expect("refused nothing");
    let arena = g.change(arena, see, |arena| arena.try_alloc_layout(Layout::new::<[u64; 3000]>()).map(drop));
    let other = g.below();
    let mut arena = arena;
    g.without_memory(|| {
        let held = g.context().usage().total().live_bytes;
        arena.move_to(other.handle()).expect("the same allocator and scope");
        assert_eq!(held - g.context().usage().total().live_bytes, arena.bytes_held() as u64);
    });
    drop((arena, other));
}

pub(super) fn arenas<S: Stage>(g: &Ground<'_, S>) {
    type Take = fn(&mut Arena<ContextHandle>) -> Result<(), HostError>;
    let first: [Take; 10] = [
        |arena| arena.try_alloc_layout(Layout::from_size_align(9, 4096).expect("a layout")).map(drop),
        |arena| Ok(arena.try_alloc(7_u64).map(drop)?),
        |arena| arena.try_alloc_slice_copy(&[1_u32, 2, 3]).map(drop),
        |arena| arena.try_alloc_str("a text").map(drop),
        |arena| arena.try_alloc_fmt(format_args!("{:030}", 1)).map(drop),
        |arena| TryVec::try_from_slice_in(&[1_u64; 20], &*arena).map(drop),
        |arena| Ok(arena.try_own(Noisy([7; 3])).map(drop)?),
        |arena| arena.try_alloc_with(|| 7_u64).map(drop),
        |arena| arena.try_alloc_try_with(|| Ok(7_u64)).map(drop),
        |arena| arena.try_own_with(|| Noisy([7; 3])).map(drop),
    ];
    for take in first {
        g.change(Arena::new_in(g.handle()), see, take);
    }
    let second: [Take; 3] = [
        |arena| arena.try_alloc_layout(Layout::new::<[u64; 300]>()).map(drop),
        |arena| arena.try_alloc_slice_fill_with(300, |at| at).map(drop),
        |arena| Ok(arena.try_own([7_u64; 200]).map(drop)?),
    ];
    for take in second {
        let arena = Arena::new_in(g.handle());
        arena.try_alloc([0_u64; 400]).expect("refused nothing");
        let arena = g.change(arena, see, take);
        assert_eq!(arena.chunks_held(), 2);
    }
    // A spare chunk and one in use.
    let mut arena = Arena::new_in(g.context());
    arena.try_alloc([0_u64; 400]).expect("refused nothing");
    arena.scope().try_alloc([0_u64; 600]).expect("refused nothing");
    g.without_memory(|| {
        assert!(arena.bytes_used() >= 3200 && arena.bytes_held() >= 8000 && arena.chunks_held() == 2);
        let mut outer = arena.scope();
        outer.try_alloc(1_u64).expect("there is room");
        outer.scope().try_alloc(2_u64).expect("there is room");
        drop(outer);
        arena.reset();
        assert_eq!((arena.bytes_used(), arena.chunks_held(), arena.base().id()), (0, 1, g.context().id()));
        assert!(Sink::debug(&arena) > 0);
        arena.release();
        assert_eq!(arena.bytes_held(), 0);
    });
}
