//! Random op programs, see the included folder.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/cache_model/program/mod.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    program::cache_ops(data, program::subject::CacheSubject::new);
});
