//! Guarded blocks beside plain ones and beside other guards: 64 bytes are taken, touched and given back while 1000 or
//! 10 000 live, the oldest first or in no order; and a million that live at once.
//!
//! Stacks are walked by frame pointers, which this program has only when it is built with them: `benches/record` does,
//! and so does `RUSTFLAGS=-Cforce-frame-pointers=yes cargo bench -p steward-benches --bench guard`.

mod support;

use alloc_core::FromGlobalAlloc;
use debug_guard::{Guard, GuardOptions, Mode, OnReport, StackSupport, Stacks};
use support::backing::{MIMALLOC, SYSTEM};
use support::clock::pinned;
use support::elsewhere::{PEERS, was_peer};
use support::report::BenchReport;
use support::ring::Ring;
use support::rounds::{Case, amount, interleave, quick, wanted};
use support::subject::{ByScope, Subject};
use support::{crowd, elsewhere};

// SAFETY: dhat's allocator has no state of its own.
static DHAT: FromGlobalAlloc<dhat::Alloc> = unsafe { FromGlobalAlloc::new(dhat::Alloc) };

type Guarded = ByScope<Guard<&'static FromGlobalAlloc<std::alloc::System>>>;

fn main() {
    if was_peer() {
        return;
    }
    if let Some((name, live)) = crowd::asked() {
        return crowded(&name, live);
    }
    if !StackSupport::of_this_process().fast {
        return println!("SKIPPED guard: built without frame pointers; benches/record builds it with them");
    }
    pairs();
    crowds();
}

/// A guard over the C library's malloc, whose reports would end the bench.
fn guard(options: GuardOptions) -> Guarded {
    match Guard::new(&SYSTEM, options.on_report(OnReport::Abort)) {
        Ok(guard) => ByScope(guard),
        Err(refused) => panic!("{}", refused.error),
    }
}

fn of(name: &str) -> GuardOptions {
    let (mode, stacks) = name.split_once('+').map_or((name, Stacks::Off), |(mode, _)| (mode, Stacks::Fast));
    let options = match mode {
        "cookie" => GuardOptions::new(Mode::Cookie),
        "fence" => GuardOptions::new(Mode::Fence),
        "strict" => GuardOptions::new(Mode::Strict),
        "sampled" => GuardOptions::new(Mode::Sampled),
        "off" => GuardOptions::new(Mode::Off),
        _ => panic!("no mode is called {mode}"),
    };
    options.stacks(stacks)
}

/// Ours, and how many pairs are timed at once.
const OURS: [(&str, usize); 9] = [
    ("off", 100_000),
    ("sampled", 100_000),
    ("sampled+stacks", 100_000),
    ("cookie", 100_000),
    ("cookie+stacks", 100_000),
    ("fence", 50_000),
    ("fence+stacks", 50_000),
    ("strict", 10_000),
    ("strict+stacks", 10_000),
];

const LIVE: [(&str, usize); 2] = [("1k", 1000), ("10k", 10_000)];
const ORDERS: [(&str, bool); 2] = [("fifo", true), ("random", false)];

fn pairs() {
    let mut report = BenchReport::new("guard", &["allocator", "1k fifo", "1k random", "10k fifo", "10k random"]);
    let mut table: Vec<(&str, Vec<f64>)> = Vec::new();
    let _profiler = dhat::Profiler::builder().testing().build();
    for (count, live) in LIVE {
        for (order, in_order) in ORDERS {
            let label = format!("{count}-{order}");
            if !wanted(&label) {
                continue;
            }
            let figures = pinned(|| column(live, in_order));
            ratios(&mut report, &label, &figures);
            for (name, time) in figures {
                match table.iter_mut().find(|row| row.0 == name) {
                    Some(row) => row.1.push(time),
                    None => table.push((name, vec![time])),
                }
            }
        }
    }
    for (name, times) in table {
        report.row(name, &times);
    }
    report.print();
}

