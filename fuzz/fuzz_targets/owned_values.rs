//! Random op programs, see `testkit::programs::owned_values`.
#![no_main]
use testkit::programs::owned_values;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    owned_values(data);
});
