//! Random op programs, see `testkit::programs::owned_values`.
#![no_main]
use testkit::programs::{owned_values, owned_values_reentered};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Both over time, at the price of one.
    if data.len().is_multiple_of(2) {
        owned_values(data)
    } else {
        owned_values_reentered(data)
    };
});
