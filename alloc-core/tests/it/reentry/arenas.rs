//! Arenas whose base allocator calls back.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::{Rc, Weak};

use alloc_core::{Arena, Context, ContextOptions, HostSource, Scope};

use super::{
    BASE, Base, GROWS, Hooked, LARGEST, LIVE, REENTRANT, ReentrantCall, assert_nothing_live, free_what_the_base_kept,
    layout,
};

/// An arena that the hook can reach as long as it is there.
#[derive(Clone, Default)]
struct Reach(Rc<RefCell<Weak<Arena<Base>>>>);

impl Reach {
    fn set(&self, arena: &Rc<Arena<Base>>) {
        *self.0.borrow_mut() = Rc::downgrade(arena);
    }
    fn get(&self) -> Option<Rc<Arena<Base>>> {
        self.0.borrow().upgrade()
    }
}

/// An arena with an empty chunk of 992 bytes kept from a scope that ended.
fn arena_with_a_spare() -> Arena<Base> {
    let mut arena = Arena::new_in(BASE);
    arena.scope().try_alloc([0_u8; 100]).expect("memory");
    assert_eq!((arena.chunks_held(), arena.bytes_used()), (1, 0));
    arena
}

/// Safe code only, but for the allocator: the arena in which a base allocates from within `grow` is the one that asked
/// it.
#[test]
fn an_arena_whose_base_reenters_in_grow_gives_no_block_in_the_chunk_that_moves() {
    let (reach, inner) = (Reach::default(), Rc::new(RefCell::new(Vec::new())));
    let arena = Rc::new(arena_with_a_spare());
    reach.set(&arena);
    let hooked = Hooked::new({
        let (reach, inner) = (reach.clone(), inner.clone());
        move |call| {
            if call == ReentrantCall::Grow
                && let Some(arena) = reach.get()
            {
                let block = arena.try_alloc([0x11_u8; 64]).expect("480 bytes are not refused");
                inner.borrow_mut().push(NonNull::from(block));
            }
        }
    });
    LARGEST.set(480);
    let outer = arena.try_alloc([0x22_u8; 2000]).expect("the spare grows");
    assert_eq!(hooked.times(ReentrantCall::Grow), 1);
    let outer = NonNull::from(outer);
    for block in inner.borrow_mut().iter_mut() {
        let (low, high) = (outer.addr().get(), outer.addr().get() + 2000);
        let at = block.addr().get();
        assert!(at + 64 <= low || high <= at, "a block of 64 at {at:#x} lies in one of 2000 at {low:#x}");
        // SAFETY: a live block of the arena, which is not borrowed otherwise.
        assert_eq!(unsafe { block.as_ref() }, &[0x11; 64]);
        // SAFETY: a live block of the arena, which is not borrowed otherwise.
        unsafe { block.write([0x33; 64]) };
    }
    // SAFETY: a live block of the arena, which is not borrowed otherwise.
    assert_eq!(unsafe { outer.as_ref() }, &[0x22; 2000]);
    drop(hooked);
    drop(arena);
    assert_nothing_live();
}

#[test]
fn a_chunk_that_a_base_refuses_to_grow_while_it_reenters_is_still_the_spare() {
    for unwinds in [false, true] {
        let reach = Reach::default();
        let arena = Rc::new(arena_with_a_spare());
        reach.set(&arena);
        let hooked = Hooked::new({
            let reach = reach.clone();
            move |call| {
                if call == ReentrantCall::Grow {
                    // Neither of these may have the chunk that is being grown.
                    let arena = reach.get().expect("it is asking");
                    assert_eq!(arena.chunks_held(), 0);
                    assert!(arena.try_alloc([1_u64; 70]).is_err(), "560 bytes are refused");
                    assert!(!unwinds, "on purpose");
                }
            }
        });
        LARGEST.set(0);
        GROWS.set(false);
        let refused = catch_unwind(AssertUnwindSafe(|| arena.try_alloc([0_u8; 2000]).is_err()));
        assert_eq!(refused.is_err(), unwinds);
        assert!(refused.unwrap_or(true));
        assert_eq!(hooked.times(ReentrantCall::Grow), 1);
        assert_eq!((arena.chunks_held(), arena.bytes_held()), (1, 992));
        let block = arena.try_alloc([7_u64; 70]).expect("the spare serves it: no request at all");
        assert_eq!(block, &[7; 70]);
        drop(hooked);
        drop(arena);
        assert_nothing_live();
    }
}

