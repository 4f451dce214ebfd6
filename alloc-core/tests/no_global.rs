//! Law 1: no public operation reaches the global allocator, not even one that does so in vain.
//!
//! The global allocator of this process refuses whatever a library call asks of it, and counts. What it cannot see is the small
//! block that libc itself takes for a thread's first destructor of thread-local storage; see `attach_thread`.

mod operations;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use operations::still::{Once, STILL};
use operations::{Operation, Place, run, table};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static REFUSED: AtomicUsize = AtomicUsize::new(0);

struct Refusing;

#[global_allocator]
static GLOBAL: Refusing = Refusing;

// SAFETY: blocks are the system's; a refusal is null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A test that fails must be able to say so.
        if INSIDE.get() && !std::thread::panicking() {
            REFUSED.fetch_add(1, SeqCst);
            return std::ptr::null_mut();
        }
        // SAFETY: forwarded.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: forwarded; all blocks are the system's.
        unsafe { System.dealloc(block, layout) }
    }
}

fn inside<R>(call: impl FnOnce() -> R) -> R {
    INSIDE.set(true);
    let answer = call();
    INSIDE.set(false);
    answer
}

/// The net holds: a request is refused and counted, inside only.
fn it_would_notice() {
    let mut list = Vec::<u8>::new();
    assert!(inside(|| list.try_reserve(100)).is_err());
    assert_eq!(REFUSED.swap(0, SeqCst), 1);
    assert!(list.try_reserve(100).is_ok());
    assert_eq!(REFUSED.load(SeqCst), 0);
}

fn no_operation_is_refused() {
    let operations: Vec<Operation<Once>> = table();
    for operation in &operations {
        for place in Place::ALL {
            let before = STILL.requests();
            inside(|| run(&Once, operation, place));
            let Operation { names, how, .. } = operation;
            assert_eq!(REFUSED.load(SeqCst), 0, "{names:?} {how} ({place:?}) asked the global allocator");
            assert!(STILL.requests() > before && STILL.live() == 0, "{names:?} {how} ({place:?})");
        }
    }
    println!("{} operations in {} places, none asked the global allocator", operations.len(), Place::ALL.len());
}

fn main() {
    it_would_notice();
    no_operation_is_refused();
    // A thread whose first call into the library is made inside, and which ends there.
    let thread = std::thread::spawn(|| {
        let operations = table();
        INSIDE.set(true);
        run(&Once, &operations[0], Place::ChildWithLeasedBudget);
    });
    thread.join().expect("nothing was refused");
    assert_eq!(REFUSED.load(SeqCst), 0, "the end of a thread asked the global allocator");
}
