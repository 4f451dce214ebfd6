//! Random op programs, see the included folder. The first byte chooses the device.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/region_model/program/mod.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    program::region_ops(rest, || program::subject::RegionSubject::new(*first % program::subject::SHAPES));
});
