//! When slots retire, and how a table grows.

extern crate std;

use std::alloc::System;

use super::*;
use crate::{Context, ContextOptions, FromGlobalAlloc, Misuse};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Four thousand million values in one slot are too many for a test; the last ones are not.
#[test]
fn a_slot_that_has_had_all_its_values_is_retired() {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).unwrap();
    let first = root.own(1).unwrap();
    root.destroy(first).unwrap();
    let table = lock(root.node()).unwrap();
    let room = table.room();
    table.free.newest().unwrap().generation.set(LAST_GENERATION - 2);
    drop(table);
    let next_to_last = root.own(2).unwrap();
    assert_eq!(next_to_last.slot(), first.slot());
    root.destroy(next_to_last).unwrap();
    let last = root.own(3).unwrap();
    assert_eq!((last.slot(), last.generation()), (first.slot(), LAST_GENERATION - 1));
    root.destroy(last).unwrap();
    assert_eq!(lock(root.node()).unwrap().room(), room - 1);
    for n in 0..if cfg!(miri) { 10 } else { 100 } {
        assert_ne!(root.own(n).unwrap().slot(), first.slot());
    }
    for id in [first, next_to_last, last] {
        assert_eq!(root.remove(id), Err(HostError::Misuse(Misuse::NotOwned)));
    }
}

#[test]
fn segments_double_up_to_the_largest() {
    let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).unwrap();
    let mut sizes = std::vec::Vec::new();
    let all = [8, 16, 32, 64, 128, 256, 256, 256];
    let expected = if cfg!(miri) { &all[..2] } else { &all };
    for n in 0..if cfg!(miri) { 20 } else { 1000_u32 } {
        let slots = |table: Locked<'_>| table.live_values().count + table.room();
        let before = lock(root.node()).map_or(0, slots);
        root.own(n).unwrap();
        let after = lock(root.node()).map_or(0, slots);
        if after != before {
            sizes.push(after - before);
        }
    }
    assert_eq!(sizes, expected);
    let (bytes, blocks) = bytes_freed_with(root.node());
    let own = root.usage().total();
    assert_eq!((own.live_bytes - bytes, own.live_blocks - blocks), (ContextNode::LAYOUT.size() as u64, 1));
}