/// Blocks of all sizes from within requests for blocks of all sizes; each keeps its content.
#[test]
fn an_arena_whose_base_reenters_at_every_request_gives_every_byte_once() {
    struct Filled(NonNull<u8>, usize, u8);
    let (reach, blocks) = (Reach::default(), Rc::new(RefCell::new(Vec::<Filled>::new())));
    let allocate = |arena: &Arena<Base>, blocks: &RefCell<Vec<Filled>>, size: usize| {
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        if let Ok(block) = arena.try_alloc_layout(layout) {
            let fill = blocks.borrow().len() as u8;
            // SAFETY: a new block of this size.
            unsafe { block.write_bytes(fill, size) };
            blocks.borrow_mut().push(Filled(block, size, fill));
        }
    };
    let mut arena = arena_with_a_spare();
    for round in 0..4 {
        let shared = Rc::new(arena);
        reach.set(&shared);
        let hooked = Hooked::new({
            let (reach, blocks, turn) = (reach.clone(), blocks.clone(), Cell::new(0));
            move |_| {
                if let Some(arena) = reach.get() {
                    turn.set((turn.get() + 1) % 5);
                    allocate(&arena, &blocks, [40, 700, 0, 3000, 17_000][turn.get()]);
                    arena.try_alloc_fmt(format_args!("{} and {}", round, turn.get())).map(drop).unwrap_or_default();
                }
            }
        });
        for (turn, size) in [24, 500, 1000, 2500, 20_000, 900, 16, 5000].into_iter().enumerate() {
            // Every other time new chunks are refused, so that the spare has to grow.
            LARGEST.set(if (turn + round) % 2 == 0 { usize::MAX } else { 900 });
            allocate(&shared, &blocks, size);
        }
        assert!(hooked.times(ReentrantCall::Allocate) > 0);
        for Filled(block, size, fill) in blocks.borrow_mut().drain(..) {
            // A block that was given twice is another's over more than its ends.
            for at in (0..size).filter(|at| !cfg!(miri) || *at < 32 || size - *at <= 32) {
                let byte = block.as_ptr().wrapping_add(at);
                // SAFETY: within a live block of this size, which was written.
                assert_eq!(unsafe { byte.read() }, fill, "byte {at} of {size}");
            }
        }
        drop(hooked);
        arena = Rc::into_inner(shared).expect("the hook keeps none");
        arena.reset();
        arena.scope().try_alloc([0_u8; 900]).expect("memory");
    }
    drop(arena);
    assert_nothing_live();
}

/// A base that unwinds while chunks go back to it: the arena forgets them before, and the others go back all the same.
#[test]
fn an_arena_is_whole_when_its_base_unwinds_in_a_free() {
    for nth in 0..4 {
        let mut arena = Arena::new_in(BASE);
        for size in [600, 1500, 3000, 40_000, 50_000] {
            arena.try_alloc_layout(Layout::from_size_align(size, 8).expect("a layout")).expect("memory");
        }
        let freed = Cell::new(0);
        let hooked = Hooked::new(move |call| {
            if call == ReentrantCall::Free {
                freed.set(freed.get() + 1);
                assert_ne!(freed.get(), nth + 1, "on purpose");
            }
        });
        assert!(catch_unwind(AssertUnwindSafe(|| arena.reset())).is_err());
        drop(hooked);
        // One block is the base's to answer for; nothing else is lost, and nothing that went is used.
        let held = LIVE.with_borrow(|live| live.len());
        assert_eq!(held, arena.chunks_held() + 1, "free {nth}");
        for _ in 0..if cfg!(miri) { 10 } else { 100 } {
            assert_eq!(arena.try_alloc([9_u64; 30]).expect("memory"), &[9; 30]);
        }
        drop(arena);
        LIVE.with_borrow(|live| assert_eq!(live.len(), 1));
        free_what_the_base_kept();
    }
}

/// Where the old context's last reference goes with the move, and a destructor panics then, the chunks are the new
/// context's already.
#[test]
fn an_arena_that_moves_is_not_lost_when_the_old_context_panics_in_its_end() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object)).expect("memory");
    let (old, new) = (root.child("old").expect("memory"), root.child("new").expect("memory"));
    let mut arena = Arena::new_in(old.handle());
    arena.try_alloc([1_u8; 100]).expect("memory");
    // A hold that is forgotten keeps the value until the record goes.
    let id = old.own(Panics).expect("memory");
    std::mem::forget(old.get_mut(id).expect("free"));
    drop(old);
    let moved = catch_unwind(AssertUnwindSafe(|| arena.move_to(new.handle())));
    assert!(moved.is_err(), "the value's destructor panics");
    assert_eq!(arena.base().id(), new.id(), "the arena has moved");
    drop(arena);
    assert_eq!(new.usage().total().live_bytes, 0);
    drop(new);
    root.close_root().expect("nothing is left");
    assert_nothing_live();
}

/// What the arena says of a refusal is its base's answer, also where the base allocates from the arena to find it.
#[test]
fn a_base_that_is_asked_why_it_refused_may_use_the_arena() {
    let reach = Reach::default();
    let arena = Rc::new(Arena::new_in(BASE));
    reach.set(&arena);
    let hooked = Hooked::new({
        let reach = reach.clone();
        move |_| {
            if let Some(arena) = reach.get() {
                let _ = (&*arena).refusal(layout(8));
            }
        }
    });
    LARGEST.set(0);
    assert!(arena.try_alloc([0_u8; 10]).is_err_and(|refused| refused.error.is_out_of_host_memory()));
    drop(hooked);
    drop(arena);
    assert_nothing_live();
}
