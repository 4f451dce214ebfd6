//! Random op programs, see the included folder.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/range_model/program/mod.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    program::range_ops(data, gpu_suballoc::BlockAlgorithm::General);
    program::range_ops(data, program::LINEAR[data.len() % 3]);
});
