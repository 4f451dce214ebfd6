//! T28 to T33: sizes and alignments, and what a block holds.

use std::alloc::Layout;
use std::ptr::NonNull;

use alloc_core::{Allocator, HostAllocator, Scope, Scoped};

use debug_guard::Mode;

use crate::common::{Lab, On, SeenByChild, each, each_with, layout, loads, note, stores};

#[test]
fn t28_given_back_with_another_size() {
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 72, 16);
    }
    each(On::ALL, case, |seen| {
        let told = seen.of("size-mismatch", 64, 16);
        told.found_in("case").came_back_with(72, 16);
    });
}

#[test]
fn t29_given_back_with_another_alignment() {
    fn case(lab: &Lab) {
        let block = lab.block(64, 16);
        lab.give(block, 64, 8);
    }
    each(On::ALL, case, |seen| {
        let told = seen.of("alignment-mismatch", 64, 16);
        told.found_in("case").came_back_with(64, 8);
    });
}

#[test]
fn t30_reallocated_with_another_layout() {
    fn grows(lab: &Lab) {
        let block = NonNull::new(lab.block(64, 16)).expect("a block");
        // SAFETY: broken on purpose: the guard must notice.
        let grown = unsafe { lab.guard.resize(block, layout(60, 16), layout(128, 16), Scope::Object) };
        note("answered", usize::from(grown.is_ok()));
    }
    fn shrinks(lab: &Lab) {
        let block = NonNull::new(lab.block(64, 16)).expect("a block");
        // SAFETY: broken on purpose: the guard must notice.
        let shrunk = unsafe { lab.guard.resize(block, layout(64, 32), layout(8, 16), Scope::Object) };
        note("answered", usize::from(shrunk.is_ok()));
    }
    each(On::ALL, grows, |seen| {
        assert!(!seen.noted("answered"));
        let told = seen.of("size-mismatch", 64, 16);
        told.found("reallocation").came_back_with(60, 16).taken_in_case();
    });
    each(On::ALL, shrinks, |seen| {
        assert!(!seen.noted("answered"));
        let told = seen.of("alignment-mismatch", 64, 16);
        told.found("reallocation").came_back_with(64, 32).taken_in_case();
    });
}

#[test]
fn t31_sizes_that_nobody_has() {
    const MOST: usize = isize::MAX as usize;
    fn case(lab: &Lab) {
        let mut refused = 0;
        for align in [1, 16, 4096, 1 << 20] {
            for size in [MOST - (align - 1), MOST - (align - 1) - 4096, MOST / 2, 1 << 47] {
                let Ok(layout) = Layout::from_size_align(size, align) else {
                    continue;
                };
                assert!(lab.guard.allocate(layout, Scope::Object).is_err(), "{layout:?}");
                assert!(lab.guard.allocate_zeroed(layout, Scope::Object).is_err(), "{layout:?}");
                refused += 1;
            }
        }
        note("refused", refused);
        // A refused reallocation leaves the block.
        let block = NonNull::new(lab.block(64, 16)).expect("a block");
        stores(block.as_ptr(), 0x41);
        // SAFETY: a live block of that layout.
        let grown = unsafe { lab.guard.resize(block, layout(64, 16), layout(MOST - 15, 16), Scope::Object) };
        assert!(grown.is_err());
        assert_eq!(loads(block.as_ptr()), 0x41);
        lab.give(block.as_ptr(), 64, 16);
        note("live", lab.guard.stats().live_blocks as usize);
    }
    each(On::ALL, case, |seen| {
        seen.quiet(1);
        assert_eq!((seen.note("refused"), seen.note("live")), (16, 0));
    });
}

#[test]
fn t32_zeros_where_zeros_were_asked_for() {
    const BLOCKS: usize = 600;
    static ZEROS: [u8; 300 << 10] = [0; 300 << 10];
    fn case(lab: &Lab) {
        let (mut dirty, mut seen) = (0, std::collections::HashSet::new());
        for round in 0..BLOCKS {
            let size = [1, 61, 64, 4096, 5000, 300 << 10][round % 6];
            let block = lab.guard.allocate_zeroed(layout(size, 16), Scope::Object).expect("memory");
            seen.insert(block);
            // SAFETY: the block was given with that many bytes, all of them written.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), size) };
            // All of them at once: byte by byte takes long in a debug build.
            dirty += usize::from(*bytes != ZEROS[..size]);
            bytes.fill(0x41);
            lab.give(block.as_ptr(), size, 16);
        }
        note("dirty", dirty);
        note("addresses", seen.len());

        // The tail of a zeroed growth.
        let allocator = Scoped::new(&lab.guard, Scope::Object);
        let block = allocator.allocate(layout(64, 16)).expect("memory").cast::<u8>();
        // SAFETY: 64 bytes of ours.
        unsafe { block.as_ptr().write_bytes(0x41, 64) };
        // SAFETY: a live block of that layout.
        let grown =
            unsafe { allocator.grow_zeroed(block, layout(64, 16), layout(5000, 16)) }.expect("memory").cast::<u8>();
        // SAFETY: the block was given with that many bytes, all of them written.
        let bytes = unsafe { std::slice::from_raw_parts(grown.as_ptr(), 5000) };
        assert!(bytes[..64].iter().all(|byte| *byte == 0x41));
        note("dirty tail", bytes[64..].iter().filter(|byte| **byte != 0).count());
        // SAFETY: the block is live, and has this layout.
        unsafe { allocator.deallocate(grown, layout(5000, 16)) };
    }
    let short_quarantine = |options: debug_guard::GuardOptions| options.quarantine(8, 1 << 16);
    each_with(On::ALL, short_quarantine, case, |seen| {
        seen.quiet(BLOCKS);
        assert_eq!((seen.note("dirty"), seen.note("dirty tail")), (0, 0), "{}", seen.config.name());
        // Places that were written to before were among them.
        let reused = BLOCKS - seen.note("addresses");
        assert!(
            reused > BLOCKS / 2 || seen.config.mode == Mode::Strict,
            "{}: {reused} places again",
            seen.config.name()
        );
    });
}

/// A limit: a read of what was never written is not reported, nor is valgrind told of it. What it reads is a pattern
/// that tells, and no valid `bool`.
#[test]
fn t33_what_was_never_written_reads_as_a_pattern() {
    const FRESH: u8 = 0xCD;
    fn case(lab: &Lab) {
        // Not the first block of its place: that of a new page could be a pattern by chance.
        for _ in 0..5000 {
            let block = lab.take(64, 16);
            stores(block, 1);
            lab.give(block, 64, 16);
        }
        let block = lab.block(64, 16);
        const { assert!(FRESH > 1 && FRESH > std::cmp::Ordering::Greater as u8, "neither a bool nor a small enum") };
        let fresh = (0..64).filter(|i| loads(block.wrapping_add(*i)) == FRESH).count();
        note("fresh", fresh);
        // SAFETY: a live block of that layout.
        let grown = unsafe {
            lab.guard.resize(NonNull::new(block).expect("a block"), layout(64, 16), layout(200, 16), Scope::Object)
        };
        let grown = grown.expect("memory").as_ptr();
        note("tail", (64..200).filter(|i| loads(grown.wrapping_add(*i)) == 0xFD).count());
        lab.give(grown, 200, 16);
    }
    let verdict = |seen: &SeenByChild| {
        seen.quiet(5001);
        assert_eq!((seen.note("fresh"), seen.note("tail")), (64, 136), "{}", seen.config.name());
    };
    each(On::ALL, case, verdict);
}
