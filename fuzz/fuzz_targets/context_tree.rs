//! Random op programs, see the included folder.
#![no_main]
#[path = "../../alloc-core/tests/it/programs/mod.rs"]
#[expect(dead_code, reason = "this target runs one of the programs")]
mod programs;

use programs::context_tree::{context_tree, context_tree_reentered};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Both over time, at the price of one.
    if data.len().is_multiple_of(2) {
        context_tree(data)
    } else {
        context_tree_reentered(data)
    };
});
