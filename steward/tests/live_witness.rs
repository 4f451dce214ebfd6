//! Every number of a live run against two witnesses that share no code with the accounts: one under the root, which sees what the
//! host gave; one in front of the callbacks, which sees what the driver asked for.
//!
//! ```text
//!   driver --> Around --> [recorder] --> bridge --> context --> .. --> root --> RecordingAllocator --> system
//! ```
//!
//! A process for each driver, since choosing one narrows the loader to it. With `STEWARD_REQUIRE=lavapipe` a missing driver fails.

#[path = "live_witness/agree.rs"]
mod agree;
#[path = "support/around.rs"]
mod around;
#[path = "live_witness/watch.rs"]
mod watch;

use std::alloc::System;
use std::ffi::c_void;
use std::process::{Command, ExitCode};

use alloc_core::FromGlobalAlloc;
use ash::vk;
use testkit::RecordingAllocator;
use vk_accounts::accounting::{Accounts, Watching};
use vk_accounts::report::{Accounted, Report};
use vk_accounts::{CreatedObject, Hooks, ObjectKind};
use vk_callbacks::trace::Pointer;
use vk_callbacks::{TraceEvent, TraceReader};
use vk_steward::drivers::{self, Selected};
use vk_steward::replay::{self, TraceFile};
use vk_steward::workload::{self, Options};
use watch::Watch;

type Test = (&'static str, fn(&Selected));

const TESTS: [Test; 2] = [
    (
        "accounts_agree_with_both_witnesses_and_the_trace_with_them",
        accounts_agree_with_both_witnesses_and_the_trace_with_them,
    ),
    ("what_was_planted_is_named", what_was_planted_is_named),
];
const DRIVERS: [&str; 2] = ["lavapipe", "swiftshader"];
/// As the first argument: run the tests on the driver that comes next.
const ON_DRIVER: &str = "on-driver-in-a-child";
/// Fewer quiet points than this, with blocks live, would prove little.
const QUIET_POINTS: u32 = 100;

/// The memory of recorders, which lies beside the tree.
static LOG: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [ON_DRIVER, driver, ref wanted @ ..] => on_driver(driver, wanted),
        ref wanted => {
            let program = std::env::current_exe().expect("a test knows its file");
            let run = |driver| {
                let mut child = Command::new(&program);
                if let Some(manifest) = testkit::swiftshader() {
                    child.env("VK_ADD_DRIVER_FILES", manifest);
                }
                child.arg(ON_DRIVER).arg(driver).args(wanted).status()
            };
            let passed = DRIVERS.map(|driver| run(driver).is_ok_and(|status| status.success()));
            if passed.iter().all(|passed| *passed) {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn on_driver(driver: &str, wanted: &[&str]) -> ExitCode {
    // SAFETY: one thread of our own. The drivers that CI installs keep no thread after their instance that reads the environment.
    let selected = unsafe { drivers::select(Some(driver)) };
    let wanted: Vec<_> = wanted
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for (name, test) in TESTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(**part)) {
            continue;
        }
        match &selected {
            // A failure panics, and so ends the process.
            Ok(selected) => {
                test(selected);
                println!("test {driver}::{name} ... ok");
            }
            Err(error) => {
                let reason = error.to_string();
                testkit::skip(
                    driver,
                    &format!("{driver}::{name}"),
                    reason.lines().next().unwrap_or_default(),
                );
            }
        }
    }
    ExitCode::SUCCESS
}

/// Different in every run; every failure names it.
fn seed() -> u32 {
    let nanoseconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |time| time.subsec_nanos());
    nanoseconds ^ std::process::id()
}

fn is_swiftshader(driver: &Selected) -> bool {
    driver.info().driver_id == "GOOGLE_SWIFTSHADER"
}

/// SwiftShader never frees the entries of an update template: a block a round.
fn known_leftovers(driver: &Selected, rounds: u32) -> Vec<(&'static str, u64)> {
    if is_swiftshader(driver) {
        vec![("VkDescriptorUpdateTemplate", u64::from(rounds))]
    } else {
        Vec::new()
    }
}

