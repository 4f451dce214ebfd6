//! T10, T11, T13: in front of a block.

use crate::common::{Lab, On, each, loads, note, stores};

#[test]
fn t10_a_byte_in_front() {
    fn writes(lab: &Lab) {
        let block = lab.block(64, 16);
        let at = block.wrapping_sub(1);
        // Unlike what is there, where that can be read.
        stores(at, if lab.config.has_pages() && !lab.config.is_right() { 0x41 } else { !loads(at) });
        lab.give(block, 64, 16);
    }
    each(On::ALL, writes, |seen| {
        let block = seen.note("block");
        let told = seen.aborted();
        told.block(block, 64, 16).taken_in_case().offset_before_start(1);
        if !seen.config.has_pages() || seen.config.is_right() {
            told.kind("underflow").found_in("gives").flipped(block - 1, 1);
        } else {
            told.kind("underflow").stopped("write", block - 1).touched_in("stores");
        }
    });

    fn reads(lab: &Lab) {
        let block = lab.block(64, 16);
        loads(block.wrapping_sub(1));
        lab.give(block, 64, 16);
    }
    each(On::ALL, reads, |seen| {
        if seen.config.has_pages() && !seen.config.is_right() {
            let block = seen.note("block");
            let told = seen.of("underflow", 64, 16);
            told.stopped("read", block - 1).touched_in("loads").offset_before_start(1);
        } else {
            // A read leaves nothing to be found; that blocks are looked after here is the case above.
            seen.quiet(1);
        }
    });
}

#[test]
fn t11_a_byte_over_what_stands_in_front() {
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        let at = block.wrapping_sub(17);
        // Unlike what is there, where that can be read.
        stores(at, if lab.config.has_pages() { 0x41 } else { !loads(at) });
        lab.give(block, 64, 16);
    }
    each(On::COOKIE.and(On::LEFT), case, |seen| {
        let block = seen.note("block");
        let told = seen.aborted();
        told.block(block, 64, 16).taken_in_case();
        if seen.config.has_pages() {
            told.kind("underflow").stopped("write", block - 17).offset_before_start(17);
        } else {
            // Size, alignment and stacks stand elsewhere, too.
            told.kind("header-damaged").found_in("gives");
        }
    });
}

#[test]
fn t13_in_front_of_a_large_block() {
    const SIZE: usize = 300_000;
    fn case(lab: &Lab) {
        let block = lab.block(SIZE, 16);
        stores(block, 0x40);
        stores(block.wrapping_add(SIZE - 1), 0x40);
        note("inside", 1);
        stores(block.wrapping_sub(1), 0x41);
    }
    each(On::LEFT, case, |seen| {
        let block = seen.note("block");
        seen.note("inside");
        let told = seen.of("underflow", SIZE, 16);
        told.stopped("write", block - 1).offset_before_start(1);
    });
}
