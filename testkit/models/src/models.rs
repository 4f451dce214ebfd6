//! The programs. A reading while others work is never negative and never more than was ever taken; when all have ended
//! it is exact.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::spawn;

use crate::context::ContextNode;
use crate::harness::{Mutant, holds_and_catches};
use crate::threads::{Thread, account};

/// A reading that can be true at some moment: `most` bytes are taken in all, in blocks of 8.
fn plausible(node: &ContextNode, most: u64) {
    let usage = account(node);
    assert!(usage.live_bytes <= most, "{usage:?}");
    assert!(usage.live_blocks <= most / 8, "{usage:?}");
    assert!(usage.total_bytes <= most, "{usage:?}");
}

/// Serials 1 and 3 share an entry of each thread, for tables have two.
#[test]
fn an_entry_that_changes_hands_is_read_once() {
    holds_and_catches(Mutant::NoLocks, || {
        let (one, other) = (ContextNode::new(1), ContextNode::new(3));
        let worker = spawn(move || {
            let thread = Thread::start();
            thread.takes(one, 8);
            thread.takes(other, 32);
            thread.gives_back(one, 8);
        });
        let reader = spawn(move || plausible(one, 8));
        reader.join().expect("the reader ends");
        worker.join().expect("the worker ends");
        assert_eq!((account(one).live_bytes, account(one).total_bytes), (0, 8));
        assert_eq!(account(other).live_bytes, 32);
    });
}

/// Both threads have their entries before, so that no lock orders the block's hand-over for the reader.
#[test]
fn a_block_freed_elsewhere_never_makes_a_reading_negative() {
    holds_and_catches(Mutant::RelaxedStores, || {
        let node = ContextNode::new(1);
        let [taker, freer] = [(); 2].map(|()| {
            let thread = Thread::start();
            thread.takes(node, 8);
            thread.gives_back(node, 8);
            thread
        });
        let handed_over = Arc::new(AtomicBool::new(false));
        let given = Arc::clone(&handed_over);
        let taking = spawn(move || {
            taker.takes(node, 8);
            given.store(true, Ordering::Release);
        });
        let freeing = spawn(move || {
            let there = handed_over.load(Ordering::Acquire);
            if there {
                freer.gives_back(node, 8);
            }
            there
        });
        let reader = spawn(move || plausible(node, 24));
        reader.join().expect("the reader ends");
        taking.join().expect("the taker ends");
        let freed = freeing.join().expect("the freer ends");
        assert_eq!(account(node).live_bytes, if freed { 0 } else { 8 });
    });
}

#[test]
fn a_thread_that_ends_is_counted_once() {
    holds_and_catches(Mutant::NoLocks, || {
        let node = ContextNode::new(1);
        let worker = spawn(move || {
            let thread = Thread::start();
            thread.takes(node, 8);
            thread.exit();
        });
        let reader = spawn(move || plausible(node, 8));
        reader.join().expect("the reader ends");
        worker.join().expect("the worker ends");
        let usage = account(node);
        assert_eq!((usage.live_bytes, usage.live_blocks, usage.total_bytes), (8, 1, 8));
    });
}

/// The worker's entry for the dying node is evicted by the one who ends it, or by the worker itself, who needs the
/// place.
#[test]
fn a_node_that_ends_is_not_used_by_a_thread_that_evicts_it() {
    holds_and_catches(Mutant::NoLocks, || {
        let (dying, other) = (ContextNode::new(1), ContextNode::new(3));
        let handed_over = Arc::new(AtomicBool::new(false));
        let given = Arc::clone(&handed_over);
        let worker = spawn(move || {
            let thread = Thread::start();
            thread.takes(dying, 8);
            // The last use by this thread: its reference goes.
            given.store(true, Ordering::Release);
            thread.takes(other, 8);
            thread
        });
        let ender = spawn(move || {
            if handed_over.load(Ordering::Acquire) {
                dying.end();
            }
        });
        ender.join().expect("the ender ends");
        let thread = worker.join().expect("the worker ends");
        assert_eq!(account(other).live_bytes, 8);
        thread.exit();
    });
}

#[test]
fn two_threads_that_start_and_end_at_once_are_both_counted() {
    holds_and_catches(Mutant::NoLocks, || {
        let node = ContextNode::new(1);
        let both = [8u64, 16].map(|bytes| {
            spawn(move || {
                let thread = Thread::start();
                thread.takes(node, bytes);
                thread.exit();
            })
        });
        for thread in both {
            thread.join().expect("a thread ends");
        }
        let usage = account(node);
        assert_eq!((usage.live_bytes, usage.live_blocks, usage.total_bytes), (24, 2, 24));
    });
}
