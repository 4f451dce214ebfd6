//! A base allocator that calls its caller back at every request, on the same thread: what is half-done then must not show.
//! The list of all such calls is in docs/design/reentry/alloc-core.md.
//!
//! Runs under miri.

use std::alloc::{Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::{Rc, Weak};

use alloc_core::{
    AllocError, Allocator, AllocatorTraits, Arena, Budget, Context, ContextHandle, ContextOptions,
    FromGlobalAlloc, HostAllocator, HostError, HostSource, Scope, Scoped, TryVec, fold_thread,
    held_state_locks,
};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Which request a [`Reentrant`] has just received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReentrantCall {
    Allocate,
    Free,
    Grow,
    Shrink,
}

type Hook = Rc<dyn Fn(ReentrantCall)>;

thread_local! {
    /// What a request of this thread runs before it is served.
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    /// Requests within requests.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Larger requests for new blocks are refused.
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
    static GROWS: Cell<bool> = const { Cell::new(true) };
    static LIVE: RefCell<BTreeMap<NonNull<u8>, Layout>> = const { RefCell::new(BTreeMap::new()) };
    /// How often each request has called back.
    static CALLED: RefCell<BTreeMap<ReentrantCall, u32>> = const { RefCell::new(BTreeMap::new()) };
}

/// The system's allocator, which runs this thread's hook at every request that no hook makes itself.
#[derive(Clone, Copy)]
struct Reentrant;

static REENTRANT: Reentrant = Reentrant;

/// Runs the hook at each request until dropped.
struct Hooked;

impl Hooked {
    fn new(hook: impl Fn(ReentrantCall) + 'static) -> Self {
        HOOK.set(Some(Rc::new(hook)));
        CALLED.take();
        Self
    }
    /// How often the hook ran at such requests.
    fn times(&self, call: ReentrantCall) -> u32 {
        CALLED.with_borrow(|called| called.get(&call).copied().unwrap_or(0))
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        drop(HOOK.take());
        LARGEST.set(usize::MAX);
        GROWS.set(true);
    }
}

fn call_back(call: ReentrantCall) {
    struct Out;
    impl Drop for Out {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    assert_eq!(held_state_locks(), 0, "{call:?} under a lock");
    DEPTH.set(DEPTH.get() + 1);
    let _out = Out;
    if DEPTH.get() == 1
        && let Some(hook) = HOOK.with_borrow(Clone::clone)
    {
        CALLED.with_borrow_mut(|called| *called.entry(call).or_default() += 1);
        hook(call);
    }
}

fn assert_nothing_live() {
    LIVE.with_borrow(|live| assert!(live.is_empty(), "left behind: {live:?}"));
}

impl Reentrant {
    fn begins(block: NonNull<u8>, layout: Layout) {
        let before = LIVE.with_borrow_mut(|live| live.insert(block, layout));
        assert_eq!(before, None, "the system gave a live block");
    }
    fn ends(block: NonNull<u8>, layout: Layout) {
        let known = LIVE.with_borrow_mut(|live| live.remove(&block));
        assert_eq!(
            known,
            Some(layout),
            "{block:?} is not live, or has another layout"
        );
    }
}

// SAFETY: blocks are the system's.
unsafe impl HostAllocator for Reentrant {
    fn traits(&self) -> AllocatorTraits {
        SYSTEM.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        call_back(ReentrantCall::Allocate);
        if layout.size() > LARGEST.get() {
            return Err(AllocError);
        }
        let block = SYSTEM.allocate(layout, scope)?;
        Self::begins(block, layout);
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        call_back(ReentrantCall::Free);
        Self::ends(block, layout);
        // SAFETY: just seen to be a live block of the system with this layout.
        unsafe { SYSTEM.deallocate(block, layout, scope) };
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let grows = new.size() > old.size();
        call_back(if grows {
            ReentrantCall::Grow
        } else {
            ReentrantCall::Shrink
        });
        if grows && !GROWS.get() {
            return Err(AllocError);
        }
        Self::ends(block, old);
        // SAFETY: just seen to be a live block of the system with this layout.
        let moved = unsafe { SYSTEM.resize(block, old, new, scope) }?;
        Self::begins(moved, new);
        Ok(moved)
    }
}

type Base = Scoped<Reentrant>;

const BASE: Base = Scoped::new(Reentrant, Scope::Object);

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

/// Safe code only, but for the allocator: the arena in which a base allocates from within `grow` is the one that asked it.
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
                let block = arena
                    .try_alloc([0x11_u8; 64])
                    .expect("480 bytes are not refused");
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
        assert!(
            at + 64 <= low || high <= at,
            "a block of 64 at {at:#x} lies in one of 2000 at {low:#x}"
        );
        // SAFETY: a live block of the arena, which is not borrowed otherwise.
        assert_eq!(unsafe { block.as_ref() }, &[0x11; 64]);
        // SAFETY: as above.
        unsafe { block.write([0x33; 64]) };
    }
    // SAFETY: as above.
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
                    assert!(
                        arena.try_alloc([1_u64; 70]).is_err(),
                        "560 bytes are refused"
                    );
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
        let block = arena
            .try_alloc([7_u64; 70])
            .expect("the spare serves it: no request at all");
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
    let (reach, blocks) = (
        Reach::default(),
        Rc::new(RefCell::new(Vec::<Filled>::new())),
    );
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
                    arena
                        .try_alloc_fmt(format_args!("{} and {}", round, turn.get()))
                        .map(drop)
                        .unwrap_or_default();
                }
            }
        });
        for (turn, size) in [24, 500, 1000, 2500, 20_000, 900, 16, 5000]
            .into_iter()
            .enumerate()
        {
            // Every other time new chunks are refused, so that the spare has to grow.
            LARGEST.set(if (turn + round) % 2 == 0 {
                usize::MAX
            } else {
                900
            });
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
            arena
                .try_alloc_layout(Layout::from_size_align(size, 8).expect("a layout"))
                .expect("memory");
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

/// Frees the blocks in whose `deallocate` the base unwound.
fn free_what_the_base_kept() {
    for (block, layout) in LIVE.take() {
        // SAFETY: live: the base has not got as far as giving it back.
        unsafe { SYSTEM.deallocate(block, layout, Scope::Object) };
    }
}

/// Where the old context's last reference goes with the move, and a destructor panics then, the chunks are the new context's already.
#[test]
fn an_arena_that_moves_is_not_lost_when_the_old_context_panics_in_its_end() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object))
        .expect("memory");
    let (old, new) = (
        root.child("old").expect("memory"),
        root.child("new").expect("memory"),
    );
    let arena = Arena::new_in(old.handle());
    arena.try_alloc([1_u8; 100]).expect("memory");
    // A hold that is forgotten keeps the value until the record goes.
    let id = old.own(Panics).expect("memory");
    std::mem::forget(old.get_mut(id).expect("free"));
    drop(old);
    let moved = catch_unwind(AssertUnwindSafe(|| {
        arena
            .move_to(new.handle())
            .map(drop)
            .map_err(|(_, error)| error)
    }));
    assert!(moved.is_err(), "the value's destructor panics");
    assert_eq!(
        new.usage().total().live_bytes,
        0,
        "the arena went, with its chunks"
    );
    drop(new);
    root.close_root().expect("nothing is left");
    assert_nothing_live();
}

