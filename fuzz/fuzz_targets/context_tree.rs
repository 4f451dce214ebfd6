//! Random op programs, see `testkit::programs::context_tree`.
#![no_main]
use testkit::programs::context_tree;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    context_tree(data);
});
