//! Whole programs, unmodified: the scripts of steward/tests/clients in the virtual environment that `STEWARD_CLIENTS` names.

use std::env;
use std::path::{Path, PathBuf};

use super::process::{Layer, SUBJECTS, cpu_ms};
use super::row;
use crate::support::report::BenchReport;
use crate::support::rounds::{quick, wanted};

/// Each script, and how often it does its work.
const CLIENTS: [(&str, &str); 5] = [
    ("wgpu_dispatch", "150"),
    ("ncnn_inferences", "300"),
    ("taichi_kernels", "1500"),
    ("iree_module", "100"),
    ("halide_pipeline", "100"),
];

/// Processor time of each, in ms.
pub(crate) fn run(report: &mut BenchReport, layer: &Layer) {
    let Some(environment) = env::var_os("STEWARD_CLIENTS").map(PathBuf::from) else {
        println!("SKIPPED layer/clients: STEWARD_CLIENTS names no virtual environment");
        return;
    };
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../steward/tests/clients");
    for (client, work) in CLIENTS.iter().filter(|(client, _)| wanted(client)) {
        let script = scripts.join(client).with_extension("py");
        let rounds = if quick() { 1 } else { 5 };
        let mut least = SUBJECTS.map(|_| f64::INFINITY);
        for _ in 0..rounds {
            for (subject, least) in SUBJECTS.iter().zip(&mut least) {
                let mut command = layer.command(&environment.join("bin/python3"), subject);
                command.arg(&script).arg(work);
                *least = least.min(cpu_ms(|| {
                    let done = command.output().expect("a process");
                    assert!(done.status.success(), "{client} {}: {done:?}", subject.name);
                }));
            }
        }
        row(report, client, &least);
    }
}
