//! Ranges alone, without a driver and without blocks: ours, VMA's virtual block and offset-allocator on the same
//! traces.
//!
//! Each row: ns an operation over the whole trace; the median and the 99th of a hundred single takes and gives; the
//! high-water mark in an arena without end over the most bytes live at once; how many takes find no room in an arena of
//! 100, 102, 105 and 110 % of that; host bytes for each piece at that moment, by `malloc`'s own words and by the
//! subject's accounts; calls of `malloc` an operation.

mod gpu;
mod support;

use alloc_core::{Context, ContextOptions};
use gpu::ENDINGS;
use gpu::arenas::{Offset, Ours, VmaVirtual};
use gpu::stamps::Scale;
use gpu::table::{Crowds, Row, Subject, common, figures, rows};
use gpu::traces::{MemoryTrace, SizeEnding, TraceScale, all_traces, churn};
use support::backing::SYSTEM;
use support::clock::pinned;
use support::heap::keep_pages;
use support::report::BenchReport;
use support::rounds::{amount, wanted};

/// Large enough never to end.
const ENDLESS: u64 = 64 << 30;

const HEAD: [&str; 14] = [
    "trace, by whom",
    "bulk",
    "take",
    "p99",
    "give",
    "p99",
    "waste",
    "refused 100 %",
    "102 %",
    "105 %",
    "110 %",
    "host B",
    "own B",
    "mallocs",
];

fn main() {
    keep_pages();
    let clock = Scale::measure();
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("ranges")).expect("memory");
    let mut report = BenchReport::new("gpu_range", &HEAD);
    for (ending, sizes) in ENDINGS {
        for trace in &all_traces(sizes, TraceScale::FULL, amount) {
            let label = format!("{}-{ending}", trace.name);
            if wanted(&label) {
                pinned(|| one(&mut report, &label, trace, clock, root));
            }
        }
    }
    let mut crowds = Crowds::default();
    for (count, live) in [("1k", 1000), ("10k", 10_000), ("100k", 100_000), ("1m", 1_000_000)] {
        let label = format!("live-{count}");
        if wanted(&label) {
            let trace = churn(label.as_str(), SizeEnding::Rounded, live, amount(100_000), 64 << 10);
            let rows = pinned(|| crowded(&mut report, &label, &trace, live, clock, root));
            crowds.add(count, &rows);
        }
    }
    crowds.ratios(&mut report);
    report.print();
}

fn one(report: &mut BenchReport, label: &str, trace: &MemoryTrace, clock: Scale, root: &Context) {
    let vma = || VmaVirtual::new(ENDLESS);
    let offset = move || Offset::new(ENDLESS, trace);
    let ours = || Ours::new(root, ENDLESS);
    let subjects = vec![
        Subject::new("ours", trace, clock, ours, ours).refusing(|size| Ours::new(root, size)),
        Subject::new("vma-virtual", trace, clock, vma, vma).refusing(VmaVirtual::new),
        Subject::new("offset-allocator", trace, clock, offset, offset).refusing(|size| Offset::new(size, trace)),
    ];
    let rows = rows(&subjects);
    for row in &rows {
        assert_eq!(row.space.refused, 0, "{} refuses in an arena without end", row.name);
        let [times, refused, host] = common(row);
        let waste = row.space.high_water as f64 / trace.peak as f64;
        report.row(&format!("{label} {}", row.name), &[times, vec![waste], refused, host].concat());
        if row.name.starts_with("ours") {
            report.waste(&format!("{label}{}", row.name.trim_start_matches("ours")), waste);
        }
    }
    figures(report, label, &rows);
}

/// Single operations while so many pieces live.
fn crowded(
    report: &mut BenchReport,
    label: &str,
    trace: &MemoryTrace,
    live: usize,
    clock: Scale,
    root: &Context,
) -> Vec<Row> {
    let rows = rows(&[
        Subject::steady("ours", trace, live, clock, || Ours::new(root, ENDLESS)),
        Subject::steady("vma-virtual", trace, live, clock, || VmaVirtual::new(ENDLESS)),
        Subject::steady("offset-allocator", trace, live, clock, || Offset::new(ENDLESS, trace)),
    ]);
    for row in &rows {
        let [times, refused, host] = common(row);
        let of_peak = vec![row.space.high_water as f64 / trace.peak as f64];
        report.row(&format!("{label} {}", row.name), &[times, of_peak, refused, host].concat());
    }
    figures(report, label, &rows);
    rows
}
