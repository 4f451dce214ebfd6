//! Replays against an independent witness, and the findings one by one.

mod findings;
mod recorded;
mod refusals;

use std::alloc::{Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::ptr::NonNull;

use alloc_core::{
    AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, HostError, Notice, NoticeEvent,
    NoticeKind, Scope, Scoped,
};
use testkit::RecordingAllocator;
use vk_callbacks::check::FindingKind;
use vk_callbacks::replay::{OneSink, ReplayFinding, ReplayTarget, Totals};
use vk_callbacks::trace::{Pointer, Request, TraceError, TraceFault};
use vk_callbacks::{CallbackError, CheckOptions, Judge, Replay, TraceReader};

/// Listens to everything; all owners share the witness.
struct ListeningTarget {
    sink: RecordingAllocator,
    findings: Vec<(u64, ReplayFinding)>,
    phases: Vec<String>,
    owners: Vec<(u64, u64, String)>,
}

impl ListeningTarget {
    fn new() -> Self {
        Self {
            sink: RecordingAllocator::system(),
            findings: Vec::new(),
            phases: Vec::new(),
            owners: Vec::new(),
        }
    }
}

impl ReplayTarget for ListeningTarget {
    type Sink = RecordingAllocator;
    fn sink(&mut self, _: u64) -> RecordingAllocator {
        self.sink.clone()
    }
    fn owner(&mut self, owner: u64, parent: u64, kind: &str) {
        self.owners.push((owner, parent, kind.to_owned()));
    }
    fn phase_begin(&mut self, phase: &str, totals: &Totals) {
        self.phases
            .push(format!("+{phase} {}", totals.all().live_bytes));
    }
    fn phase_end(&mut self, phase: &str, totals: &Totals) {
        // What the replay says of itself, against what its sink has seen.
        for scope in Scope::ALL {
            let (ours, seen) = (totals.scope(scope), self.sink.scope(scope));
            assert_eq!(
                (ours.live_bytes, ours.peak_bytes),
                (seen.live_bytes, seen.peak_bytes),
                "{phase} {scope}"
            );
        }
        let (ours, seen) = (totals.all(), self.sink.total());
        assert_eq!(
            (ours.live_bytes, ours.peak_bytes),
            (seen.live_bytes, seen.peak_bytes),
            "{phase}"
        );
        self.phases.push(format!(
            "-{phase} {} peak {}",
            totals.all().live_bytes,
            totals.phase_peak_bytes
        ));
    }
    fn finding(&mut self, line: u64, finding: ReplayFinding) {
        self.findings.push((line, finding));
    }
}

fn memory() -> Scoped<FromGlobalAlloc<System>> {
    Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object)
}

/// A trace of format 2 around these lines, the first of which is line 2.
fn trace(lines: &[&str]) -> String {
    format!(
        "# steward host trace 2\n{}\nz,{}\n",
        lines.join("\n"),
        lines.len() + 1
    )
}

fn replayed(lines: &[&str]) -> (Totals, ListeningTarget) {
    let text = trace(lines);
    let mut ears = ListeningTarget::new();
    let totals = Replay::new(memory())
        .run(TraceReader::new(&text).expect("a header"), &mut ears)
        .expect("a whole trace");
    ears.sink.assert_empty("after the replay");
    assert_eq!(totals.findings, ears.findings.len() as u64);
    (totals, ears)
}

/// What the judge says about the same trace, with the line where it was first seen. What is live at the end has no line.
fn judged(lines: &[&str]) -> Vec<(u64, FindingKind)> {
    let text = trace(lines);
    let mut judge = Judge::new(&FromGlobalAlloc::SYSTEM, CheckOptions::default());
    judge
        .run(TraceReader::new(&text).expect("a header"))
        .expect("a whole trace");
    judge
        .findings(memory())
        .expect("there is memory")
        .iter()
        .map(|found| (found.first_serial, found.kind))
        .collect()
}

const B1: Pointer = Pointer::Block(1);
const B2: Pointer = Pointer::Block(2);

#[test]
fn threads_owners_and_commands_are_counted() {
    let (totals, ears) = replayed(&[
        "e,1,0,vkCreateBuffer",
        "a,1,2,1,8,8,1",
        "l,1,-1",
        "e,2,0,vkDestroyBuffer",
        "f,2,3,1",
        "l,2,0",
    ]);
    assert!(ears.findings.is_empty());
    assert_eq!((totals.commands, totals.failed_commands), (2, 1));
    assert_eq!(
        (totals.other_thread_frees, totals.other_owner_frees),
        (1, 1)
    );
}

#[test]
fn phases_begin_and_end_around_their_events() {
    let (_, ears) = replayed(&[
        "p,one",
        "a,1,0,1,24,8,1",
        "r,1,0,1,2,40,8,1",
        "p,two",
        "r,1,0,2,3,8,8,1",
        "p,three",
        "f,1,0,3",
    ]);
    assert_eq!(
        ears.phases,
        [
            "+one 0",
            "-one 40 peak 40",
            "+two 40",
            "-two 8 peak 40",
            "+three 8",
            "-three 0 peak 8"
        ]
    );
}
