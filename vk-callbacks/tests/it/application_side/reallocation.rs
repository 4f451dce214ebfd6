//! The whole rule table of `pfnReallocation`: V11 to V17.

use std::ptr::{self};
use std::sync::atomic::Ordering::SeqCst;

use alloc_core::Scope;

use super::support::{Moody, bridged, faultless, moody};
use crate::common::{assert_filled, fill, raw};

#[test]
fn v12_content_up_to_the_smaller_size_survives_every_alignment() {
    faultless(|driver, _| {
        for log in 0..=13 {
            let mut size = 64;
            let mut block = driver.alloc(size, 1 << log, Scope::Cache);
            fill(block, size, log);
            for new in [65, 4000, 300, 16, 5000, 1] {
                block = driver.realloc(block, new, 1 << log, Scope::Cache);
                assert!(block.addr().is_multiple_of(1 << log));
                assert_filled(block, size.min(new), log);
                size = new;
                fill(block, size, log);
            }
            driver.free(block);
        }
    });
}

#[test]
fn v13_reallocating_null_is_an_allocation() {
    faultless(|driver, witness| {
        let block = driver.realloc(ptr::null_mut(), 64, 128, Scope::Device);
        assert!(!block.is_null() && block.addr().is_multiple_of(128));
        assert_eq!(witness.scope(Scope::Device).allocations, 1);
        driver.free(block);
    });
}

#[test]
fn v13_reallocating_null_checks_its_arguments() {
    bridged(|driver, _, notes| {
        assert!(
            driver
                .realloc(ptr::null_mut(), 64, 3, Scope::Device)
                .is_null()
        );
        assert!(driver.realloc_raw(ptr::null_mut(), 64, 8, 5).is_null());
        assert_eq!((notes().bad_alignments, notes().bad_scopes), (1, 1));
    });
}

#[test]
fn v14_realloc_to_zero_frees() {
    faultless(|driver, witness| {
        let block = driver.alloc(64, 8, Scope::Object);
        assert!(driver.realloc(block, 0, 8, Scope::Object).is_null());
        assert_eq!(witness.total().live_blocks, 0);
        assert!(
            driver
                .realloc(ptr::null_mut(), 0, 8, Scope::Object)
                .is_null(),
            "NULL and 0: nothing"
        );
        assert_eq!(witness.total().allocations, 1);
    });
}

#[test]
fn v15_another_alignment_is_noted_and_the_original_kept() {
    bridged(|driver, witness, notes| {
        let block = driver.alloc(64, 64, Scope::Object);
        fill(block, 64, 5);
        let grown = driver.realloc(block, 500, 8, Scope::Object);
        assert!(
            grown.addr().is_multiple_of(64),
            "the alignment it was made with"
        );
        assert_eq!(witness.total().live_bytes, 500 + 64);
        assert_filled(grown, 64, 5);
        assert_eq!((notes().alignment_changes, notes().faults()), (1, 1));
        let again = driver.realloc_raw(grown, 600, 64, raw(Scope::Device));
        assert_eq!((notes().scope_changes, notes().faults()), (1, 2));
        assert_eq!(
            witness.scope(Scope::Object).live_blocks,
            1,
            "the scope it was made with"
        );
        driver.free(again);
    });
}

#[test]
fn v16_a_failed_realloc_leaves_the_block() {
    moody(Moody::default(), |driver, backing, notes| {
        for align in [8, 64, 8192] {
            let block = driver.alloc(100, align, Scope::Object);
            fill(block, 100, 2);
            backing.refuse.store(true, SeqCst);
            assert!(driver.realloc(block, 1000, align, Scope::Object).is_null());
            assert!(driver.realloc(block, 10, align, Scope::Object).is_null());
            assert!(
                driver
                    .realloc(block, usize::MAX, align, Scope::Object)
                    .is_null()
            );
            assert_eq!(
                driver.realloc(block, 100, align, Scope::Object),
                block,
                "as it is, it asks for nothing"
            );
            assert_filled(block, 100, 2);
            backing.refuse.store(false, SeqCst);
            let grown = driver.realloc(block, 1000, align, Scope::Object);
            assert_filled(grown, 100, 2);
            driver.free(grown);
        }
        assert_eq!(
            (
                notes().backing_refusals,
                notes().too_large,
                notes().faults()
            ),
            (6, 3, 3)
        );
    });
}

#[test]
fn v17_realloc_may_stand_for_free_and_finds_alignment_and_size_by_itself() {
    faultless(|driver, _| {
        for (size, align) in [(0, 1), (1, 4), (100, 64), (100, 4096), (7, 8192)] {
            // The arguments beside size 0 need not fit the block: there is nothing left to align.
            let block = driver.alloc(size, align, Scope::Cache);
            assert!(driver.realloc_raw(block, 0, 0, -1).is_null());
        }
    });
}
