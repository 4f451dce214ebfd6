//! The whole rule table of `pfnReallocation`: V11 to V17.

use std::ptr::{self};

use alloc_core::Scope;

use super::support::{bridged, faultless};
use crate::common::{assert_filled, fill, raw};

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
fn v14_realloc_to_zero_frees() {
    faultless(|driver, witness| {
        let block = driver.alloc(64, 8, Scope::Object);
        assert!(driver.realloc(block, 0, 8, Scope::Object).is_null());
        assert_eq!(witness.total().live_blocks, 0);
        assert!(driver.realloc(ptr::null_mut(), 0, 8, Scope::Object).is_null(), "NULL and 0: nothing");
        assert_eq!(witness.total().allocations, 1);
    });
}

#[test]
fn v15_another_alignment_is_noted_and_the_original_kept() {
    bridged(|driver, witness, notes| {
        let block = driver.alloc(64, 64, Scope::Object);
        fill(block, 64, 5);
        let grown = driver.realloc(block, 500, 8, Scope::Object);
        assert!(grown.addr().is_multiple_of(64), "the alignment it was made with");
        assert_eq!(witness.total().live_bytes, 500 + 64);
        assert_filled(grown, 64, 5);
        assert_eq!((notes().alignment_changes, notes().faults()), (1, 1));
        let again = driver.realloc_raw(grown, 600, 64, raw(Scope::Device));
        assert_eq!((notes().scope_changes, notes().faults()), (1, 2));
        assert_eq!(witness.scope(Scope::Object).live_blocks, 1, "the scope it was made with");
        driver.free(again);
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
