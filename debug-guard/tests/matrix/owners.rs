//! T35, T37, T38: whose a block is.

use alloc_core::FromGlobalAlloc;
use debug_guard::Guard;

use crate::common::{Lab, On, each, gives, loads, note, note_pointer, stores, takes};

#[test]
fn t35_a_block_given_back_to_another_guard() {
    fn case(lab: &Lab) {
        let options = Lab::options(lab.config).name("the-other");
        let other = Guard::new(FromGlobalAlloc::SYSTEM, options).expect("a second guard");
        gives(&other, takes(&other, 64, 16), 64, 16);
        let block = lab.block(64, 16);
        wrongly(&other, block);
    }
    #[inline(never)]
    fn wrongly(other: &crate::common::Under, block: *mut u8) {
        gives(other, block, 64, 16);
    }
    each(On::ALL, case, |seen| {
        let told = seen.aborted();
        // The owner is the guard that gave it; who reports is the one that got it.
        told.kind("wrong-guard")
            .block(seen.note("block"), 64, 16)
            .taken_in_case()
            .found_in("wrongly")
            .through("the-other");
    });
}

/// Bytes in front of a block in cookie mode.
const HEADER: usize = 32;

#[test]
fn t37_a_header_copied_elsewhere() {
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        let copy = copies(lab, block);
        note_pointer("copy", copy);
        lab.give(copy, 64, 16);
    }
    /// The block with all that is around it, as `memcpy` of a struct that is thought to begin earlier would have it.
    fn copies(lab: &Lab, block: *mut u8) -> *mut u8 {
        let place = lab.take(64 + 2 * HEADER, 16);
        for i in 0..64 + 2 * HEADER {
            stores(place.wrapping_add(i), loads(block.wrapping_sub(HEADER).wrapping_add(i)));
        }
        place.wrapping_add(HEADER)
    }
    each(On::COOKIE, case, |seen| {
        let told = seen.of("header-moved", 64, 16);
        told.found_in("case");
        assert_eq!(told.address(), seen.note("copy"));
    });
}

/// A limit: that it is another block's tail is not said, which is a number like any other.
#[test]
fn t38_a_neighbours_tail_copied_over_ours() {
    fn case(lab: &Lab) {
        let (block, other) = (lab.block(64, 16), lab.take(64, 16));
        for i in 64..72 {
            stores(block.wrapping_add(i), loads(other.wrapping_add(i)));
        }
        lab.give(other, 64, 16);
        note("other is whole", 1);
        lab.give(block, 64, 16);
    }
    each(On::COOKIE, case, |seen| {
        seen.note("other is whole");
        let told = seen.of("overflow", 64, 16);
        told.found_in("case");
        let first = told.changed_first();
        assert!((seen.note("block") + 64..seen.note("block") + 72).contains(&first), "{told:?}");
    });
}
