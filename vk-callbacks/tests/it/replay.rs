//! Replays against an independent witness, and the findings one by one.

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
fn v9_null_answers_are_counted_and_count_no_bytes() {
    let (totals, ears) = replayed(&[
        "a,1,0,0,64,8,1",
        "a,1,0,1,16,8,1",
        "r,1,0,1,0,32,8,1",
        "f,1,0,1",
    ]);
    assert_eq!(ears.findings, []);
    assert_eq!(
        (
            totals.null_answers,
            totals.all().peak_bytes,
            totals.all().live_blocks
        ),
        (2, 16, 0)
    );
}

#[test]
fn v11_reallocations_of_what_is_not_live_are_found_and_the_answer_lives() {
    let lines = [
        "r,1,0,?7,1,16,8,1",
        "f,1,0,1",
        "r,1,0,1,2,16,8,1",
        "f,1,0,2",
        "r,1,0,2,0,8,8,1",
        "r,1,0,9,0,8,8,1",
    ];
    let (totals, ears) = replayed(&lines);
    assert_eq!(ears.findings, []);
    // Of each kind twice.
    assert_eq!(
        judged(&lines),
        [
            (2, FindingKind::ReallocatedUnknown),
            (4, FindingKind::ReallocatedFreed)
        ]
    );
    assert_eq!((totals.not_live, totals.null_answers), (4, 2));
    assert_eq!((totals.all().blocks, totals.all().live_blocks), (2, 0));
}

#[test]
fn v13_realloc_of_null_is_an_allocation() {
    let (totals, ears) = replayed(&["b,1,0,0", "r,1,0,0,1,24,8,4", "f,1,0,1", "r,1,0,0,0,0,8,4"]);
    assert!(ears.findings.is_empty(), "{:?}", ears.findings);
    assert_eq!(
        (
            totals.scope(Scope::Instance).peak_bytes,
            totals.reallocations,
            totals.reallocations_begun
        ),
        (24, 2, 1)
    );
}

#[test]
fn v14_realloc_to_zero_frees() {
    let (totals, ears) = replayed(&["a,1,0,1,24,8,4", "r,1,0,1,0,0,8,4", "f,1,0,1"]);
    assert_eq!(
        (ears.findings.len(), totals.not_live, totals.null_answers),
        (0, 1, 0)
    );
    let odd = ["a,1,0,1,24,8,4", "r,1,0,1,2,0,8,4", "f,1,0,2"];
    assert_eq!(
        (judged(&odd), replayed(&odd).0.not_live),
        (vec![(3, FindingKind::ZeroAnswered)], 0)
    );
}

#[test]
fn v15_other_alignment_is_found_and_the_first_one_kept() {
    let lines = ["a,1,0,1,24,64,1", "r,1,0,1,2,48,8,3", "f,1,0,2"];
    let (totals, ears) = replayed(&lines);
    assert_eq!(
        judged(&lines),
        [
            (3, FindingKind::OtherAlignment),
            (3, FindingKind::OtherScope)
        ]
    );
    assert_eq!(
        (
            ears.findings.len(),
            totals.scope(Scope::Object).peak_bytes,
            totals.scope(Scope::Device).peak_bytes
        ),
        (0, 48, 0)
    );
}

#[test]
fn v7_v35_bad_alignment_and_scope_are_found_and_followed() {
    let lines = [
        "a,1,0,1,24,3,1",
        "a,1,0,2,24,8,5",
        "a,1,0,3,24,0,-1",
        "r,1,0,1,4,30,3,1",
        "f,1,0,4",
        "f,1,0,2",
        "f,1,0,3",
    ];
    assert_eq!(
        judged(&lines),
        [
            (2, FindingKind::BadAlignment),
            (4, FindingKind::BadAlignment),
            (3, FindingKind::BadScope)
        ]
    );
    let (totals, ears) = replayed(&lines);
    assert_eq!(
        (
            ears.findings.len(),
            totals.all().peak_bytes,
            totals.all().live_blocks
        ),
        (0, 78, 0)
    );
}

