//! Peaks keep what they promise: the true one lies within `peak_slack` of the reported one.
//!
//! Runs under miri.

#[path = "support/two_threads.rs"]
mod two_threads;

use std::alloc::{Layout, System};
use std::sync::{Arc, Mutex};
use std::thread;

use alloc_core::{Budget, Context, ContextOptions, FromGlobalAlloc, Scope};
use two_threads::two;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Held by tests that are about how many threads there are in the process.
static THREADS: Mutex<()> = Mutex::new(());

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("a layout")
}

fn root() -> Context {
    Context::root_static(&SYSTEM, ContextOptions::new("root")).expect("a root")
}

#[track_caller]
fn within_slack(context: &Context, true_peak: u64) {
    let usage = context.usage().scope(Scope::Object);
    assert!(usage.peak_bytes.abs_diff(true_peak) <= usage.peak_slack, "true peak {true_peak}, {usage:?}");
    assert!(usage.peak_slack < 1 << 20, "a slack that says nothing: {usage:?}");
}

fn two_up_two_down(options: ContextOptions<'_>, bytes: usize) {
    let root = root();
    let context = Arc::new(root.child_with(options).expect("a child"));
    let (a, b) = two(&context);
    a.take(bytes);
    b.take(bytes);
    a.free(bytes);
    b.free(bytes);
    within_slack(&context, 2 * bytes as u64);
}

#[test]
fn two_threads_under_a_budget() {
    two_up_two_down(ContextOptions::new("c").budget(Budget::limit(1 << 30)), 10_000);
}

#[test]
fn two_threads_with_open_entries() {
    two_up_two_down(ContextOptions::new("c"), 500);
}

/// Neither hides more than a threshold, however much it allocates in one entry.
#[test]
fn two_threads_that_allocate_much_are_both_in_the_peak() {
    const BLOCK: usize = 20_000;
    let root = root();
    let context = Arc::new(root.child("c").expect("a child"));
    let (a, b) = two(&context);
    for thread in [&a, &b] {
        (0..20).for_each(|_| thread.take(BLOCK));
    }
    for thread in [&a, &b] {
        (0..20).for_each(|_| thread.free(BLOCK));
    }
    within_slack(&context, 40 * BLOCK as u64);
}

/// The same of frees: what one thread allocates anew is not added to what the other one has freed.
#[test]
fn a_thread_that_frees_much_hides_little_of_it() {
    const BLOCK: usize = 20_000;
    let root = root();
    let context = Arc::new(root.child("c").expect("a child"));
    let (a, b) = two(&context);
    b.take(1);
    for _ in 0..2 {
        (0..20).for_each(|_| a.take(BLOCK));
        (0..20).for_each(|_| b.free(BLOCK));
    }
    within_slack(&context, 20 * BLOCK as u64 + 1);
    a.free_all();
}

#[test]
fn hidden_frees_do_not_raise_the_peak_beyond_the_slack() {
    const BLOCK: usize = 64 * 1024;
    let root = root();
    let context = Arc::new(root.child("c").expect("a child"));
    let (a, b) = two(&context);
    let blocks = if cfg!(miri) { 20 } else { 1600 };
    (0..blocks).for_each(|_| b.take(BLOCK));
    b.settle();
    b.take(BLOCK);
    b.settle();
    a.take(BLOCK); // the true peak: blocks + 2
    a.free(BLOCK);
    a.free(BLOCK);
    b.take(BLOCK);
    b.take(BLOCK); // the same again
    b.settle();
    b.free(BLOCK);
    a.settle();
    within_slack(&context, (blocks + 2) * BLOCK as u64);
    a.free_all();
}

#[test]
fn scopes_together_keep_their_slack() {
    let root = root();
    let context = root.child("c").expect("a child");
    let both = || {
        for scope in [Scope::Object, Scope::Cache] {
            let block = context.try_allocate(layout(600), scope).expect("a block");
            // SAFETY: just taken.
            unsafe { context.free(block, layout(600), scope) };
        }
    };
    thread::scope(|s| {
        s.spawn(both);
    });
    both();
    let usage = context.usage();
    let parts = usage.scope(Scope::Object).peak_slack + usage.scope(Scope::Cache).peak_slack;
    assert!(parts > 0 && usage.total().peak_slack >= parts, "{usage:?}");
}

#[test]
fn blocks_that_pass_from_thread_to_thread_are_not_added_up() {
    let root = root();
    let context = Arc::new(root.child("c").expect("a child"));
    let (a, b) = two(&context);
    for _ in 0..50 {
        a.take(1);
        b.free(1);
    }
    a.settle();
    assert!(context.usage().scope(Scope::Object).peak_blocks <= 1);
}

#[test]
fn threads_that_are_gone_do_not_widen_the_slack() {
    let _alone = THREADS.lock();
    let root = root();
    let context = root.child("c").expect("a child");
    for _ in 0..if cfg!(miri) { 5 } else { 640 } {
        thread::scope(|s| {
            s.spawn(|| {
                let block = context.try_allocate(layout(3000), Scope::Object).expect("a block");
                // SAFETY: just taken.
                unsafe { context.free(block, layout(3000), Scope::Object) };
            });
        });
    }
    // One after the other: a handful of residues at most (other tests run beside this one).
    let usage = context.usage().scope(Scope::Object);
    assert!(usage.peak_slack <= 65 * 512, "{usage:?}");
}

#[test]
fn two_threads_behind_one_bit_are_not_called_one() {
    let _alone = THREADS.lock();
    // With more than 64 threads alive, some share a bit of what a context remembers of them.
    let workers = if cfg!(miri) { 66 } else { 130 };
    let (root, stop) = (root(), std::sync::Barrier::new(workers + 1));
    thread::scope(|s| {
        for _ in 0..workers {
            s.spawn(|| {
                alloc_core::attach_thread();
                stop.wait();
                stop.wait();
            });
        }
        stop.wait();
        let context = root.child("c").expect("a child");
        let block = context.try_allocate(layout(100), Scope::Object).expect("a block");
        // SAFETY: just taken.
        unsafe { context.free(block, layout(100), Scope::Object) };
        assert!(context.usage().scope(Scope::Object).peak_slack > 0, "nobody can know that it was one thread");
        stop.wait();
    });
}
