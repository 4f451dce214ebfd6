//! Law 2 on a live driver: each of its requests for host memory fails once, in a process of its own.
//!
//! Right is `VK_ERROR_OUT_OF_HOST_MEMORY`, or success with right results; nothing may be left in either. What the
//! driver does otherwise (a signal, a leak, a wrong result) is listed in `expectations/<driver>-<version>.txt`; a row
//! that is new fails, and so does one that no longer happens. With `STEWARD_WRITE_EXPECTATIONS=1` the file is written
//! instead.
//!
//! For a version without a file the sweep runs all the same and prints the file that would be; then it counts as
//! skipped for the want of the driver, so that `STEWARD_REQUIRE=lavapipe` fails until somebody has reviewed and
//! committed it.
//!
//! Then the whole workload under a budget: with as much as it needs, and with half of that.

#[path = "support/bridges.rs"]
mod bridges;
#[path = "live_sweep/case.rs"]
mod case;
#[path = "support/driver_shim.rs"]
mod driver_shim;
#[path = "live_sweep/expectations.rs"]
mod expectations;
#[path = "support/opened.rs"]
mod opened;
#[path = "live_sweep/refusing.rs"]
mod refusing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use case::{CHILD, Case, SweepSeen};
use vk_steward::drivers::Selected;

use expectations::{Identity, SweepRow, compare, is_good, parse};

const DRIVERS: [&str; 2] = ["lavapipe", "swiftshader"];
/// Children at a time.
const AT_A_TIME: usize = 2;
/// Set to 1, has the expectations written.
const WRITE: &str = "STEWARD_WRITE_EXPECTATIONS";

/// The driver that is swept.
struct SweptDriver {
    /// As the program knows it.
    name: &'static str,
    selected: Selected,
}

fn main() -> ExitCode {
    if let Some(code) = opened::as_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let [CHILD, ref case @ ..] = arguments[..] {
        return Case::run(case);
    }
    let wanted: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(**part));
    if !runs("live_sweep") && !runs("live_budget") {
        return ExitCode::SUCCESS;
    }
    expectations::every_kind_of_difference_is_found();
    let passed = DRIVERS.map(|name| match opened::select(name) {
        Ok(selected) => {
            // The loader's own requests, nine of ten, say nothing of the driver.
            let selected = Selected { is_direct: true, ..selected };
            on_driver(&SweptDriver { name, selected }, &runs)
        }
        Err(reason) => {
            testkit::skip(name, "live_sweep", &reason);
            testkit::skip(name, "live_budget", &reason);
            true
        }
    });
    if passed.iter().all(|passed| *passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn on_driver(driver: &SweptDriver, runs: &dyn Fn(&str) -> bool) -> bool {
    let seed = seed();
    let dry = Case { seed, ..Case::default() };
    let dry = dry.in_a_child(&driver.selected);
    assert_eq!(dry.outcome, "ok", "without a fault, seed {seed}:\n{}", dry.text);
    assert!(dry.requests > 100 && dry.peak > 10_000, "{} requests, {} bytes", dry.requests, dry.peak);
    let swept = !runs("live_sweep") || sweep(driver, &dry, seed);
    let kept = !runs("live_budget") || budget(driver, &dry, seed);
    swept && kept
}

/// Different in every run, so that a result cannot be right by habit.
fn seed() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.subsec_nanos()) ^ std::process::id()
}