#[test]
fn v18_free_of_null_is_no_finding() {
    let (totals, ears) = replayed(&["f,1,0,0", "f,2,3,0"]);
    assert!(ears.findings.is_empty());
    assert_eq!((totals.frees, totals.null_frees), (2, 2));
}

#[test]
fn v19_free_of_the_unknown_and_second_frees_are_told_apart() {
    let lines = ["f,1,0,?1", "a,1,0,1,8,8,1", "f,1,0,1", "f,2,0,1", "f,1,0,9"];
    assert_eq!(
        judged(&lines),
        [(2, FindingKind::FreedUnknown), (5, FindingKind::FreedTwice)]
    );
    assert_eq!(replayed(&lines).0.not_live, 3);
}

#[test]
fn v20_notices_reach_the_sink_and_must_balance() {
    let lines = [
        "i,1,0,4096,0,1",
        "j,1,0,4096,0,1",
        "j,1,0,1,0,1",
        "i,1,0,8,1,1",
        "i,1,0,8,0,9",
        "i,1,0,64,0,3",
    ];
    let (totals, ears) = replayed(&lines);
    assert_eq!(
        judged(&lines),
        [
            (5, FindingKind::InternalType),
            (4, FindingKind::InternalNegative),
            (0, FindingKind::InternalAtEnd),
            (6, FindingKind::BadScope)
        ]
    );
    let notice = |event, bytes, scope| Notice {
        event,
        kind: NoticeKind::Executable,
        bytes,
        scope,
    };
    assert_eq!(
        ears.sink.notices(),
        [
            notice(NoticeEvent::Allocated, 4096, Scope::Object),
            notice(NoticeEvent::Freed, 4096, Scope::Object),
            notice(NoticeEvent::Allocated, 64, Scope::Device),
        ]
    );
    assert_eq!(
        (
            totals.internal_allocations,
            totals.internal_frees,
            totals.all().internal_bytes
        ),
        (4, 2, 64)
    );
}

#[test]
fn blocks_left_live_are_listed_by_line_and_given_back() {
    let (totals, ears) = replayed(&[
        "o,4,1,VkBuffer",
        "a,1,4,1,24,8,1",
        "a,1,0,2,0,8,1",
        "a,1,4,3,8,8,0",
        "f,1,4,1",
    ]);
    let asked = |size, scope| Request {
        size,
        align: 8,
        scope,
    };
    assert_eq!(
        ears.findings,
        [
            (
                4,
                ReplayFinding::StillLive {
                    block: B2,
                    owner: 0,
                    asked: asked(0, 1)
                }
            ),
            (
                5,
                ReplayFinding::StillLive {
                    block: Pointer::Block(3),
                    owner: 4,
                    asked: asked(8, 0)
                }
            ),
        ]
    );
    assert_eq!(ears.owners, [(4, 1, "VkBuffer".to_owned())]);
    assert_eq!(
        (
            totals.all().live_blocks,
            totals.all().live_bytes,
            totals.zero_sizes
        ),
        (2, 8, 1)
    );
    assert_eq!(
        (
            totals.scope(Scope::Command).live_bytes,
            totals.scope(Scope::Object).live_blocks
        ),
        (8, 1)
    );
}

#[test]
fn a_block_given_twice_replaces_the_first() {
    let (totals, ears) = replayed(&["a,1,0,1,24,8,1", "a,1,0,1,8,8,2", "f,1,0,1", "x,3"]);
    assert_eq!(ears.findings, [(5, ReplayFinding::Lost { events: 3 })]);
    assert_eq!(
        judged(&["a,1,0,1,24,8,1", "a,1,0,1,8,8,2", "f,1,0,1"]),
        [(3, FindingKind::LiveBlockGivenAgain)]
    );
    assert_eq!((totals.all().peak_bytes, totals.lost), (24, 3));
}