/// A context for the hook to use.
fn in_hook(
    context: &Context,
    mut act: impl FnMut(ReentrantCall, &ContextHandle) + 'static,
) -> Hooked {
    let (handle, act) = (
        context.handle(),
        RefCell::new(move |call, handle: &ContextHandle| act(call, handle)),
    );
    Hooked::new(move |call| act.borrow_mut()(call, &handle))
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("a layout")
}

/// The hook opens so many other contexts' rows that the thread's entry for the asking one is evicted, settles, and takes and frees
/// blocks of the very context.
#[test]
fn a_context_whose_backing_reenters_at_every_request_counts_and_charges_exactly() {
    for budget in [
        None,
        Some(Budget::exact(1 << 20)),
        Some(Budget::limit(1 << 20)),
        Some(Budget::limit(8000)),
    ] {
        let options = ContextOptions::new("root").scope(Scope::Object);
        let root = Context::root_static(
            &REENTRANT,
            budget.map_or(options, |budget| options.budget(budget)),
        )
        .expect("memory");
        let record = root.usage().total();
        let others: Vec<_> = (0..3)
            .map(|_| root.child("other").expect("memory"))
            .collect();
        let with_children = root.usage().total();
        let handles: Vec<_> = others.iter().map(|other| other.handle()).collect();
        let turn = Cell::new(0);
        let hooked = in_hook(&root, move |_, root| {
            let mut list = TryVec::<u64, &ContextHandle>::new_in(root);
            list.try_extend_from_slice(&[5; 9]).unwrap_or_default();
            for other in &handles {
                for scope in Scope::ALL
                    .into_iter()
                    .take(if cfg!(miri) { 2 } else { Scope::COUNT })
                {
                    if let Ok(block) = other.try_allocate(layout(24), scope) {
                        // SAFETY: the block just taken.
                        unsafe { other.free(block, layout(24), scope) };
                    }
                }
            }
            turn.set(turn.get() + 1);
            if turn.get() % 3 == 0 {
                fold_thread();
            }
            assert!(root.usage().total().live_bytes > 0);
        });
        let mut list = TryVec::<u64, &Context>::new_in(&root);
        for value in 0..if cfg!(miri) { 20 } else { 200 } {
            list.try_push(value).expect("there is room");
        }
        assert_eq!(
            root.usage().total().live_bytes,
            with_children.live_bytes + 8 * list.capacity() as u64
        );
        list.truncate(10);
        list.try_shrink_to_fit().expect("shrinking");
        assert_eq!(
            root.usage().total().live_bytes,
            with_children.live_bytes + 80
        );
        assert!(list.iter().copied().eq(0..10));
        drop(list);
        let zeroed = Allocator::allocate_zeroed(&&root, layout(64)).expect("there is room");
        // SAFETY: the block just taken.
        unsafe { Allocator::deallocate(&&root, zeroed.cast(), layout(64)) };
        for call in [
            ReentrantCall::Allocate,
            ReentrantCall::Free,
            ReentrantCall::Grow,
            ReentrantCall::Shrink,
        ] {
            assert!(hooked.times(call) > 0, "{call:?} did not call back");
        }
        drop(hooked);
        drop(others);
        let after = root.usage().total();
        assert_eq!(
            (after.live_bytes, after.live_blocks),
            (record.live_bytes, record.live_blocks)
        );
        fold_thread();
        if let Some(budget) = root.budget() {
            assert_eq!(budget.charged, record.live_bytes, "{budget:?}");
        }
        root.close_root().expect("nothing is left");
        assert_nothing_live();
    }
}

