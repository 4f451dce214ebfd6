//! Random op programs, see the included folder.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/lifecycle_model/program/mod.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The bytes mean the same either way: every other length has devices, handlers and destructors that call back.
    let make = if data.len().is_multiple_of(2) {
        program::subject::LifecycleSubject::new
    } else {
        program::subject::LifecycleSubject::calling_back
    };
    program::lifecycle_ops(data, make);
});