#[test]
fn impossible_sizes_are_found_and_count_no_bytes() {
    let huge = format!("a,1,0,1,{},8,1", u64::MAX);
    let (totals, ears) = replayed(&[
        &huge,
        "r,1,0,1,2,8,8,1",
        "r,1,0,2,3,18446744073709551600,8,1",
        "f,1,0,3",
    ]);
    assert_eq!(
        ears.findings,
        [
            (
                2,
                ReplayFinding::ImpossibleSize {
                    block: B1,
                    size: u64::MAX
                }
            ),
            (
                4,
                ReplayFinding::ImpossibleSize {
                    block: Pointer::Block(3),
                    size: u64::MAX - 15
                }
            ),
        ]
    );
    assert_eq!((totals.all().peak_bytes, totals.all().live_blocks), (8, 0));
}

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

#[test]
fn a_trace_that_breaks_off_keeps_what_was_counted_and_leaves_nothing_behind() {
    let text = "# steward host trace 2\na,1,0,1,24,8,1\nf,1\n";
    let mut ears = ListeningTarget::new();
    let mut replay = Replay::new(memory());
    let error = replay
        .run(TraceReader::new(text).expect("a header"), &mut ears)
        .expect_err("line 3 is short");
    assert_eq!(
        error,
        CallbackError::Trace(TraceError {
            line: 3,
            fault: TraceFault::MissingField("owner")
        })
    );
    assert_eq!(replay.totals().all().live_bytes, 24);
    assert_eq!(ears.sink.total().live_bytes, 24);
    drop(replay);
    ears.sink.assert_empty("after a broken trace");
}

/// Refuses every request from the `after`-th on, while armed.
struct Short {
    inner: RecordingAllocator,
    left: Cell<Option<u32>>,
}

impl Short {
    fn refuses(&self) -> bool {
        match self.left.get() {
            None => false,
            Some(0) => true,
            Some(left) => {
                self.left.set(Some(left - 1));
                false
            }
        }
    }
}

// SAFETY: blocks are the witness's own and go back to it as they came.
unsafe impl HostAllocator for Short {
    fn traits(&self) -> AllocatorTraits {
        self.inner.traits()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if self.refuses() {
            Err(AllocError)
        } else {
            self.inner.allocate(layout, scope)
        }
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { self.inner.deallocate(block, layout, scope) }
    }
}

#[test]
fn a_map_without_memory_is_an_error_and_every_step_can_be_tried_again() {
    let lines: Vec<String> = (1..200)
        .flat_map(|id| {
            [
                format!("a,1,0,{id},{},8,1", id * 8),
                format!("r,1,0,{id},{},{},8,1", id + 1000, id * 9),
            ]
        })
        .collect();
    let text = trace(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let short = Short {
        inner: RecordingAllocator::system(),
        left: Cell::new(None),
    };
    let mut calm = ListeningTarget::new();
    let expected = Replay::new(memory())
        .run(TraceReader::new(&text).expect("a header"), &mut calm)
        .expect("whole");
    let mut refused = 0;
    for requests in 0.. {
        short.left.set(Some(requests));
        let mut ears = ListeningTarget::new();
        let mut replay = Replay::new(Scoped::new(&short, Scope::Object));
        let mut this_time = 0;
        for item in TraceReader::new(&text).expect("a header") {
            let (line, event) = item.expect("a line");
            let before = *replay.totals();
            if let Err(error) = replay.step(line, event, &mut ears) {
                assert!(
                    matches!(error, HostError::OutOfHostMemory { .. }),
                    "{error}"
                );
                assert_eq!(*replay.totals(), before);
                this_time += 1;
                short.left.set(None);
                replay.step(line, event, &mut ears).expect("memory again");
            }
        }
        let totals = replay.finish(&mut ears).or_else(|_| {
            this_time += 1;
            short.left.set(None);
            replay.finish(&mut ears)
        });
        assert_eq!(totals, Ok(expected));
        assert_eq!(ears.findings, calm.findings);
        drop(replay);
        ears.sink
            .assert_empty("after a replay that was short of memory");
        short.inner.assert_empty("of the replay itself");
        refused += this_time;
        if this_time == 0 {
            break;
        }
    }
    assert!(refused > 3, "the map grew {refused} times only");
}

#[test]
fn a_sink_without_memory_is_a_finding_and_the_trace_goes_on() {
    struct Stingy(Short);
    impl<'s> ReplayTarget for &'s Stingy {
        type Sink = &'s Short;
        fn sink(&mut self, _: u64) -> &'s Short {
            &self.0
        }
    }
    let text = trace(&[
        "a,1,0,1,24,8,1",
        "a,1,0,2,24,8,1",
        "r,1,0,1,3,80,8,1",
        "f,1,0,2",
        "f,1,0,3",
    ]);
    let stingy = Stingy(Short {
        inner: RecordingAllocator::system(),
        left: Cell::new(Some(1)),
    });
    let totals = Replay::new(memory())
        .run(TraceReader::new(&text).expect("a header"), &mut &stingy)
        .expect("a sink is no error");
    assert_eq!(
        (
            totals.findings,
            totals.all().peak_bytes,
            totals.all().live_blocks
        ),
        (2, 104, 0)
    );
    stingy.0.inner.assert_empty("after refusals");
}

