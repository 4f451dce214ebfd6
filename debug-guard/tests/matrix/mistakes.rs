//! The 24 mistakes, each made with blocks as a C program would have them: 16-byte alignment, 64 bytes where nothing
//! else is said.

use std::hint::black_box;
use std::io::{Read, Write, pipe};
use std::ptr::NonNull;

use alloc_core::{HostAllocator, Scope, with_front};

use crate::common::{Lab, layout, loads, note_pointer, stores};

pub(crate) const CASES: usize = 24;

/// What is done, and the kind of the report that may be made of it.
pub(crate) const MISTAKES: [(&str, &str); CASES] = [
    ("a byte written behind the end", "overflow"),
    ("a byte written behind the end of 61, in the slack", "overflow"),
    ("a byte read behind the end", "overflow"),
    ("a byte written in front", "underflow"),
    ("a byte read in front", "underflow"),
    ("written after the free", "use-after-free"),
    ("read after the free", "use-after-free"),
    ("written after the free and a hundred others", "use-after-free"),
    ("freed twice", "double-free"),
    ("freed twice, a hundred others in between", "double-free"),
    ("a pointer into a block freed", "interior-free"),
    ("a pointer into the stack freed", "foreign-free"),
    ("a page written from the start", "overflow"),
    ("written a page past the end", "overflow"),
    ("written a page past the end of 300 KiB", "overflow"),
    ("300 KiB written after the free", "use-after-free"),
    ("read before anything was written", ""),
    ("never freed", ""),
    ("reallocated after the free", "double-free"),
    ("a byte written to a block of none", "zero-size-access"),
    ("read(2) past the end", "overflow"),
    ("a string whose terminator lies behind the end", "overflow"),
    ("a byte behind the end written as it was", "overflow"),
    ("eight bytes written, four of them behind the end", "overflow"),
];

const SIZE: usize = 64;
const LARGE: usize = 300 << 10;
/// What a C bridge has in front of its caller's block.
const HEADER: usize = 16;

fn touches(at: *const u8) {
    black_box(loads(at));
}

fn forget(_: *mut u8) {}

/// Makes the mistake, and gives back what there is to be given back.
pub(crate) fn commit(lab: &Lab, number: usize) {
    match number {
        1..=5 | 13..=15 | 21..=24 => with_a_live_block(lab, number),
        6..=10 | 16 | 19 => with_a_freed_block(lab, number),
        _ => otherwise(lab, number),
    }
}

fn with_a_live_block(lab: &Lab, number: usize) {
    let size = match number {
        2 => 61,
        15 => LARGE,
        _ => SIZE,
    };
    let block = lab.block(size, 16);
    let at = |offset: usize| block.wrapping_add(offset);
    // Where this is so nothing can be read: what is written is stopped whatever it is.
    let untouchable = |page: *mut u8| lab.config.has_pages() && page.addr().is_multiple_of(4096);
    match number {
        // Behind a block there is never this byte.
        1 => stores(at(64), 0xFF),
        2 => stores(at(61), 0xFF),
        3 => touches(at(64)),
        4 => {
            let front = block.wrapping_sub(1);
            stores(front, if untouchable(block) { 0x41 } else { !loads(front) });
        }
        5 => touches(block.wrapping_sub(1)),
        // SAFETY: broken on purpose, as all of these.
        13 => unsafe { black_box(block).write_bytes(0x41, 4096) },
        14 => stores(at(64 + 4096), 0x41),
        15 => stores(at(LARGE + 4096), 0x41),
        21 => reads_from_a_pipe(block),
        22 => (0..=64).for_each(|i| stores(at(i), if i == 64 { 0 } else { b'a' })),
        23 => stores(at(64), if untouchable(at(64)) { 0x41 } else { loads(at(64)) }),
        // SAFETY: broken on purpose.
        _ => unsafe { black_box(at(60)).cast::<u64>().write_unaligned(0x4142_4344_4546_4748) },
    }
    lab.give(block, size, 16);
}

fn reads_from_a_pipe(block: *mut u8) {
    let (mut reader, mut writer) = pipe().expect("a pipe");
    writer.write_all(&[0x41; 80]).expect("it holds so many");
    // SAFETY: broken on purpose: 16 bytes more than the block has. The system writes them, or refuses to.
    let beyond = unsafe { std::slice::from_raw_parts_mut(block, 80) };
    let _ = black_box(reader.read(beyond));
}

fn with_a_freed_block(lab: &Lab, number: usize) {
    let size = if number == 16 { LARGE } else { SIZE };
    let block = lab.block(size, 16);
    lab.give(block, size, 16);
    if matches!(number, 8 | 10) {
        (0..100).for_each(|_| lab.give(lab.take(SIZE, 16), SIZE, 16));
    }
    match number {
        7 => touches(block),
        9 | 10 => lab.give(block, size, 16),
        19 => {
            let block = NonNull::new(block).expect("a block");
            // SAFETY: broken on purpose: it was freed.
            let _ = unsafe { lab.guard.resize(block, layout(SIZE, 16), layout(256, 16), Scope::Object) };
        }
        _ => stores(block.wrapping_add(5), 0x41),
    }
}

fn otherwise(lab: &Lab, number: usize) {
    match number {
        11 => lab.give(lab.block(SIZE, 16).wrapping_add(16), 48, 16),
        12 => {
            let mut local = [0_u64; 8];
            lab.give(black_box(&mut local).as_mut_ptr().cast(), SIZE, 8);
        }
        17 => {
            let block = lab.block(SIZE, 16);
            black_box(loads(block));
            lab.give(block, SIZE, 16);
        }
        18 => forget(lab.take(SIZE, 16)),
        _ => {
            let block = with_front(HEADER, || lab.take(HEADER, 16));
            note_pointer("block", block.wrapping_add(HEADER));
            stores(block.wrapping_add(HEADER), 0xFF);
            with_front(HEADER, || lab.give(block, HEADER, 16));
        }
    }
}
