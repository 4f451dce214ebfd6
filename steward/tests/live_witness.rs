//! Every number of a live run against a witness that shares no code with the layer: a driver around the driver, which
//! sees what that asked for.
//!
//! ```text
//!   workload --> layer --> witness --> driver --> Around --> [recorder] --> bridge --> context --> system
//! ```
//!
//! A process for each driver and test, since the layer observes one run a process. With `STEWARD_REQUIRE=lavapipe` a
//! missing driver fails.

#[path = "live_witness/agree.rs"]
mod agree;
#[path = "support/around.rs"]
mod around;
#[path = "support/driver_shim.rs"]
mod driver_shim;
#[path = "support/opened.rs"]
mod opened;
#[path = "live_witness/watch.rs"]
mod watch;

use std::ffi::c_void;
use std::process::{Command, ExitCode};

use VkLayer_steward_memory::in_process::{self, Observation};
use around::Around;
use ash::vk;
use vk_callbacks::trace::Pointer;
use vk_callbacks::{TraceEvent, TraceReader};
use vk_report::report::Report;
use vk_steward::drivers::{self, OpenDriver};
use vk_steward::replay::{self, TraceFile};
use vk_steward::workload::{self, Moment, Options};
use watch::{PhaseSeen, Watch};

type Test = (&'static str, fn(&OpenDriver));

const TESTS: [Test; 2] = [
    (
        "the_layer_agrees_with_the_witness_and_the_trace_with_them",
        the_layer_agrees_with_the_witness_and_the_trace_with_them,
    ),
    ("what_was_planted_is_named", what_was_planted_is_named),
];
const DRIVERS: [&str; 2] = ["lavapipe", "swiftshader"];
/// As the first argument: run the test that comes next.
const ON_DRIVER: &str = "on-driver-in-a-child";

fn main() -> ExitCode {
    if let Some(code) = opened::as_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    if let [ON_DRIVER, name] = words[..] {
        let (_, test) = TESTS.iter().find(|(test, _)| *test == name).expect("a test");
        // A failure panics, and so ends the process.
        test(&opened::opened());
        return ExitCode::SUCCESS;
    }
    let named: Vec<_> = words.iter().filter(|name| !name.starts_with('-')).collect();
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|part| name.contains(**part));
    let mut code = ExitCode::SUCCESS;
    for driver in DRIVERS {
        let selected = opened::select(driver);
        for (name, _) in TESTS.iter().filter(|(name, _)| is_wanted(name)) {
            let shown = format!("{driver}::{name}");
            let selected = match &selected {
                Ok(selected) => selected,
                Err(reason) => {
                    testkit::skip(driver, &shown, reason);
                    continue;
                }
            };
            let mut child = Command::new(std::env::current_exe().expect("a test knows its file"));
            for (name, value) in opened::environment(selected) {
                match value {
                    Some(value) => child.env(name, value),
                    None => child.env_remove(name),
                };
            }
            let status = child.args([ON_DRIVER, name]).status();
            if status.is_ok_and(|status| status.success()) {
                println!("test {shown} ... ok");
            } else {
                println!("test {shown} ... FAILED");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

/// Different in every run; every failure names it.
fn seed() -> u32 {
    let nanoseconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |time| time.subsec_nanos());
    nanoseconds ^ std::process::id()
}

fn is_swiftshader(driver: &OpenDriver) -> bool {
    driver.info().driver_id == "GOOGLE_SWIFTSHADER"
}

/// SwiftShader never frees the entries of an update template: a block a round.
fn known_leftovers(driver: &OpenDriver, rounds: u32) -> Vec<(&'static str, u64)> {
    if is_swiftshader(driver) { vec![("VkDescriptorUpdateTemplate", u64::from(rounds))] } else { Vec::new() }
}

/// A run below the linked layer, with the witness below that.
struct Run {
    report: Report,
    phases: Vec<PhaseSeen>,
    last: around::Record,
    trace: String,
}

impl Run {
    /// `begins` is called as each phase begins.
    fn new(driver: &OpenDriver, options: &Options, around: &Around, begins: &dyn Fn(&'static str)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let json: &'static str = folder.path().join("layer.json").display().to_string().leak();
        let settings = Box::leak(Box::new([("json", json), ("brackets", "all")]));
        let observation = Observation { opened: driver.opened(), stacks: None, records: true, settings: &*settings };
        let chained = drivers::chained(&driver_shim::shimmed(driver), observation).expect("the first chain");
        let watch = Watch::new(around, begins);
        driver_shim::watched(&watch, || {
            workload::run(&chained, options, &|moment| {
                if let Moment::PhaseBegins(name) = moment {
                    watch.begin_phase(name);
                }
            })
        })
        .unwrap_or_else(|error| panic!("seed {}: {error}", options.seed));
        let (phases, last) = watch.end();
        let text = std::fs::read_to_string(json).expect("the layer's report");
        let report: Report = serde_json::from_str(&text).expect("a layer's report");
        assert_eq!(report.unjudged, None);
        let mut trace = String::new();
        assert!(in_process::write_trace("the driver of this test", &mut trace));
        Self { report, phases, last, trace }
    }
}

fn the_layer_agrees_with_the_witness_and_the_trace_with_them(driver: &OpenDriver) {
    let (seed, rounds) = (seed(), 4);
    println!("    seed {seed}");
    let options = Options { seed, rounds, ..Options::default() };
    let run = Run::new(driver, &options, &Around::new(), &|_| {});
    let sum = run.last.sum(|_, _| true);
    println!(
        "    {} phases, {} blocks, {} resizes, {} calls on the driver's own threads",
        run.phases.len(),
        sum.blocks,
        sum.resizes,
        run.last.foreign_calls
    );
    assert!(sum.blocks > 100 && run.phases.len() > 20, "too little to prove anything");
    assert_eq!(
        Calls::of(&run.trace),
        Calls::seen(&run.last),
        "what the recorder wrote down, and what the witness in front saw"
    );
    assert!(!run.report.findings.is_empty(), "the checker watched");
    let report = &run.report;
    agree::phases(&report.phases, &run.phases, agree::AgreedBytes::Charged);
    agree::contexts(&report.contexts, report.peak_bytes, &run.last, agree::AgreedBytes::Charged);
    let leftovers: Vec<_> = report.leftovers.iter().map(|left| (left.context.as_str(), left.blocks)).collect();
    assert_eq!(leftovers, known_leftovers(driver, rounds));
    assert_eq!(
        report
            .leftovers
            .iter()
            .map(|left| (left.blocks, left.bytes))
            .fold((0, 0), |sum, left| (sum.0 + left.0, sum.1 + left.1)),
        (sum.live_blocks, sum.live_asked),
        "what is left is told as it was requested, without the bytes in front"
    );

    let file = TraceFile { name: "the run above".into(), bytes: run.trace.into_bytes() };
    let replayed = replay::replay(&file).unwrap_or_else(|error| panic!("{error}"));
    agree::phases(&replayed.phases, &run.phases, agree::AgreedBytes::Asked);
    agree::contexts(&replayed.contexts, replayed.peak_bytes, &run.last, agree::AgreedBytes::Asked);
    assert_eq!(replayed.peak_bytes, run.last.peak.0);
    let live: Vec<_> = replayed.leftovers.iter().map(|left| (left.context.as_str(), left.blocks)).collect();
    assert_eq!(live, leftovers, "what a replay finds live is what the run left");
}

/// Every call a driver made, by what came of it.
#[derive(Debug, Default, PartialEq)]
struct Calls {
    blocks: u64,
    frees: u64,
    /// Reallocations of a block into a block, which contexts do not count.
    resizes: u64,
    null_answers: u64,
    /// Of all these, on threads of the driver's own.
    foreign: u64,
}

impl Calls {
    fn of(trace: &str) -> Self {
        let reader = TraceReader::new(trace).expect("the recorder's own header");
        let events: Vec<_> = reader.map(|line| line.expect("the recorder's own line").1).collect();
        let home = events
            .iter()
            .find_map(|event| if let TraceEvent::Enter { by, .. } = event { Some(by.thread) } else { None });
        let mut calls = Self::default();
        for event in &events {
            let (by, count) = match *event {
                TraceEvent::Allocate { by, block: Pointer::Null, .. } => (by, &mut calls.null_answers),
                TraceEvent::Allocate { by, .. } => (by, &mut calls.blocks),
                TraceEvent::Reallocate { by, new: Pointer::Null, .. } => (by, &mut calls.null_answers),
                TraceEvent::Reallocate { by, .. } => (by, &mut calls.resizes),
                TraceEvent::Free { by, .. } => (by, &mut calls.frees),
                _ => continue,
            };
            *count += 1;
            calls.foreign += u64::from(Some(by.thread) != home);
        }
        calls
    }

    fn seen(record: &around::Record) -> Self {
        let sum = record.sum(|_, _| true);
        Self {
            blocks: sum.blocks,
            frees: sum.frees,
            resizes: sum.resizes,
            null_answers: record.null_answers,
            foreign: record.foreign_calls,
        }
    }
}

/// Asks the layer's callbacks of this kind, as the driver would.
fn ask(around: &Around, kind: &str, size: usize, align: usize, scope: vk::SystemAllocationScope) -> *mut c_void {
    let callbacks = around.inner(kind);
    let allocate = callbacks.pfn_allocation.expect("callbacks have all three functions");
    // SAFETY: valid callbacks; any numbers may be asked for.
    unsafe { allocate(callbacks.p_user_data, size, align, scope) }
}

/// A driver that forgets some blocks, and asks for nonsense once.
fn what_was_planted_is_named(driver: &OpenDriver) {
    let around = Around::new();
    let ask = |kind: &str, size, align, scope| ask(&around, kind, size, align, scope);
    let plant = |name: &'static str| {
        if name == "submit" {
            let [object, device] = [vk::SystemAllocationScope::OBJECT, vk::SystemAllocationScope::DEVICE];
            assert!(!ask("VkSampler", 100, 8, object).is_null());
            assert!(!ask("VkSampler", 24, 64, object).is_null());
            assert!(!ask("VkFence", 7, 1, device).is_null());
            assert!(ask("VkEvent", 8, 3, object).is_null(), "3 is no alignment");
        }
    };
    let run = Run::new(driver, &Options::default(), &around, &plant);
    let text = run.report.to_string();
    // What is in front of a block is 64 for one that is aligned to 64; the report takes 16 off each.
    let sampler = 100 + 24 + (64 - 16);
    let left = |kind: &str| {
        let left = run.report.leftovers.iter().find(|left| left.context == kind);
        let left = left.unwrap_or_else(|| panic!("{kind}: {text}"));
        (left.blocks, left.bytes, left.by_scope.object, left.by_scope.device)
    };
    assert_eq!(left("VkSampler"), (2, sampler, sampler, 0), "{text}");
    assert_eq!(left("VkFence"), (1, 7, 0, 7), "{text}");
    // Live bytes, with 16 for each block: a row without any is in the table anyway.
    let row = text.lines().find(|line| line.trim().starts_with("VkSampler "));
    let live = format!(" {} B ", sampler + 2 * 16);
    assert!(row.is_some_and(|row| row.contains(&live)), "{text}");
    let mut bad = run.report.findings.iter().filter(|row| row.rule == "V7" && row.owner == "VkEvent");
    let row = bad.next().unwrap_or_else(|| panic!("{:?}", run.report.findings));
    assert!(row.count == 1 && bad.next().is_none(), "{row:?}");
    let known: u64 = if is_swiftshader(driver) { 1 } else { 0 };
    let last = run.report.phases.last().expect("phases");
    assert_eq!(last.live_blocks, 3 + known);
}
