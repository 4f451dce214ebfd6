//! Random op programs, see `testkit::programs::topology_ops`.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/topology_model/subject.rs"]
mod subject;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    testkit::programs::topology_ops(data, subject::TopologySubject::new);
});
