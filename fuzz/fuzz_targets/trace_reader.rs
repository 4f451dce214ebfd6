//! Any bytes as a host trace, see `vk-callbacks/tests/it/trace_reader/program.rs`.
#![no_main]
#[path = "../../vk-callbacks/tests/it/trace_reader/program.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    program::trace_reader(data);
});
