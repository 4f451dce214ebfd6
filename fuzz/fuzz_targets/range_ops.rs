//! Random op programs, see `testkit::programs::range_ops`.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/range_model/subject.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    testkit::programs::range_ops(data, subject::RangeSubject::new);
});
