//! Random op programs, see `testkit::programs::cache_ops`.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/cache_model/subject.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    testkit::programs::cache_ops(data, subject::CacheSubject::new);
});
