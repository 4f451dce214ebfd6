//! Random op programs, see the included folder.
#![no_main]
#[path = "../../alloc-core/tests/it/programs/mod.rs"]
#[expect(dead_code, reason = "this target runs one of the programs")]
mod programs;

use programs::owned_values::{owned_values, owned_values_reentered};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Both over time, at the price of one.
    if data.len().is_multiple_of(2) {
        owned_values(data)
    } else {
        owned_values_reentered(data)
    };
});
