//! Any bytes as a shader of the reference driver, see `reference-driver/tests/it/shader_reader.rs`.
#![no_main]
#[path = "../../reference-driver/tests/it/shader_reader.rs"]
mod shader_reader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = shader_reader::shader_reader(data);
});
