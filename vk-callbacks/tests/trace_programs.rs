//! Made-up traces against a naive model of them, whole and damaged.

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use testkit::{Rng, TraceTruth, Witness, host_trace};
use vk_callbacks::{CallbackError, Finding, Replay, ReplayTarget, TraceReader};

struct Ears {
    sink: Witness,
    told: TraceTruth,
}

impl ReplayTarget for Ears {
    type Sink = Witness;
    fn sink(&mut self, _: u64) -> Witness {
        self.sink.clone()
    }
    fn finding(&mut self, line: u64, finding: Finding) {
        match finding {
            Finding::NullAnswer { .. } => self.told.null_answers += 1,
            Finding::FreeUnknown { .. }
            | Finding::FreeTwice { .. }
            | Finding::ReallocateUnknown { .. }
            | Finding::ReallocateFreed { .. } => self.told.not_live += 1,
            Finding::StillLive { asked, .. } => {
                self.told.live_blocks += 1;
                self.told.live_bytes += asked.size;
            }
            Finding::OtherAlignment { .. } | Finding::OtherScope { .. } => {}
            other => panic!("line {line}: {other}"),
        }
    }
}

fn replayed(text: &str) -> Result<TraceTruth, CallbackError> {
    let mut ears = Ears { sink: Witness::system(), told: TraceTruth::default() };
    let mut replay = Replay::new(Scoped::new(FromGlobalAlloc::SYSTEM, Scope::Object));
    let outcome = replay.run(TraceReader::new(text)?, &mut ears);
    drop(replay);
    ears.sink.assert_empty("after the replay, whole or not");
    let totals = outcome?;
    let events = TraceReader::new(text)?.count() as u64;
    Ok(TraceTruth { events, blocks: totals.all().blocks, peak_bytes: totals.all().peak_bytes, ..ears.told })
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
    assert!(all.not_live > 0 && all.null_answers > 0 && all.blocks > 2 * all.not_live, "{all:?}");
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
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let lines = text.matches('\n').count() as u64;
        let reader = TraceReader::new(&text);
        let Ok(reader) = reader else { continue };
        let mut ears = Quiet(Witness::system());
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
    assert!(broken > rounds / 4, "{broken}: the damage must be found, or this proves nothing");
}

struct Quiet(Witness);

impl ReplayTarget for Quiet {
    type Sink = Witness;
    fn sink(&mut self, _: u64) -> Witness {
        self.0.clone()
    }
}
