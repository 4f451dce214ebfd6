//! One table a bench, then one line a figure:
//!
//! ```text
//! ratio: <bench>/<case> ours/<peer> <x.xx>      below 1: ours is better
//! delta: <bench>/<case> +<ns>                   ns an operation over the same work on the allocator behind
//! ns: <bench>/<case> <ns>                       ours, absolute
//! count: <bench>/<case> <number>                mappings, KiB, blocks
//! waste: <bench>/<case> <x.xxx>                 bytes taken over bytes live, at their most
//! bytes: <bench>/<case> <x.x>                   host bytes for each live piece
//! ```

use std::fs;

/// What a bench has to say.
pub struct BenchReport {
    bench: &'static str,
    method: &'static str,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    figures: Vec<String>,
}

impl BenchReport {
    pub fn new(bench: &'static str, head: &[&str]) -> Self {
        let method = "ns an operation, medians of interleaved rounds, thread time";
        Self {
            bench,
            method,
            head: head.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// A report of time that passed, beside processor time.
    pub fn on_the_wall(bench: &'static str, head: &[&str]) -> Self {
        Self {
            method: "ns an operation and thread that passed, then of a processor; medians of interleaved rounds",
            ..Self::new(bench, head)
        }
    }

    /// A report of processor time in several units, where the machine's load would hide medians.
    pub fn minima(bench: &'static str, head: &[&str]) -> Self {
        Self { method: "minima of interleaved processes, processor time", ..Self::new(bench, head) }
    }

    /// A row of the table.
    pub fn row(&mut self, name: &str, cells: &[f64]) {
        let mut row = vec![name.to_owned()];
        row.extend(cells.iter().map(|cell| if cell.is_nan() { "-".to_owned() } else { format!("{cell:.2}") }));
        self.rows.push(row);
    }

    pub fn ratio(&mut self, case: &str, peer: &str, ours: f64, theirs: f64) {
        let ratio = ours / theirs;
        // Small ones keep two digits that count.
        let digits = if ratio < 0.1 { 4 } else { 2 };
        self.figures.push(format!("ratio: {}/{case} ours/{peer} {ratio:.digits$}", self.bench));
    }

    pub fn delta(&mut self, case: &str, ours: f64, behind: f64) {
        self.figures.push(format!("delta: {}/{case} {:+.1}", self.bench, ours - behind));
    }

    pub fn ns(&mut self, case: &str, ours: f64) {
        self.figures.push(format!("ns: {}/{case} {ours:.2}", self.bench));
    }

    pub fn count(&mut self, case: &str, count: i64) {
        self.figures.push(format!("count: {}/{case} {count}", self.bench));
    }

    pub fn waste(&mut self, case: &str, waste: f64) {
        // Rounded up: what is over a limit is not to look as if it kept to it.
        self.figures.push(format!("waste: {}/{case} {:.3}", self.bench, (waste * 1000.0).ceil() / 1000.0));
    }

    pub fn bytes(&mut self, case: &str, each: f64) {
        self.figures.push(format!("bytes: {}/{case} {each:.1}", self.bench));
    }

    /// Prints all of it.
    pub fn print(self) {
        let quick = if super::rounds::quick() { " (quick: not to be quoted)" } else { "" };
        println!("\n== {}: {}{quick}; load {}", self.bench, self.method, load());
        let all: Vec<&Vec<String>> = std::iter::once(&self.head).chain(&self.rows).collect();
        let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
        for row in &all {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| {
                    let width = width(column);
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                })
                .collect();
            println!("{}", cells.join("  ").trim_end());
        }
        for line in self.figures {
            println!("{line}");
        }
    }
}

/// How busy the machine is: a mean of the last minute, more than one for each bench thread means company.
fn load() -> String {
    fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().next().map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned())
}
