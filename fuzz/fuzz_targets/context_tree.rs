//! Random op programs, see `testkit::programs::context_tree`.
#![no_main]
use testkit::programs::{context_tree, context_tree_reentered};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Both over time, at the price of one.
    if data.len().is_multiple_of(2) {
        context_tree(data)
    } else {
        context_tree_reentered(data)
    };
});