fn accounts_agree_with_both_witnesses_and_the_trace_with_them(driver: &Selected) {
    // A driver's leftovers live on after the accounts, and so must what they lie in.
    let witness: &'static RecordingAllocator = Box::leak(Box::new(RecordingAllocator::system()));
    let (seed, rounds) = (seed(), 4);
    println!("    seed {seed}");
    let watching = Watching {
        log: Some(&LOG),
        check: Some(&LOG),
        ..Watching::default()
    };
    // SAFETY: witness and log live for ever.
    let accounts = unsafe { Accounts::new(witness, watching) }.expect("the system has memory");
    let watch = Watch::new(&accounts, witness, seed);
    let ran = workload::run(
        driver,
        &watch,
        &Options {
            seed,
            rounds,
            ..Options::default()
        },
    );
    let ran = ran.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let watched = watch.end();
    println!("    {watched}");
    assert!(watched.live_points >= QUIET_POINTS, "{watched}");
    let commands = ran.commands;

    let mut trace = String::new();
    let written = accounts
        .write_trace("the driver of this test", &mut trace)
        .expect("a String takes all")
        .expect("recorded");
    assert_eq!(written.lost, 0);
    assert_eq!(
        Calls::of(&trace),
        Calls::seen(&watched.last),
        "what the recorder wrote down, and what the witness in front saw"
    );
    let done = accounts.finish().expect("the system has memory");
    assert_eq!(
        done.phases.iter().map(|phase| phase.commands).sum::<u64>(),
        commands
    );
    // What the bridges noted has no kind.
    let noted: Vec<_> = done
        .findings
        .iter()
        .filter(|row| row.kind.is_empty())
        .collect();
    assert!(noted.is_empty(), "{noted:?}");
    assert!(!done.findings.is_empty(), "the checker watched");
    agree::phases(&done.phases, &watched.phases, agree::AgreedBytes::Charged);
    agree::contexts(&done.contexts, &watched.last, agree::AgreedBytes::Charged);
    let leftovers: Vec<_> = done
        .leftovers
        .iter()
        .map(|left| (left.context.as_str(), left.blocks))
        .collect();
    assert_eq!(leftovers, known_leftovers(driver, rounds));
    let last = watched.last.sum(|_, _| true);
    assert_eq!(
        done.leftovers
            .iter()
            .map(|left| (left.blocks, left.bytes))
            .fold((0, 0), |sum, left| (sum.0 + left.0, sum.1 + left.1)),
        (last.live_blocks, last.live_asked),
        "what is left is told as it was requested, without the bytes in front"
    );
    if leftovers.is_empty() {
        witness.assert_empty("at the end of a run without leftovers");
    }

    let replayed_into = RecordingAllocator::system();
    let file = TraceFile {
        name: "the run above".into(),
        bytes: trace.into_bytes(),
    };
    let replayed = replay::replay(&replayed_into, &file).unwrap_or_else(|error| panic!("{error}"));
    replayed_into.assert_empty("after a replay");
    agree::phases(&replayed.phases, &watched.phases, agree::AgreedBytes::Asked);
    agree::contexts(&replayed.contexts, &watched.last, agree::AgreedBytes::Asked);
    assert_eq!(replayed.peak_bytes, watched.last.peak.0);
    let live: Vec<_> = replayed
        .leftovers
        .iter()
        .map(|left| (left.context.as_str(), left.blocks))
        .collect();
    assert_eq!(
        live, leftovers,
        "what a replay finds live is what the run left"
    );
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
        let events: Vec<_> = reader
            .map(|line| line.expect("the recorder's own line").1)
            .collect();
        let home = events.iter().find_map(|event| {
            if let TraceEvent::Enter { by, .. } = event {
                Some(by.thread)
            } else {
                None
            }
        });
        let mut calls = Self::default();
        for event in &events {
            let (by, count) = match *event {
                TraceEvent::Allocate {
                    by,
                    block: Pointer::Null,
                    ..
                } => (by, &mut calls.null_answers),
                TraceEvent::Allocate { by, .. } => (by, &mut calls.blocks),
                TraceEvent::Reallocate {
                    by,
                    new: Pointer::Null,
                    ..
                } => (by, &mut calls.null_answers),
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

/// Hooks that draw on the accounts themselves, as a driver would that forgets some blocks and asks for nonsense once.
struct Planting<'a> {
    accounts: &'a Accounts<'static>,
    plant: bool,
}

impl Planting<'_> {
    fn ask(
        &self,
        kind: ObjectKind,
        size: usize,
        align: usize,
        scope: vk::SystemAllocationScope,
    ) -> *mut c_void {
        let callbacks = self
            .accounts
            .callbacks(kind)
            .expect("this kind takes callbacks");
        let allocate = callbacks
            .pfn_allocation
            .expect("callbacks have all three functions");
        // SAFETY: valid callbacks; any numbers may be asked for.
        unsafe { allocate(callbacks.p_user_data, size, align, scope) }
    }
}

// SAFETY: the callbacks are those of the accounts, which outlive this.
unsafe impl Hooks for Planting<'_> {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        self.accounts.callbacks(kind)
    }

    fn command(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: &mut dyn FnMut() -> vk::Result,
    ) {
        self.accounts.command(command, kind, call);
    }

    fn created(&self, object: &CreatedObject<'_>) {
        self.accounts.created(object);
    }

    fn ends(&self, object: &CreatedObject<'_>) {
        self.accounts.ends(object);
    }

    fn phase(&self, name: &'static str) {
        self.accounts.phase(name);
        if self.plant && name == "submit" {
            let [object, device] = [
                vk::SystemAllocationScope::OBJECT,
                vk::SystemAllocationScope::DEVICE,
            ];
            assert!(!self.ask(ObjectKind::Sampler, 100, 8, object).is_null());
            assert!(!self.ask(ObjectKind::Sampler, 24, 64, object).is_null());
            assert!(!self.ask(ObjectKind::Fence, 7, 1, device).is_null());
            assert!(
                self.ask(ObjectKind::Event, 8, 3, object).is_null(),
                "3 is no alignment"
            );
        }
    }
}

