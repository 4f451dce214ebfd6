//! Made-up traces against a naive model of them, whole and damaged.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use testkit::{RecordingAllocator, Rng, TraceTruth, host_trace};
use vk_callbacks::check::FindingKind;
use vk_callbacks::replay::{ReplayFinding, ReplayTarget};
use vk_callbacks::{CallbackError, CheckOptions, Judge, Replay, TraceReader};

struct TruthTarget {
    sink: RecordingAllocator,
    told: TraceTruth,
}

impl ReplayTarget for TruthTarget {
    type Sink = RecordingAllocator;
    fn sink(&mut self, _: u64) -> RecordingAllocator {
        self.sink.clone()
    }
    fn finding(&mut self, line: u64, finding: ReplayFinding) {
        match finding {
            ReplayFinding::StillLive { asked, .. } => {
                self.told.live_blocks += 1;
                self.told.live_bytes += asked.size;
            }
            other => panic!("line {line}: {other}"),
        }
    }
}

fn replayed(text: &str) -> Result<TraceTruth, CallbackError> {
    let mut ears = TruthTarget {
        sink: RecordingAllocator::system(),
        told: TraceTruth::default(),
    };
    let mut replay = Replay::new(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object));
    let outcome = replay.run(TraceReader::new(text)?, &mut ears);
    drop(replay);
    ears.sink.assert_empty("after the replay, whole or not");
    let totals = outcome?;
    let events = TraceReader::new(text)?.count() as u64;
    let (blocks, peak_bytes) = (totals.all().blocks, totals.all().peak_bytes);
    if let Some(told) = judged(text)? {
        assert_eq!(
            told,
            (totals.not_live, totals.all().live_blocks),
            "replay and judge know what is live by different code"
        );
        JUDGED.fetch_add(1, Ordering::Relaxed);
    }
    Ok(TraceTruth {
        events,
        blocks,
        peak_bytes,
        null_answers: totals.null_answers,
        not_live: totals.not_live,
        ..ears.told
    })
}

/// Traces that were compared.
static JUDGED: AtomicUsize = AtomicUsize::new(0);

/// The same by the judge: pointers that were not live, and blocks that are at the end. To the judge a block stays that went through
/// callbacks which are not its own: then there is nothing to compare.
fn judged(text: &str) -> Result<Option<(u64, u64)>, CallbackError> {
    use FindingKind::{
        CommandBlockLeft, FreedInTransit, FreedTwice, FreedUnknown, LiveAtEnd, ReallocatedFreed,
        ReallocatedUnknown,
    };
    let system = FromGlobalAlloc::SYSTEM;
    let mut judge = Judge::new(&system, CheckOptions::default());
    judge.run(TraceReader::new(text)?)?;
    let found = judge.findings(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object))?;
    let through_other = [
        FindingKind::FreedThroughOther,
        FindingKind::ReallocatedThroughOther,
    ];
    if found
        .iter()
        .any(|found| through_other.contains(&found.kind))
    {
        return Ok(None);
    }
    let count = |kinds: &[FindingKind]| {
        found
            .iter()
            .filter(|found| kinds.contains(&found.kind))
            .map(|found| found.count)
            .sum()
    };
    let not_live = [
        FreedInTransit,
        FreedTwice,
        FreedUnknown,
        ReallocatedFreed,
        ReallocatedUnknown,
    ];
    // A block that outlived its command was reported then.
    let left = found
        .iter()
        .filter(|found| [LiveAtEnd, CommandBlockLeft].contains(&found.kind));
    Ok(Some((
        count(&not_live),
        left.map(|found| found.count - found.freed_later).sum(),
    )))
}

#[test]
fn made_up_traces_replay_to_the_truth_about_them() {
    let (mut all, rounds) = (TraceTruth::default(), if cfg!(miri) { 3 } else { 1000 });
    for seed in 0..rounds {
        let mut rng = Rng::new(seed);
        let len = 16 + rng.below(497) as usize;
        let (text, truth) = host_trace(&rng.bytes(len));
        assert_eq!(replayed(&text), Ok(truth), "seed {seed}");
        all.blocks += truth.blocks;
        all.not_live += truth.not_live;
        all.null_answers += truth.null_answers;
    }
    let judged = JUDGED.load(Ordering::Relaxed);
    assert!(
        judged * 20 > rounds as usize,
        "{judged} compared with the judge"
    );
    assert!(
        all.not_live > 0 && all.null_answers > 0 && all.blocks > 2 * all.not_live,
        "{all:?}"
    );
}

#[test]
fn damaged_traces_replay_or_name_a_line_and_leave_nothing_behind() {
    let (mut broken, rounds) = (0, if cfg!(miri) { 3 } else { 1000 });
    for seed in 0..rounds {
        let mut rng = Rng::new(seed);
        let (text, _) = host_trace(&rng.bytes(200));
        let mut bytes = text.into_bytes();
        let at = rng.below(bytes.len() as u64) as usize;
        // Digits and commas stay text and change the sense; the rest breaks the form.
        bytes[at] = b"0123456789,\n?-az"[rng.below(16) as usize];
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let lines = text.matches('\n').count() as u64;
        let reader = TraceReader::new(&text);
        let Ok(reader) = reader else { continue };
        let mut ears = Quiet(RecordingAllocator::system());
        let mut replay = Replay::new(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object));
        match replay.run(reader, &mut ears) {
            Ok(_) => {}
            Err(CallbackError::Trace(error)) => {
                assert!((1..=lines + 1).contains(&error.line), "{error}");
                broken += 1;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
        drop(replay);
        ears.0.assert_empty("after a damaged trace");
    }
    assert!(
        broken > rounds / 4,
        "{broken}: the damage must be found, or this proves nothing"
    );
}

struct Quiet(RecordingAllocator);

impl ReplayTarget for Quiet {
    type Sink = RecordingAllocator;
    fn sink(&mut self, _: u64) -> RecordingAllocator {
        self.0.clone()
    }
}
