//! Random op programs, see `testkit::programs::lifecycle_ops`.
#![no_main]
#[path = "../../gpu-suballoc/tests/lifecycle_model/subject.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    testkit::programs::lifecycle_ops(data, subject::Subject::new);
});
