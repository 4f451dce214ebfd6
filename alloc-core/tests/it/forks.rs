//! Contexts from before a fork, used in the child while other threads of the parent were in the middle of operations on
//! them.

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::scene::SYSTEM;
use alloc_core::support::StateLock;
use alloc_core::tagged::{Fill, TaggedDomain};
use alloc_core::{Budget, Context, ContextOptions, Scope, TryVec};
use testkit::{Child, fork_while};

const THREADS: usize = 6;
/// Blocks that each thread keeps in each context.
const KEPT: u64 = 3;
const BLOCK: Layout = Layout::new::<[u8; 100]>();

fn context(options: ContextOptions<'_>) -> Context {
    Context::root_static(&SYSTEM, options).expect("memory")
}

/// Allocates and frees, with everything that may happen in between.
fn operate(context: &Context, domain: &TaggedDomain, turn: u64) {
    if let Ok(block) = domain.allocate(100, Fill::Undefined) {
        // SAFETY: just allocated, without children.
        unsafe { block.free() };
    }
    let scope = Scope::ALL[turn as usize % 5];
    let Ok(block) = context.try_allocate(BLOCK, scope) else {
        return;
    };
    // SAFETY: just allocated.
    unsafe { context.free(block, BLOCK, scope) };
    match turn % 8 {
        0 => drop(context.child("child")),
        1 => {
            if let Ok(id) = context.own(turn) {
                context.destroy(id).expect("owned");
            }
        }
        2 => _ = context.subtree_usage(),
        3 => drop(context.snapshot()),
        4 => {
            let mut numbers = TryVec::new_in(context);
            let _ = numbers.try_extend_from_slice(&[turn; 90]);
        }
        5 => _ = context.budget(),
        6 => alloc_core::fold_thread(),
        _ => {}
    }
}

#[test]
fn m45_a_context_from_before_a_fork_works_in_the_child() {
    of_its_own("m45_a_context_from_before_a_fork_works_in_the_child", || {
        fork_often(300);
    });
}

#[cfg(feature = "loaded-library")]
#[test]
fn m45_without_thread_locals_too() {
    of_its_own("m45_without_thread_locals_too", || {
        alloc_core::forgo_thread_locals();
        fork_often(40);
    });
}

/// Runs `work` in a process of its own.
fn of_its_own(name: &str, work: impl FnOnce()) {
    if Child::is_child(name) {
        return work();
    }
    let child = Child::this_test(name).limit(Duration::from_secs(90));
    child.run().assert_code(0);
}

fn fork_often(forks: u64) {
    let root = context(ContextOptions::new("root").budget(Budget::limit(1 << 20)));
    let child = |name, budget| {
        let options = ContextOptions::new(name).scope(Scope::Object);
        root.child_with(options.budget(budget)).expect("memory")
    };
    let limited = [
        child("leased", Budget::limit(1 << 18)),
        child("exact", Budget::exact(1 << 18)),
        child("inherits", Budget::limit(u64::MAX)),
    ];
    let unlimited = context(ContextOptions::new("unlimited"));
    let all = [&limited[0], &limited[1], &limited[2], &unlimited];
    let mine = root.child("of the forking thread").expect("memory");
    let reserve = TaggedDomain::reserve(&unlimited, 4096).expect("memory");
    let compiler = child("compiler", Budget::exact(300));
    let compiler = TaggedDomain::with_fallback(compiler, &reserve).expect("memory");
    thread_local! {
        static HAS_KEPT: Cell<bool> = const { Cell::new(false) };
    }
    let meanwhile = |turn| {
        if !HAS_KEPT.replace(true) {
            for context in all.iter().flat_map(|context| [context; KEPT as usize]) {
                context.try_allocate(BLOCK, Scope::Device).expect("memory");
            }
        }
        all.iter().for_each(|context| operate(context, &compiler, turn));
    };
    let block = mine.try_allocate(BLOCK, Scope::Object).expect("memory");
    fork_while(THREADS, forks, meanwhile, |fork| {
        // The forking thread's own account is exact.
        assert_eq!(mine.usage().scope(Scope::Object).live_blocks, 1);
        // SAFETY: allocated above; the parent frees its own copy.
        unsafe { mine.free(block, BLOCK, Scope::Object) };
        assert_eq!(mine.usage().total().live_bytes, 0);
        for context in all {
            (0..10).for_each(|turn| operate(context, &compiler, fork + turn));
            // Each thread may have been between the allocation or the free of one more block and its count.
            let (kept, threads) = (context.usage().scope(Scope::Device).live_blocks, THREADS as u64);
            let expected = (KEPT * threads)..=((KEPT + 1) * threads);
            assert!(expected.contains(&kept), "{kept} blocks are kept");
        }
        // So does a thread of the child's own.
        thread::scope(|scope| _ = scope.spawn(|| operate(&unlimited, &reserve, fork)));
        // What threads that are gone had leased or reserved is free again.
        alloc_core::fold_thread();
        for context in limited.iter().chain([&root]) {
            let live = context.subtree_usage().total().live_bytes;
            let charged = context.budget().map(|budget| budget.charged);
            assert_eq!(charged.unwrap_or(live), live, "{}", context.name());
        }
        let budget = root.budget().expect("limited");
        let rest = Layout::from_size_align((budget.limit - budget.charged) as usize, 8);
        let rest = rest.expect("small");
        let block = root.try_allocate(rest, Scope::Object).expect("room");
        // SAFETY: just allocated.
        unsafe { root.free(block, rest, Scope::Object) };
    });
    // The parent is as it was.
    for context in all {
        let kept = context.usage().scope(Scope::Device).live_blocks;
        assert_eq!(kept, KEPT * THREADS as u64);
    }
    // SAFETY: allocated above.
    unsafe { mine.free(block, BLOCK, Scope::Object) };
}