fn recorded(name: &str) -> String {
    let path = format!("{}/../steward/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("gzip of text");
    text
}

/// Calls, bytes, peak and the end's live bytes, by the shortest way that shares nothing with the replay.
fn naive(text: &str) -> (u64, u64, u64, u64, u64) {
    let (mut calls, mut bytes, mut frees, mut live, mut peak) = (0, 0, 0, 0, 0);
    let mut sizes = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let c: Vec<&str> = line.split(',').collect();
        if c[0] != "a" {
            live -= sizes
                .remove(c[1])
                .expect("the recorded traces free only what they took");
        }
        if c[0] == "f" {
            frees += 1;
            continue;
        }
        let size: u64 = c[3].parse().expect("a size");
        sizes.insert(if c[0] == "a" { c[1] } else { c[2] }, size);
        (calls, bytes, live) = (calls + 1, bytes + size, live + size);
        peak = peak.max(live);
    }
    (calls, bytes, frees, live, peak)
}

#[test]
fn the_recorded_traces_replay_to_the_totals_of_a_naive_parser() {
    for name in ["lavapipe-22.3.csv.gz", "nvidia-580-h200.csv.gz"] {
        let text = recorded(name);
        let mut ears = ListeningTarget::new();
        let totals = Replay::new(memory())
            .run(TraceReader::new(&text).expect("a header"), &mut ears)
            .expect("whole");
        let (calls, bytes) = (
            totals.allocations + totals.reallocations,
            totals.allocate_bytes + totals.reallocate_bytes,
        );
        let all = totals.all();
        assert_eq!(
            (calls, bytes, totals.frees, all.live_bytes, all.peak_bytes),
            naive(&text),
            "{name}"
        );
        assert_eq!((all.blocks, all.bytes), (calls, bytes));
        assert_eq!(ears.findings, [], "{name}");
        assert_eq!(ears.phases.len(), 16);
        ears.sink.assert_empty(name);
        assert_eq!(ears.sink.total().peak_bytes, all.peak_bytes);
    }
}

#[test]
fn one_sink_for_all_is_enough_for_a_bench() {
    let text = recorded("nvidia-580-h200.csv.gz");
    let system = FromGlobalAlloc::SYSTEM;
    let totals = Replay::new(memory())
        .run(
            TraceReader::new(&text).expect("a header"),
            &mut OneSink(&system),
        )
        .expect("whole");
    assert_eq!(totals.all().live_blocks, 0);
    let dynamic: &dyn HostAllocator = &system;
    let again = Replay::new(memory())
        .run(
            TraceReader::new(&text).expect("a header"),
            &mut OneSink(dynamic),
        )
        .expect("whole");
    assert_eq!(again, totals);
}
