//! What one thread does with a context while another ends it, or one above it.
//!
//! Runs under miri.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::scene::{SYSTEM, own, root_over};
use crate::witness::Witness;
use alloc_core::{
    AllocError, AllocatorTraits, Budget, Context, ContextOptions, HostAllocator, HostError, Misuse, Scope, fold_thread,
};

/// Notices when it goes a second time.
struct Once<'c> {
    whole: bool,
    gone: &'c AtomicU64,
}

impl Drop for Once<'_> {
    fn drop(&mut self) {
        assert!(std::mem::replace(&mut self.whole, false), "dropped twice");
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whichever of the two threads takes a value, it goes once.
#[test]
fn clearing_while_an_ancestor_ends_destroys_each_value_once() {
    static GONE: AtomicU64 = AtomicU64::new(0);
    let (rounds, values) = if cfg!(miri) { (4, 6) } else { (300, 500) };
    let witness = Witness::new();
    let root = root_over(&witness);
    for _ in 0..rounds {
        GONE.store(0, Ordering::Relaxed);
        let parent = root.child("parent").unwrap();
        let child = parent.child("child").unwrap();
        for _ in 0..values {
            own(&child, Once { whole: true, gone: &GONE });
        }
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                drop(parent);
            });
            start.wait();
            while !child.is_closed() {
                thread::yield_now();
            }
            child.clear();
        });
        drop(child);
        assert_eq!(GONE.load(Ordering::Relaxed), values);
    }
    root.close_root().unwrap();
}

/// Destroyed when nobody refers to its context any more; the context's table goes right after. Orders nothing.
struct Slow(&'static AtomicBool);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for _ in 0..if cfg!(miri) { 100 } else { 10_000 } {
            thread::yield_now();
        }
    }
}

/// Miri sees a reading of the table that is not ordered with its end.
#[test]
fn what_is_outstanding_is_counted_while_a_child_goes() {
    static GOING: AtomicBool = AtomicBool::new(false);
    let witness = Witness::new();
    let root = root_over(&witness);
    let child = root.child("child").unwrap();
    let slow = child.own(Slow(&GOING)).map_err(|back| back.error).unwrap();
    let held = child.handle();
    // Forgotten, so that it goes with the last reference.
    std::mem::forget(held.get(slow).unwrap());
    drop(held);
    let root = thread::scope(|scope| {
        scope.spawn(|| drop(child));
        while !GOING.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        match root.try_close() {
            Ok(()) => None,
            Err(refused) => Some(refused.value),
        }
    });
    if let Some(root) = root {
        root.close_root().unwrap();
    }
}

/// An allocator that is told when it may go.
struct Mortal {
    dead: AtomicBool,
    late: AtomicU64,
}

static MORTAL: Mortal = Mortal { dead: AtomicBool::new(false), late: AtomicU64::new(0) };

// SAFETY: blocks are the system's, and go back to it as they came.
unsafe impl HostAllocator for Mortal {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.late.fetch_add(u64::from(self.dead.load(Ordering::SeqCst)), Ordering::SeqCst);
        // SAFETY: this function's contract: the block is the system's.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
}

/// Owned by a context left to the one that is closed: has another thread end the one above.
struct Trigger(Option<(Context, mpsc::Sender<()>)>);

/// Tells that the value of the closed context is being destroyed.
static INSIDE: Mutex<Option<mpsc::Receiver<()>>> = Mutex::new(None);

impl Drop for Trigger {
    fn drop(&mut self) {
        let (parent, go) = self.0.take().expect("dropped once");
        thread::spawn(move || {
            drop(parent);
            go.send(()).ok();
        });
        let inside = INSIDE.lock().unwrap().take().expect("dropped once");
        inside.recv_timeout(Duration::from_millis(300)).ok();
    }
}

/// Owned by the context that is closed: takes its time.
struct Waiting(mpsc::Sender<()>, mpsc::Receiver<()>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.send(()).ok();
        self.1.recv_timeout(Duration::from_millis(600)).ok();
    }
}

/// `Ok` means that the context's own allocator may go.
#[test]
fn an_allocator_is_not_called_after_try_close_was_answered() {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).unwrap();
    let parent = root.child("parent").unwrap();
    let closed = parent.child_with(ContextOptions::new("closed").allocator_static(&MORTAL)).unwrap();
    let (inside, is_inside) = mpsc::channel();
    let (gate, opened) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    *INSIDE.lock().unwrap() = Some(is_inside);
    own(&closed, Waiting(inside, opened));
    own(&closed, Trigger(Some((parent, go))));
    closed.try_close().expect("nothing but what goes with it");
    MORTAL.dead.store(true, Ordering::SeqCst);
    gate.send(()).ok();
    gone.recv_timeout(Duration::from_secs(20)).expect("the parent ends");
    assert_eq!(MORTAL.late.load(Ordering::SeqCst), 0, "calls of an allocator that was gone");
    root.close_root().unwrap();
}

/// An allocator that stops the next thread that gives something back.
struct Gate {
    armed: AtomicBool,
    at_work: Mutex<Option<mpsc::Sender<()>>>,
    go_on: Mutex<Option<mpsc::Receiver<()>>>,
}

static GATE: Gate = Gate { armed: AtomicBool::new(false), at_work: Mutex::new(None), go_on: Mutex::new(None) };

// SAFETY: blocks are the system's, and go back to it as they came.
unsafe impl HostAllocator for Gate {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if self.armed.swap(false, Ordering::SeqCst) {
            self.at_work.lock().unwrap().take().expect("armed once").send(()).unwrap();
            let go_on = self.go_on.lock().unwrap().take().expect("armed once");
            go_on.recv_timeout(Duration::from_secs(20)).expect("the other thread looks and goes on");
        }
        // SAFETY: this function's contract: the block is the system's.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
}

/// A context whose last reference has gone is not quiet: its thread still counts what it gives back, the table of
/// values here.
#[test]
fn a_context_that_is_going_is_not_adopted_below_a_budget() {
    let root = Context::root_static(&GATE, ContextOptions::new("root")).unwrap();
    let to = root.child_with(ContextOptions::new("to").budget(Budget::limit(1 << 30))).unwrap();
    let from = root.child("from").unwrap();
    let child = from.child("child").unwrap();
    for _ in 0..100 {
        own(&child, ());
    }
    fold_thread();
    let (at_work, is_at_work) = mpsc::channel();
    let (go, go_on) = mpsc::channel();
    *GATE.at_work.lock().unwrap() = Some(at_work);
    *GATE.go_on.lock().unwrap() = Some(go_on);
    GATE.armed.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        scope.spawn(|| {
            drop(child);
            fold_thread();
        });
        is_at_work.recv_timeout(Duration::from_secs(20)).expect("the child gives its table back");
        let adopted = to.adopt(&from);
        go.send(()).unwrap();
        assert_eq!(adopted, Err(HostError::Misuse(Misuse::InUse)));
    });
    to.adopt(&from).expect("nothing is below it");
    fold_thread();
    assert_eq!((to.budget().unwrap().charged, to.subtree_usage().total().live_bytes), (0, 0));
    drop((to, from));
    root.close_root().unwrap();
}
