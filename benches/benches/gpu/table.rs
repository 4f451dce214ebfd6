//! Everybody on one trace: rounds that alternate, rows of a table, and the figures of ours beside the peers.

use super::play::{Each, Places, Space, bulk, each, refusals, space};
use super::stamps::Scale;
use super::traces::MemoryTrace;
use crate::support::clock::thread_ns;
use crate::support::report::BenchReport;
use crate::support::rounds::{Case, interleave};

/// Capacities, in percent of the most bytes live at once.
pub const PERCENT: [u64; 4] = [100, 102, 105, 110];

/// Somebody: how they are timed, counted, and how often they refuse in so many bytes.
pub struct Subject<'t> {
    name: &'static str,
    trace: &'t MemoryTrace,
    times: Box<dyn Fn() -> Vec<f64> + 't>,
    space: Box<dyn Fn() -> Space + 't>,
    refused: Option<Box<dyn Fn(u64) -> usize + 't>>,
}

impl<'t> Subject<'t> {
    /// `timed` is made for each round, `counted` to be counted; they differ where counting costs time.
    pub fn new<P: Places + 't>(
        name: &'static str,
        trace: &'t MemoryTrace,
        clock: Scale,
        timed: impl Fn() -> P + Copy + 't,
        counted: impl Fn() -> P + Copy + 't,
    ) -> Self {
        let times = move || cells(bulk(trace, timed()), each(trace, timed(), clock, 0..usize::MAX));
        let space = move || space(trace, clock, 0..usize::MAX, counted);
        Self { name, trace, times: Box::new(times), space: Box::new(space), refused: None }
    }

    /// Whether it has one of these names.
    pub fn is_called(&self, names: &[&str]) -> bool {
        names.contains(&self.name)
    }

    /// `bounded` is made with a capacity.
    pub fn refusing<P: Places + 't>(mut self, bounded: impl Fn(u64) -> P + 't) -> Self {
        let trace = self.trace;
        self.refused = Some(Box::new(move |capacity| refusals(trace, bounded(capacity))));
        self
    }

    /// Times are of single operations once `live` pieces live, and before they go.
    pub fn steady<P: Places + 't>(
        name: &'static str,
        trace: &'t MemoryTrace,
        live: usize,
        clock: Scale,
        timed: impl Fn() -> P + Copy + 't,
    ) -> Self {
        let window = live..trace.ops.len() - live;
        let steady = window.clone();
        let times = move || cells(f64::NAN, each(trace, timed(), clock, steady.clone()));
        let space = move || space(trace, clock, window.clone(), timed);
        Self { name, trace, times: Box::new(times), space: Box::new(space), refused: None }
    }
}

fn cells(bulk: f64, each: Each) -> Vec<f64> {
    vec![bulk, each.take.0, each.take.1, each.give.0, each.give.1]
}

/// What is known of one subject on one trace.
pub struct Row {
    pub name: &'static str,
    /// Bulk, take, its 99th of a hundred, give, its 99th.
    pub times: Vec<f64>,
    pub space: Space,
    pub refused: [Option<usize>; 4],
}

/// The slowest takes and gives (the 99th of a hundred) as ever more pieces live: ours, and VMA's in the same run.
#[derive(Default)]
pub struct Crowds(Vec<(&'static str, [Slowest; 2])>);

/// Of takes, and of gives.
type Slowest = (f64, f64);

impl Crowds {
    pub fn add(&mut self, count: &'static str, rows: &[Row]) {
        let of = |name: &str| {
            let row = rows.iter().find(|row| row.name.starts_with(name));
            row.map_or((f64::NAN, f64::NAN), |row| (row.times[2], row.times[4]))
        };
        self.0.push((count, [of("ours"), of("vma")]));
    }

    /// How much slower they become: ours alone, and over VMA's growth.
    pub fn ratios(&self, report: &mut BenchReport) {
        for (few, many) in [("1k", "100k"), ("10k", "1m")] {
            let of = |wanted| self.0.iter().find(|(count, _)| *count == wanted);
            let (Some((_, [ours, vma])), Some((_, [ours_many, vma_many]))) = (of(few), of(many)) else {
                continue;
            };
            let take = [ours_many.0 / ours.0, vma_many.0 / vma.0];
            let give = [ours_many.1 / ours.1, vma_many.1 / vma.1];
            for (what, [growth, theirs]) in [("take", take), ("give", give)] {
                report.ratio(&format!("{what}-p99-at-{many}"), &format!("at-{few}"), growth, 1.0);
                let case = format!("{what}-p99-growth-{few}-to-{many}");
                report.ratio(&case, "vma", growth, theirs);
            }
        }
    }
}

/// Longer than this, in ns for the trace and for an operation of it, and rounds would take minutes: then the times of
/// the checked play are all there is.
const LONG: (u64, u64) = (200_000_000, 3000);

/// Everybody in turn.
pub fn rows(subjects: &[Subject<'_>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut rounds = Vec::new();
    for subject in subjects {
        let before = thread_ns();
        let space = (subject.space)();
        let took = thread_ns() - before;
        let slow = took > LONG.0 && took / subject.trace.ops.len() as u64 > LONG.1;
        let mut row = Row { name: subject.name, times: cells(f64::NAN, space.each), space, refused: [None; 4] };
        if !slow {
            rounds.push(Case::several(subject.name, || (subject.times)()));
            row.times = Vec::new();
        }
        if let (false, Some(refused)) = (slow, &subject.refused) {
            // In whole units, so that a bound which is none does not refuse.
            row.refused = PERCENT.map(|percent| {
                let capacity = (subject.trace.peak * percent / 100).next_multiple_of(subject.trace.align);
                Some(refused(capacity))
            });
        }
        rows.push(row);
    }
    let mut times = interleave(11, rounds).into_iter();
    for row in rows.iter_mut().filter(|row| row.times.is_empty()) {
        row.times = times.next().expect("a case for each that is not slow");
    }
    rows
}

/// The figures of every row called `ours..`, against every other.
pub fn figures(report: &mut BenchReport, label: &str, rows: &[Row]) {
    let ours = |row: &&Row| row.name.starts_with("ours");
    for row in rows.iter().filter(ours) {
        let case = format!("{label}{}", row.name.trim_start_matches("ours"));
        for (at, what) in ["bulk", "take", "take-p99", "give", "give-p99"].into_iter().enumerate() {
            let case = format!("{case}-{what}");
            if row.times[at].is_nan() {
                continue;
            }
            report.ns(&case, row.times[at]);
            for peer in rows.iter().filter(|row| !ours(row) && !row.times[at].is_nan()) {
                report.ratio(&case, peer.name, row.times[at], peer.times[at]);
            }
        }
        for (percent, refused) in PERCENT.into_iter().zip(row.refused) {
            if let Some(refused) = refused {
                report.count(&format!("{case}-refused-{percent}"), refused as i64);
            }
        }
        if row.space.metadata > 0.0 {
            report.bytes(&format!("{case}-metadata"), row.space.metadata);
        }
        if let Some(accounts) = row.space.accounts {
            report.bytes(&format!("{case}-accounts"), accounts);
        }
    }
}

/// The cells that both benches have.
pub fn common(row: &Row) -> [Vec<f64>; 3] {
    let refused = row.refused.iter().map(|refused| refused.map_or(f64::NAN, |refused| refused as f64)).collect();
    let host = vec![row.space.metadata, row.space.accounts.unwrap_or(f64::NAN), row.space.host_calls];
    [row.times.clone(), refused, host]
}
