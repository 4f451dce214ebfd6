//! A million contexts, in a chain and side by side, and a million values: destroyed, moved and grown, without
//! recursion, without taking memory to free it, and without looking at what need not be looked at.
//!
//! One test after the other: a million records are 800 MB.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::scene::SYSTEM;
use alloc_core::{
    AllocError, AllocatorTraits, Context, ContextHandle, ContextOptions, HostAllocator, Scope, TryVec, held_state_locks,
};

/// Fewer for Wine's heap: no small stack has room for either.
const MILLION: u32 = if cfg!(windows) { 100_000 } else { 1_000_000 };

/// The system's memory, counted; refuses everything while something is being ended.
struct LargeHost {
    ending: AtomicBool,
    asked: AtomicU64,
    given_back: AtomicU64,
}

static HOST: LargeHost =
    LargeHost { ending: AtomicBool::new(false), asked: AtomicU64::new(0), given_back: AtomicU64::new(0) };

// SAFETY: the system's blocks, refused or handed on.
unsafe impl HostAllocator for LargeHost {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert_eq!(held_state_locks(), 0);
        self.asked.fetch_add(1, Relaxed);
        if self.ending.load(Relaxed) {
            return Err(AllocError);
        }
        SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        assert_eq!(held_state_locks(), 0);
        self.given_back.fetch_add(1, Relaxed);
        // SAFETY: this function's contract: the block is the system's.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
}

impl LargeHost {
    fn alive(&self) -> u64 {
        self.asked.load(Relaxed) - self.given_back.load(Relaxed)
    }
    /// Runs what must take no memory.
    fn without_memory<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = self.asked.load(Relaxed);
        self.ending.store(true, Relaxed);
        let answer = run();
        self.ending.store(false, Relaxed);
        assert_eq!(self.asked.load(Relaxed), before, "freeing asked for memory");
        answer
    }
}

fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn root() -> Context {
    Context::root_static(&HOST, ContextOptions::new("root").scope(Scope::Object)).unwrap()
}

/// On a stack of 256 KiB, where nothing recursive gets far.
fn on_a_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, run).unwrap().join().unwrap();
    });
}

/// A chain of contexts, each below the one before.
fn chain(top: &ContextHandle, links: u32) -> Vec<Context> {
    let mut at = top.clone();
    let link = |_| {
        let link = at.child("link").unwrap();
        at = link.handle();
        link
    };
    (0..links).map(link).collect()
}

struct Witness(&'static AtomicU64);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn m4_a_tree_a_million_deep_ends_without_recursion_and_without_memory() {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    let _turn = alone();
    let alive = HOST.alive();
    on_a_small_stack(|| {
        let root = root();
        let mut top = root.child("top").unwrap();
        let beside = root.child("beside").unwrap();
        let links = chain(&top, MILLION);
        let deepest = links.last().unwrap();
        deepest.own(Witness(&ENDED)).unwrap();
        top.own(Witness(&ENDED)).unwrap();
        HOST.without_memory(|| top.reparent(&beside).unwrap());
        let left = HOST.without_memory(|| top.close());
        assert_eq!((left.contexts, left.handles), (u64::from(MILLION), 0));
        assert_eq!(ENDED.load(Relaxed), 2);
        HOST.without_memory(|| drop(links));
        // By the last handle of a chain whose owners went from the top down, each holding all below it.
        let top = root.child("top").unwrap();
        let links = chain(&top, MILLION / 4);
        let deepest = links.last().unwrap().handle();
        drop((top, links));
        assert!(deepest.is_closed());
        HOST.without_memory(|| drop(deepest));
        // By the context above, when each is a value of its parent, in a chain and side by side.
        let top = root.child("top").unwrap();
        let mut at = top.handle();
        for _ in 0..MILLION / 16 {
            let link = at.child("link").unwrap();
            let next = link.handle();
            at.own(link).unwrap();
            at = next;
        }
        at.own(Witness(&ENDED)).unwrap();
        drop(at);
        for _ in 0..MILLION / 16 {
            beside.own(beside.child("sibling").unwrap()).unwrap();
        }
        HOST.without_memory(|| drop((top, beside)));
        assert_eq!(ENDED.load(Relaxed), 3);
        root.close_root().unwrap();
    });
    assert_eq!(HOST.alive(), alive);
}

#[test]
fn owners_of_a_deep_tree_may_go_in_any_order() {
    let _turn = alone();
    let alive = HOST.alive();
    on_a_small_stack(|| {
        let root = root();
        for from_the_top in [false, true] {
            let mut owners = vec![root.child("top").unwrap()];
            for n in 1..100_000 {
                let next = owners[n - 1].child("link").unwrap();
                next.own(n).unwrap();
                owners.push(next);
            }
            let began = Instant::now();
            HOST.without_memory(|| {
                if from_the_top {
                    owners.drain(..).for_each(drop);
                } else {
                    owners.drain(..).rev().for_each(drop);
                }
            });
            // Not once more for each owner: that would be hours.
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        }
        root.close_root().unwrap();
    });
    assert_eq!(HOST.alive(), alive);
}

/// The least of some runs: what is measured, and not what else the machine does.
fn least(mut run: impl FnMut()) -> Duration {
    (0..9)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .min()
        .unwrap()
}

#[test]
fn m8_many_children_and_values_are_no_cost_to_a_parent_that_grows_or_moves() {
    const MANY: u32 = MILLION / 16;
    let _turn = alone();
    let alive = HOST.alive();
    {
        let root = root();
        let (mut many, mut few) = (root.child("many").unwrap(), root.child("few").unwrap());
        let other = root.child("other").unwrap();
        let mut children = Vec::new();
        for _ in 0..MANY {
            children.push(many.child("child").unwrap());
            many.own(1_u8).unwrap();
        }
        children.push(few.child("child").unwrap());
        few.own(1_u8).unwrap();
        // Blocks grow, values come, go and are stolen, the context moves: nothing has to be rewritten.
        let work = |context: &mut Context| {
            least(|| {
                for _ in 0..100 {
                    let mut block = TryVec::<u8, _>::new_in(context.handle());
                    for size in [100, 1000, 10_000] {
                        block.try_reserve_exact(size).unwrap();
                    }
                    drop(block);
                    let id = context.own([0_u64; 4]).unwrap();
                    let id = other.steal(context, id).unwrap();
                    let id = context.steal(&other, id).unwrap();
                    context.destroy(id).unwrap();
                    context.reparent(&other).unwrap();
                    context.reparent(&root).unwrap();
                }
            })
        };
        let (few_took, many_took) = (work(&mut few), work(&mut many));
        println!("100 rounds: {few_took:?} with one child and value, {many_took:?} with {MANY} of each");
        // A visit to each child would be hundreds of times as much.
        assert!(many_took < 20 * few_took + Duration::from_millis(20), "{few_took:?}, {many_took:?}");
        let left = HOST.without_memory(|| many.close());
        assert_eq!((left.contexts, left.blocks), (u64::from(MANY), 0));
        drop((few, other, children));
        root.close_root().unwrap();
    }
    assert_eq!(HOST.alive(), alive);
}
