//! Random op programs, see `testkit::programs::lifecycle_ops`.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/lifecycle_model/subject.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The bytes mean the same either way: every other length has devices, handlers and destructors that call back.
    let make = if data.len().is_multiple_of(2) {
        subject::LifecycleSubject::new
    } else {
        subject::LifecycleSubject::calling_back
    };
    testkit::programs::lifecycle_ops(data, make);
});