/// The hook makes, leaves, claims, clears and ends contexts, and owns, takes and destroys values, of the context that is asking.
#[test]
fn a_tree_whose_backing_reenters_at_every_request_ends_with_nothing_left() {
    struct CountedValue(Rc<Cell<i32>>);
    // SAFETY: the test has one thread.
    unsafe impl Send for CountedValue {}
    impl CountedValue {
        fn new(live: &Rc<Cell<i32>>) -> Self {
            live.set(live.get() + 1);
            Self(live.clone())
        }
    }
    impl Drop for CountedValue {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    let live = Rc::new(Cell::new(0));
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object))
        .expect("memory");
    let hooked = in_hook(&root, {
        let (live, turn) = (live.clone(), Cell::new(0));
        move |_, root| {
            turn.set(turn.get() + 1);
            let Ok(child) = root.child_with(ContextOptions::new("within").label("a label")) else {
                return;
            };
            let value = child
                .own(CountedValue::new(&live))
                .map_err(|refused| refused.error);
            match turn.get() % 4 {
                0 => drop(child.leave()),
                1 => drop(value.and_then(|id| child.remove(id))),
                2 => child.clear(),
                _ => drop(value.and_then(|id| root.steal(&child, id))),
            }
            assert!(root.usage().total().live_bytes > 0);
        }
    });
    for _ in 0..if cfg!(miri) { 1 } else { 3 } {
        let mut child = root
            .child_with(ContextOptions::new("child").label("another label"))
            .expect("memory");
        let middle = root.child("middle").expect("memory");
        child.reparent(&middle).expect("the same tree");
        let mut ids = Vec::new();
        for _ in 0..if cfg!(miri) { 10 } else { 20 } {
            // The table of the values grows while the hook uses others' tables.
            ids.push(child.own(CountedValue::new(&live)).expect("memory"));
        }
        drop(ids.pop().map(|id| child.remove(id)).expect("some are left"));
        ids.pop()
            .map(|id| middle.steal(&child, id))
            .expect("some are left")
            .expect("the same tree");
        middle
            .adopt(&root.child("empty").expect("memory"))
            .expect("nothing moves");
        child.clear();
        assert_eq!(child.owned_values(), 0);
        drop(middle);
        drop(child);
    }
    assert!(hooked.times(ReentrantCall::Allocate) > 10 && hooked.times(ReentrantCall::Free) > 10);
    root.clear();
    drop(hooked);
    root.clear();
    assert_eq!(root.owned_values(), 0);
    root.close_root().expect("nothing is left");
    assert_eq!(live.get(), 0);
    assert_nothing_live();
}

