//! Made-up traces against a naive model of them, whole and damaged.

use std::sync::atomic::{AtomicUsize, Ordering};

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use testkit::{RecordingAllocator, Rng, TraceTruth, host_trace};
use vk_callbacks::check::FindingKind;
use vk_callbacks::{CallbackError, CheckOptions, Judge, TraceReader};

/// Traces that were compared.
static JUDGED: AtomicUsize = AtomicUsize::new(0);

/// Pointers that were not live, and blocks that are at the end. To the judge a block stays that went through
/// callbacks which are not its own: then there is nothing to compare.
fn judged(text: &str) -> Result<Option<(u64, u64)>, CallbackError> {
    use FindingKind::{
        CommandBlockLeft, FreedInTransit, FreedTwice, FreedUnknown, LiveAtEnd, ReallocatedFreed, ReallocatedUnknown,
    };
    let system = FromGlobalAlloc::SYSTEM;
    let mut judge = Judge::new(&system, CheckOptions::default());
    judge.run(TraceReader::new(text)?)?;
    let found = judge.findings(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object))?;
    let through_other = [FindingKind::FreedThroughOther, FindingKind::ReallocatedThroughOther];
    if found.iter().any(|found| through_other.contains(&found.kind)) {
        return Ok(None);
    }
    let count =
        |kinds: &[FindingKind]| found.iter().filter(|found| kinds.contains(&found.kind)).map(|found| found.count).sum();
    let not_live = [FreedInTransit, FreedTwice, FreedUnknown, ReallocatedFreed, ReallocatedUnknown];
    // A block that outlived its command was reported then.
    let left = found.iter().filter(|found| [LiveAtEnd, CommandBlockLeft].contains(&found.kind));
    Ok(Some((count(&not_live), left.map(|found| found.count - found.freed_later).sum())))
}

#[test]
fn made_up_traces_are_judged_by_what_is_live() {
    let (mut all, rounds) = (TraceTruth::default(), if cfg!(miri) { 3 } else { 1000 });
    for seed in 0..rounds {
        let mut rng = Rng::new(seed);
        let len = 16 + rng.below(497) as usize;
        let (text, truth) = host_trace(&rng.bytes(len));
        if let Some(judged) = judged(&text).expect("a whole trace") {
            let expected = (truth.not_live, truth.live_blocks);
            assert_eq!(judged, expected, "seed {seed}");
            JUDGED.fetch_add(1, Ordering::Relaxed);
        }
        all.blocks += truth.blocks;
        all.not_live += truth.not_live;
        all.null_answers += truth.null_answers;
    }
    let judged = JUDGED.load(Ordering::Relaxed);
    assert!(judged * 20 > rounds as usize, "{judged} compared with the judge");
    assert!(all.not_live > 0 && all.null_answers > 0 && all.blocks > 2 * all.not_live, "{all:?}");
}

#[test]
fn damaged_traces_are_judged_or_name_a_line_and_leave_nothing_behind() {
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
        let memory = RecordingAllocator::system();
        let mut judge = Judge::new(&memory, CheckOptions::default());
        match judge.run(reader) {
            Ok(_) => {}
            Err(CallbackError::Trace(error)) => {
                assert!((1..=lines + 1).contains(&error.line), "{error}");
                broken += 1;
            }
            Err(other) => panic!("seed {seed}: {other}"),
        }
        drop(judge);
        memory.assert_empty("after a damaged trace");
    }
    assert!(broken > rounds / 4, "{broken}: the damage must be found, or this proves nothing");
}
