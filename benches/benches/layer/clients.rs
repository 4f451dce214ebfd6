//! Whole programs, unmodified: the scripts of steward/tests/clients in the virtual environment that `STEWARD_CLIENTS`
//! names.

use std::env;
use std::path::{Path, PathBuf};

use super::process::{Layer, LayerSubject, SUBJECTS, cpu_ms};
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

/// Processor time of each, in ms, and its ratio to the same without the layer: of pairs of runs that follow each other,
/// the median. What else runs on the machine changes slowly beside a pair.
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
        let mut ratios = SUBJECTS.map(|_| Vec::new());
        let ms = |subject: &LayerSubject| {
            let mut command = layer.command(&environment.join("bin/python3"), subject);
            command.arg(&script).arg(work);
            cpu_ms(|| {
                let done = command.output().expect("a process");
                assert!(done.status.success(), "{client} {}: {done:?}", subject.name);
            })
        };
        for _ in 0..rounds {
            for (place, subject) in SUBJECTS.iter().enumerate().skip(1) {
                let (without, with) = (ms(&SUBJECTS[0]), ms(subject));
                least[0] = least[0].min(without);
                least[place] = least[place].min(with);
                ratios[place].push(with / without);
            }
        }
        report.row(client, &least);
        for (subject, mut ratios) in SUBJECTS.iter().zip(ratios).skip(1) {
            ratios.sort_by(f64::total_cmp);
            println!("{client} {}: {ratios:.3?}", subject.name);
            let median = ratios[ratios.len() / 2];
            report.ratio(&format!("{client}-{}", subject.name), "without", median, 1.0);
        }
    }
}
