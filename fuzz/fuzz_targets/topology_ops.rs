//! Random op programs, see the included folder.
#![no_main]
#[path = "../../gpu-suballoc/tests/it/topology_model/program/mod.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    program::topology_ops(data, program::subject::TopologySubject::new);
});