/// Everybody on one kind of work.
fn column(live: usize, in_order: bool) -> Vec<(&'static str, f64)> {
    let guards: Vec<Guarded> = OURS.iter().map(|(name, _)| guard(of(name))).collect();
    let (glibc, mimalloc, dhat) = (ByScope(&SYSTEM), ByScope(&MIMALLOC), ByScope(&DHAT));
    let mut names = vec!["glibc", "mimalloc", "dhat"];
    let mut cases = vec![
        case(&glibc, live, 100_000, in_order),
        case(&mimalloc, live, 100_000, in_order),
        case(&dhat, live, 10_000, in_order),
    ];
    for (guard, (name, operations)) in guards.iter().zip(OURS) {
        names.push(name);
        cases.push(case(guard, live, operations, in_order));
    }
    for peer in &PEERS {
        // A look first: a peer that is not installed has no row.
        if peer.pair(10, 100, in_order).is_some() {
            names.push(peer.name);
            cases.push(Case::new(peer.name, move || {
                peer.pair(live, amount(peer.operations), in_order).unwrap_or(f64::NAN)
            }));
        }
    }
    let times = interleave(11, cases);
    for (guard, (name, _)) in guards.iter().zip(OURS) {
        let stats = guard.0.stats();
        assert!(name.starts_with("off") || stats.guarded > 0 || stats.cookies > 0, "{name}: nothing was guarded");
    }
    names.into_iter().zip(times.into_iter().map(|figures| figures[0])).collect()
}

fn case<S: Subject>(subject: &S, live: usize, operations: usize, in_order: bool) -> Case<'_> {
    let mut ring = Ring::new(subject, live);
    Case::new("", move || ring.turn(amount(operations), in_order))
}

fn ratios(report: &mut BenchReport, label: &str, figures: &[(&str, f64)]) {
    let time = |name: &str| figures.iter().find(|figure| figure.0 == name).map(|figure| figure.1);
    let Some(behind) = time("glibc") else { return };
    for (name, _) in OURS {
        let Some(ours) = time(name) else { continue };
        let case = format!("{}-{label}", name.replace('+', "-"));
        report.ns(&case, ours);
        if name.starts_with("sampled") || name == "off" {
            report.delta(&case, ours, behind);
        }
        for peer in ["glibc", "mimalloc", "malloc-check", "dhat", "electric-fence", "duma"] {
            if let Some(theirs) = time(peer) {
                report.ratio(&case, peer, ours, theirs);
            }
        }
    }
}

fn crowds() {
    let live = if quick() { 100_000 } else { 1_000_000 };
    let mut report = BenchReport::new(
        "crowd",
        &["allocator", "fill ns", "end ns", "mappings", "page tables, B a block", "resident, B a block"],
    );
    for name in ["glibc", "cookie", "fence", "strict", "fence+stacks", "strict+stacks"] {
        if !wanted("crowd") {
            return;
        }
        let Some(taken) = crowd::child(name, live) else {
            continue;
        };
        let each = |kib: i64| kib as f64 * 1024.0 / live as f64;
        let cells = [taken.fill, taken.end, taken.mappings as f64, each(taken.page_tables), each(taken.resident)];
        report.row(name, &cells);
        let case = name.replace('+', "-");
        report.ns(&format!("{case}-fill"), taken.fill);
        report.count(&format!("{case}-mappings"), taken.mappings);
        report.count(&format!("{case}-page-tables-kib"), taken.page_tables);
        report.count(&format!("{case}-resident-kib"), taken.resident);
    }
    for peer in &PEERS {
        if peer.name != "malloc-check" {
            report.count(&format!("{}-blocks-before-it-ends", peer.name), peer.capacity(40_000) as i64);
        }
    }
    report.print();
}

/// In the process of its own.
fn crowded(name: &str, live: usize) {
    match name {
        "glibc" => crowd::run(&elsewhere::Malloc, live),
        _ => {
            // A quarter of the machine's memory is the default, and the row is about guarded blocks alone.
            let guard = guard(of(name).max_guarded_bytes(u64::MAX));
            crowd::run(&guard, live);
            let stats = guard.0.stats();
            assert_eq!(stats.unguarded, 0, "{stats}");
        }
    }
}