fn sweep(driver: &SweptDriver, dry: &SweepSeen, seed: u32) -> bool {
    let file = file_of(driver);
    let write = std::env::var(WRITE).is_ok_and(|value| value == "1");
    let listed = match std::fs::read_to_string(&file) {
        _ if write => None,
        Ok(text) => Some(parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{}: {error}", file.display()),
    };
    let started = Instant::now();
    let cases = every_case(driver, dry.requests, seed);
    let rows = rows(&cases);
    let count = |outcome: &str| cases.iter().filter(|seen| seen.outcome == outcome).count();
    let odd = rows.iter().filter(|row| !is_good(&row.outcomes.concat()));
    let known = listed.is_some();
    let listed = listed.unwrap_or_else(|| {
        let text = expectations_of(driver, odd.clone());
        if write {
            std::fs::write(&file, &text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            println!("wrote {}", file.display());
        } else {
            println!("--- {} would be:\n{text}--- end of the file", file.display());
        }
        // As the next run will read it.
        parse(&text).expect("what was just written")
    });
    let differences = compare(&listed, &rows);
    let expected = odd.filter(|row| listed.iter().any(|known| known.allows(row))).count();
    for difference in &differences {
        println!("{difference}");
    }
    println!(
        "live sweep: {} requests, {} out of host memory, {} survived, {} expected oddities",
        cases.len(),
        count("VK_ERROR_OUT_OF_HOST_MEMORY"),
        count("ok"),
        expected
    );
    println!("    {}, seed {seed}, {:.1} s", driver.selected.title(), started.elapsed().as_secs_f64());
    if !differences.is_empty() {
        println!("test live_sweep ... FAILED: {} differences to {}", differences.len(), file.display());
        println!(
            "    one case alone: {} {CHILD} {seed} <request> -",
            std::env::current_exe().unwrap_or_default().display()
        );
        return false;
    }
    if !known && !write {
        // The sweep ran, but there is nothing that says what is right for this version.
        let title = driver.selected.title();
        let reason =
            format!("nothing is known of {title}: review the rows above and commit them ({WRITE}=1 writes the file)");
        testkit::skip(driver.name, "live_sweep", &reason);
        return true;
    }
    println!("test live_sweep ... ok");
    true
}

/// Runs every case, and gives them by the number of the request.
fn every_case(driver: &SweptDriver, requests: u64, seed: u32) -> Vec<SweepSeen> {
    let (next, done) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let request = next.fetch_add(1, Relaxed);
            if request >= requests {
                break;
            }
            let case = Case { seed, request: Some(request), limit: None };
            let seen = case.in_a_child(&driver.selected);
            done.lock().expect("nobody panics with it").insert(request, seen);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    done.into_inner().expect("nobody panics with it").into_values().collect()
}

/// Gives each case its identity: requests that are alike are numbered in the order of the run.
fn rows(cases: &[SweepSeen]) -> Vec<SweepRow> {
    let mut alike = BTreeMap::new();
    let rows = cases.iter().zip(0..).map(|(seen, request)| {
        let refused =
            seen.refused.clone().unwrap_or_else(|| panic!("request {request} was never refused:\n{}", seen.text));
        let mut identity = Identity {
            command: refused.command,
            scope: refused.scope,
            size: refused.size,
            module: refused.module,
            occurrence: 0,
        };
        let so_far = alike.entry(identity.clone()).or_insert(0);
        *so_far += 1;
        identity.occurrence = *so_far;
        SweepRow { identity, outcomes: vec![seen.outcome.clone()], request }
    });
    rows.collect()
}

/// `expectations/lavapipe-22.3.6.txt` for a driver that calls itself `Mesa 22.3.6 (LLVM 15.0.6)`.
fn file_of(driver: &SweptDriver) -> PathBuf {
    let version = driver
        .selected
        .info
        .driver_info
        .split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let name = format!("{}-{}.txt", driver.name, version.unwrap_or("unknown"));
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expectations").join(name)
}

/// The whole file, ready to be committed.
fn expectations_of<'r>(driver: &SweptDriver, odd: impl Iterator<Item = &'r SweepRow>) -> String {
    let mut text = format!(
        "# {}: what it does when one request for host memory fails and the answer is neither\n\
         # VK_ERROR_OUT_OF_HOST_MEMORY nor success with right results, or something is left or noted. Read by tests/live_sweep.rs,\n\
         # and written by it with {WRITE}=1. Outcomes that depend on timing are separated by |, by hand.\n\
         #\n\
         # leak(n): n blocks were never given back. unknown_pointers(n): n frees of what the callbacks never gave; the bridge\n\
         # refuses them by the header, an allocator that believes them would abort. wrong(..): success, but wrong results.\n\
         #\n\
         # command, scope, bytes asked for, module that asked, how-manieth request alike in these four, outcome, request\n\
         # (the request's number in the run is for information: it is not compared)\n",
        driver.selected.title()
    );
    for row in odd {
        text += &format!("{row}\n");
    }
    text
}

/// The driver never holds more than its budget; with all it needs it succeeds, with half it says that memory ran out.
fn budget(driver: &SweptDriver, dry: &SweepSeen, seed: u32) -> bool {
    let mut right = true;
    // Threads of a driver free when they get to it: the peaks of two runs differ by some blocks.
    let all_it_needs = dry.peak + dry.peak / 8;
    for (limit, expected) in [(all_it_needs, "ok"), (dry.peak / 2, "VK_ERROR_OUT_OF_HOST_MEMORY")] {
        let case = Case { seed, request: None, limit: Some(limit) };
        let seen = case.in_a_child(&driver.selected);
        println!("live budget: limit {limit} of {} bytes: {}, held {} at most", dry.peak, seen.outcome, seen.peak);
        if seen.outcome != expected || seen.peak > limit {
            println!("    expected {expected} and no more than the limit; the child said:\n{}", seen.text);
            right = false;
        }
    }
    println!("test live_budget ... {}", if right { "ok" } else { "FAILED" });
    right
}