fn reported(driver: &Selected, plant: bool) -> Report {
    // SAFETY: the log lives for ever.
    let accounts: Accounts<'static> =
        unsafe { Accounts::new(&LOG, Watching::default()) }.expect("the system has memory");
    let ran = workload::run(
        driver,
        &Planting {
            accounts: &accounts,
            plant,
        },
        &Options::default(),
    );
    let done: Accounted = accounts.finish().expect("the system has memory");
    let ran = ran.unwrap_or_else(|error| panic!("{error}"));
    Report::of_run(ran.source(0), ran.device_memory, done)
}

fn what_was_planted_is_named(driver: &Selected) {
    let clean = reported(driver, false);
    assert!(
        !clean.to_string().contains("VkSampler:") && clean.findings.is_empty(),
        "{clean}"
    );
    assert_eq!(
        clean.to_string().contains("every block was freed"),
        !is_swiftshader(driver),
        "{clean}"
    );

    let report = reported(driver, true);
    let text = report.to_string();
    // What is in front of a block is 64 for one that is aligned to 64; the report takes 16 off each.
    let sampler = 100 + 24 + (64 - 16);
    let expected =
        format!("  VkSampler: 2 blocks, {sampler} requested bytes ({sampler} of scope object)\n");
    assert!(
        text.contains("\nleftovers, never freed:\n") && text.contains(&expected),
        "{text}"
    );
    assert!(
        text.contains("  VkFence: 1 block, 7 requested bytes (7 of scope device)\n"),
        "{text}"
    );
    let [row] = &report.findings[..] else {
        panic!("{text}")
    };
    assert_eq!(
        (row.rule.as_str(), row.owner.as_str(), row.count),
        ("V7", "VkEvent", 1),
        "{row:?}"
    );

    let json = serde_json::to_value(&report).expect("a report is JSON");
    let left = json["leftovers"].as_array().expect("a list");
    let left = left
        .iter()
        .find(|left| left["context"] == "VkSampler")
        .expect("named");
    assert_eq!(
        (&left["blocks"], &left["bytes"], &left["by_scope"]["object"]),
        (&2.into(), &sampler.into(), &sampler.into())
    );
    let last = json["phases"]
        .as_array()
        .and_then(|phases| phases.last())
        .expect("phases");
    let known: u64 = if is_swiftshader(driver) { 1 } else { 0 };
    assert_eq!(last["live_blocks"], 3 + known);
}
