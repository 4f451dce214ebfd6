//! Collectors: what a sweep frees and what it leaves.

use std::cell::Cell;
use std::ffi::c_void;

use alloc_core::tagged::{Fill, GcBlocks};
use alloc_core::{HostError, Misuse};

use super::{SEEN, block, domain, note, root};

#[test]
fn a_sweep_frees_newer_blocks_before_older_ones_as_free_does() {
    let root = root();
    let domain = domain(&root);
    let collector = GcBlocks::new(block(&domain));
    // SAFETY: blocks are used while they are live.
    unsafe {
        // Whoever dies is seen by the destructor of a block below it.
        for number in 1..=5_u64 {
            let collected = collector.allocate(8, Fill::Zeros).expect("a block");
            for number in [10 * number, 10 * number + 1] {
                let witness = collected.allocate(8, Fill::Zeros).expect("a block");
                witness.payload().cast::<u64>().write(number);
                witness.set_destructor(Some(note)).expect("one function");
            }
        }
        let third = collector.block().newest_child();
        let third = third.and_then(|fifth| fifth.next_older()?.next_older());
        assert!(collector.begin_sweep());
        collector.mark(third.expect("five blocks"));
        SEEN.take();
        collector.end_sweep();
        let order: Vec<u64> = SEEN.take().into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [51, 50, 41, 40, 21, 20, 11, 10]);
        collector.block().free();
        let order: Vec<u64> = SEEN.take().into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [31, 30]);
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// A block has one colour: that of its collector, or that of what it collects.
#[test]
fn a_collected_block_is_no_collector_and_has_no_destructor() {
    const REFUSED: HostError = HostError::Misuse(Misuse::Held);
    let root = root();
    let domain = domain(&root);
    let collector = GcBlocks::new(block(&domain));
    // SAFETY: blocks are used while they are live.
    unsafe {
        let collected = collector.allocate(8, Fill::Zeros).expect("a block");
        let inner = GcBlocks::new(collected);
        assert_eq!(inner.allocate(8, Fill::Zeros), Err(REFUSED));
        assert_eq!(collected.set_destructor(Some(note)), Err(REFUSED));
        assert_eq!(collected.set_destructor(None), Err(REFUSED));
        let plain = collector.block().allocate(8, Fill::Zeros).expect("a block");
        let other = GcBlocks::new(plain);
        let others = other.allocate(8, Fill::Zeros).expect("a block");
        let live = || domain.context().usage().total().live_blocks;
        let before = live();
        assert!(collector.begin_sweep());
        assert!(!inner.begin_sweep(), "it would unmark itself");
        collector.mark(collected);
        // Not collected, so its colour stays what its own blocks are compared with.
        collector.mark(plain);
        collector.end_sweep();
        other.end_sweep();
        assert_eq!(live(), before);
        assert_eq!(others.parent(), Some(plain));
        collector.block().free();
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}

/// A destructor below an unmarked block that is being freed sweeps its collector: the block is on its way already, and
/// goes once.
#[test]
fn a_sweep_from_a_destructor_leaves_what_is_being_freed() {
    thread_local!(static COLLECTOR: Cell<Option<GcBlocks>> = const { Cell::new(None) });
    unsafe extern "C" fn sweep(_: *mut c_void) {
        let collector = COLLECTOR.take().expect("set by the test");
        // SAFETY: the collector is live; what is unmarked is used no more.
        unsafe {
            assert!(collector.begin_sweep());
            collector.end_sweep();
        }
    }
    let root = root();
    let domain = domain(&root);
    for with_collector in [false, true] {
        let collector = GcBlocks::new(block(&domain));
        // SAFETY: blocks are used while they are live.
        unsafe {
            let new = || collector.allocate(8, Fill::Zeros).expect("a block");
            let [oldest, dying, newest] = [new(), new(), new()];
            let child = dying.allocate(8, Fill::Zeros).expect("a block");
            child.set_destructor(Some(sweep)).expect("one function");
            for outer in [oldest, newest] {
                outer.allocate(8, Fill::Zeros).expect("a block");
            }
            COLLECTOR.set(Some(collector));
            let top = if with_collector { collector.block() } else { dying };
            top.free();
            assert!(COLLECTOR.take().is_none(), "it ran");
            if !with_collector {
                assert_eq!(collector.block().newest_child(), None);
                collector.block().free();
            }
        }
        let left = domain.context().usage().total().live_blocks;
        assert_eq!(left, 1, "the record");
    }
    drop(domain);
    root.close_root().expect("nothing is left");
}
