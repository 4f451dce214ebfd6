//! Random op programs, see `testkit::programs::region_ops`. The first byte chooses the device.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/region_model/subject.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    testkit::programs::region_ops(rest, || {
        subject::RegionSubject::new(*first % subject::SHAPES)
    });
});
