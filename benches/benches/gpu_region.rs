//! Whole allocators, from request to region: ours, VMA, gpu-allocator and the driver itself, on the same traces.
//!
//! Twice: behind a driver that only counts, so that what is timed is the allocator; and on lavapipe, or the device of
//! `--device=WORD`, with what fits its heap. Each row: ns an operation over the whole trace; the median and the 99th of
//! a hundred single takes and gives; device bytes reserved at their most over bytes live at theirs; how many takes are
//! refused when the driver gives no more than 100, 102, 105 and 110 % of that; host bytes for each piece at that
//! moment, by `malloc`'s own words and by the subject's accounts; calls of `malloc` and of the driver an operation. Who
//! takes microseconds for an operation is timed once, while the pieces are checked.

mod gpu;
mod support;

use alloc_core::{Context, ContextOptions};
use gpu::ENDINGS;
use gpu::driver::{self, Driver};
use gpu::play::Places;
use gpu::stamps::Scale;
use gpu::table::{Crowds, Row, Subject, common, figures, rows};
use gpu::traces::{MemoryTrace, SizeEnding, TraceScale, all_traces, churn};
use gpu::whole::{Ours, Raw, Traverse, Vma};
use support::backing::SYSTEM;
use support::clock::pinned;
use support::report::BenchReport;
use support::rounds::{amount, wanted};

const HEAD: [&str; 15] = [
    "trace, by whom",
    "bulk",
    "take",
    "p99",
    "give",
    "p99",
    "reserved",
    "refused 100 %",
    "102 %",
    "105 %",
    "110 %",
    "host B",
    "own B",
    "mallocs",
    "driver calls",
];

fn main() {
    let clock = Scale::measure();
    let mut report = BenchReport::new("gpu_region", &HEAD);
    let hollow = Driver::hollow();
    let root = &Context::root_static(&SYSTEM, ContextOptions::new("regions")).expect("memory");
    for (ending, sizes) in ENDINGS {
        for trace in &all_traces(sizes, TraceScale::FULL, amount) {
            let label = format!("{}-{ending}", trace.name);
            if wanted(&label) {
                pinned(|| {
                    let mut subjects = behind_hollow(trace, clock, &hollow, root);
                    // Who takes minutes in all plays half of the traces.
                    let slow = |subject: &Subject<'_>| subject.is_called(&["gpu-allocator"]);
                    subjects.retain(|subject| sizes == SizeEnding::Rounded || !slow(subject));
                    one(&mut report, &label, trace, &subjects);
                });
            }
        }
    }
    let mut crowds = Crowds::default();
    for (count, live) in [("1k", 1000), ("10k", 10_000), ("100k", 100_000), ("1m", 1_000_000)] {
        let label = format!("live-{count}");
        if wanted(&label) {
            let trace = churn(label.as_str(), SizeEnding::Rounded, live, amount(100_000), 64 << 10);
            let rows = pinned(|| crowded(&mut report, &label, &trace, live, clock, &hollow, root));
            crowds.add(count, &rows);
        }
    }
    crowds.ratios(&mut report);
    if let Some((drivers, name)) = Driver::real() {
        for trace in &all_traces(SizeEnding::Rounded, TraceScale::SMALL, amount) {
            let label = format!("{name}-{}", trace.name);
            if wanted(&label) {
                pinned(|| one(&mut report, &label, trace, &on_lavapipe(trace, clock, &drivers, root)));
            }
        }
    }
    report.print();
}

fn behind_hollow<'t>(trace: &'t MemoryTrace, clock: Scale, driver: &'t Driver, root: &'t Context) -> Vec<Subject<'t>> {
    let vma = || Vma::new(driver);
    let traverse = || Traverse::new(driver);
    let ours = || Ours::new(driver, root);
    vec![
        Subject::new("ours", trace, clock, ours, ours).refusing(limited(ours)),
        Subject::new("vma", trace, clock, vma, vma).refusing(limited(vma)),
        Subject::new("gpu-allocator", trace, clock, traverse, traverse).refusing(limited(traverse)),
    ]
}

fn on_lavapipe<'t>(
    trace: &'t MemoryTrace,
    clock: Scale,
    [plain, counted]: &'t [Driver; 2],
    root: &'t Context,
) -> [Subject<'t>; 4] {
    let ours = |driver| Ours::new(driver, root);
    [
        Subject::new("ours", trace, clock, move || ours(plain), move || ours(counted)),
        Subject::new("vma", trace, clock, || Vma::new(plain), || Vma::new(counted)),
        Subject::new("gpu-allocator", trace, clock, || Traverse::new(plain), || Traverse::new(counted)),
        Subject::new("raw", trace, clock, || Raw::new(plain), || Raw::new(counted)),
    ]
}

/// Made when the driver gives no more than so many bytes.
fn limited<P: Places>(make: impl Fn() -> P) -> impl Fn(u64) -> Limited<P> {
    move |bytes| {
        driver::limit(bytes);
        Limited(make())
    }
}

/// The limit ends with it.
struct Limited<P>(P);

impl<P: Places> Places for Limited<P> {
    type Piece = P::Piece;
    fn take(&mut self, size: u64, align: u64) -> Option<P::Piece> {
        self.0.take(size, align)
    }
    fn give(&mut self, piece: P::Piece) {
        self.0.give(piece);
    }
    fn place(&self, piece: &P::Piece) -> (u64, u64) {
        self.0.place(piece)
    }
}

impl<P> Drop for Limited<P> {
    fn drop(&mut self) {
        driver::limit(u64::MAX);
    }
}

fn one(report: &mut BenchReport, label: &str, trace: &MemoryTrace, subjects: &[Subject<'_>]) {
    let rows = rows(subjects);
    for row in &rows {
        assert!(row.space.reserved >= trace.peak, "{label}: {} had only {} bytes", row.name, row.space.reserved);
        let [times, refused, host] = common(row);
        let reserved = row.space.reserved as f64 / trace.peak as f64;
        report.row(
            &format!("{label} {}", row.name),
            &[times, vec![reserved], refused, host, vec![row.space.driver_calls]].concat(),
        );
        if row.name.starts_with("ours") {
            report.waste(&format!("{label}{}-reserved", row.name.trim_start_matches("ours")), reserved);
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
    driver: &Driver,
    root: &Context,
) -> Vec<Row> {
    let mut subjects = vec![
        Subject::steady("ours", trace, live, clock, || Ours::new(driver, root)),
        Subject::steady("vma", trace, live, clock, || Vma::new(driver)),
    ];
    // Beyond, it takes minutes.
    if live <= 10_000 {
        subjects.push(Subject::steady("gpu-allocator", trace, live, clock, || Traverse::new(driver)));
    }
    let rows = rows(&subjects);
    for row in &rows {
        let [times, refused, host] = common(row);
        let of_peak = vec![row.space.reserved as f64 / trace.peak as f64];
        report.row(
            &format!("{label} {}", row.name),
            &[times, of_peak, refused, host, vec![row.space.driver_calls]].concat(),
        );
    }
    figures(report, label, &rows);
    rows
}