/// While the process is copied, another thread stands still somewhere in `lock`.
#[test]
fn m45_no_lock_is_held_in_the_child() {
    static LOCK: StateLock = StateLock::new();
    static OTHER: AtomicUsize = AtomicUsize::new(0);
    static MAY_LOCK: AtomicBool = AtomicBool::new(false);
    static STANDS_STILL: AtomicBool = AtomicBool::new(false);
    static IS_ABOUT_TO: AtomicBool = AtomicBool::new(false);

    extern "C" fn stand_still(_: i32) {
        STANDS_STILL.store(true, Ordering::SeqCst);
        while STANDS_STILL.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    /// Runs behind the library's own handler, which was registered later.
    extern "C" fn before() {
        MAY_LOCK.store(true, Ordering::SeqCst);
        // It may still wait for the end of the fork before.
        for _ in 0..100_000 {
            if IS_ABOUT_TO.swap(false, Ordering::SeqCst) {
                break;
            }
            std::hint::spin_loop();
        }
        // SAFETY: a thread that lives until all forks are done, and a signal with a handler.
        unsafe { libc::pthread_kill(OTHER.load(Ordering::Relaxed) as libc::pthread_t, libc::SIGUSR1) };
        while !STANDS_STILL.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    extern "C" fn after() {
        STANDS_STILL.store(false, Ordering::SeqCst);
    }

    of_its_own("m45_no_lock_is_held_in_the_child", || {
        let handler = stand_still as extern "C" fn(i32);
        // SAFETY: the handler only reads and writes atomics, and yields.
        unsafe { libc::signal(libc::SIGUSR1, handler as usize) };
        // SAFETY: the handlers only touch atomics, and yield.
        unsafe { libc::pthread_atfork(Some(before), Some(after), None) };
        let _root = context(ContextOptions::new("root"));
        let meanwhile = |turn: u64| {
            // SAFETY: asks for a number.
            OTHER.store(unsafe { libc::pthread_self() } as usize, Ordering::Relaxed);
            if MAY_LOCK.swap(false, Ordering::SeqCst) {
                IS_ABOUT_TO.store(true, Ordering::SeqCst);
                // The signal takes a while.
                (0..turn % 1000).for_each(|step| _ = std::hint::black_box(step));
                drop(LOCK.lock());
            }
        };
        fork_while(1, 3000, meanwhile, |_| drop(LOCK.lock()));
    });
}

/// As a signal handler that forks, while its thread is in the middle of an operation.
#[cfg(feature = "loaded-library")]
#[test]
fn m45_a_thread_that_holds_a_lock_can_fork_without_thread_locals() {
    of_its_own("m45_a_thread_that_holds_a_lock_can_fork_without_thread_locals", || {
        static LOCK: StateLock = StateLock::new();
        alloc_core::forgo_thread_locals();
        let root = context(ContextOptions::new("root"));
        let held = LOCK.lock();
        fork_while(0, 1, |_| (), |_| drop(root.child("child")));
        drop(held);
        drop(root.child("child").expect("memory"));
    });
}

/// A count that wrapped would keep each later fork waiting for it.
#[cfg(feature = "loaded-library")]
#[test]
fn m45_a_lock_that_the_child_releases_is_not_counted_twice_without_thread_locals() {
    of_its_own("m45_a_lock_that_the_child_releases_is_not_counted_twice_without_thread_locals", || {
        static LOCK: StateLock = StateLock::new();
        alloc_core::forgo_thread_locals();
        let _root = context(ContextOptions::new("root"));
        let held = Cell::new(Some(LOCK.lock()));
        fork_while(
            0,
            1,
            |_| (),
            |_| {
                drop(held.take());
                fork_while(0, 200, |_| (), |_| ());
            },
        );
    });
}