/// The parent ends while the record of a new child is being allocated: the child is closed from its first moment.
#[test]
fn a_child_whose_parent_ends_while_its_backing_reenters_is_closed() {
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object))
        .expect("memory");
    let owner = root.child("parent").expect("memory");
    let parent = owner.handle();
    let owner = RefCell::new(Some(owner));
    let hooked = Hooked::new(move |_| drop(owner.take()));
    let child = parent
        .child("late")
        .expect("the parent was open when it was asked");
    drop(hooked);
    assert!(parent.is_closed() && child.is_closed());
    assert_eq!(
        child.try_allocate(layout(8), Scope::Object),
        Err(HostError::Closed {
            context: child.id()
        })
    );
    assert!(child.own(7).is_err_and(|refused| refused.error
        == HostError::Closed {
            context: child.id()
        }));
    drop((child, parent));
    root.close_root().expect("nothing is left");
    assert_nothing_live();
}

/// The table of a context's values is made, and made larger, by requests during which the hook gives the context values too.
#[test]
fn values_that_a_backing_gives_while_it_reenters_have_their_own_places() {
    let root = Context::root_static(&REENTRANT, ContextOptions::new("root").scope(Scope::Object))
        .expect("memory");
    let inner = Rc::new(RefCell::new(Vec::new()));
    let hooked = in_hook(&root, {
        let (inner, number) = (inner.clone(), Cell::new(1000_u64));
        move |_, root| {
            number.set(number.get() + 1);
            if let Ok(id) = root.own(number.get()) {
                inner.borrow_mut().push((id, number.get()));
            }
        }
    });
    let outer: Vec<_> = (0..60_u64)
        .map(|value| (root.own(value).expect("memory"), value))
        .collect();
    drop(hooked);
    let inner = inner.take();
    assert!(inner.len() >= 60 && root.owned_values() == inner.len() + outer.len());
    for (id, value) in outer.into_iter().chain(inner) {
        assert_eq!(root.remove(id), Ok(value));
    }
    root.close_root().expect("nothing is left");
    assert_nothing_live();
}

/// A vector forgets its block before it gives it back.
#[test]
fn a_vector_frees_its_block_once_when_the_allocator_unwinds_in_the_free() {
    let mut list = TryVec::<u64, Base>::new_in(BASE);
    list.try_extend_from_slice(&[3; 20]).expect("memory");
    list.clear();
    let hooked = Hooked::new(|call| assert_ne!(call, ReentrantCall::Free, "on purpose"));
    assert!(catch_unwind(AssertUnwindSafe(|| list.try_shrink_to_fit())).is_err());
    drop(hooked);
    assert_eq!((list.len(), list.capacity()), (0, 0));
    list.try_push(4).expect("memory");
    drop(list);
    LIVE.with_borrow(|live| {
        assert_eq!(
            live.len(),
            1,
            "the block in whose end the allocator unwound"
        )
    });
    free_what_the_base_kept();
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
    assert!(
        arena
            .try_alloc([0_u8; 10])
            .is_err_and(|refused| refused.error.is_out_of_host_memory())
    );
    drop(hooked);
    drop(arena);
    assert_nothing_live();
}
