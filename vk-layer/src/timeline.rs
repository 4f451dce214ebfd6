//! A phase begins with the first instance (`run`), and where a program enters another part: a device is created or
//! destroyed, the first submit, a requested mark or report. Where the layer is linked into a program, that may name its
//! parts itself.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloc_core::TryVec;
use vk_report::report::{ByScope, Counts, Courses, PhaseStart, PhaseStarts, Sample, Sampler};

use crate::accounts::{Accounts, KindAccount, all_accounts, all_usage, restart_peak};
use crate::chain::MAX_HEAPS;
use crate::commands::{MAX_KINDS, places};
use crate::count::get;
use crate::courses::{Live, Points};
use crate::foreign::ForeignOwner;
use crate::hooks::commands_called;
use crate::in_process::observation;
use crate::per_process::PerProcess;
use crate::record::{Own, own};
use crate::report;
use crate::tape::tape;

struct PhaseRow {
    name: &'static str,
    commands: u64,
    counts: Counts,
    peak: (u64, u64),
}

const MAX_PHASES: usize = 64;

struct Timeline {
    phases: TryVec<PhaseRow, Own>,
    sampler: Sampler,
    points: Points,
    lost_phases: u64,
    fullest: Fullest,
}

#[derive(Default)]
pub(crate) struct Fullest {
    pub(crate) phase: &'static str,
    live_bytes: u64,
    kinds: Option<TryVec<(usize, ByScope), Own>>,
}

/// `None` as long as the program does not name its phases itself.
static NAMED: Mutex<Option<&'static str>> = Mutex::new(None);

static TIMELINE: PerProcess<Mutex<Timeline>> = PerProcess::new();

/// Commands whose number has none of these bits are sampled; no command has number 0.
static MASK: AtomicU64 = AtomicU64::new(u64::MAX);

static HAS_SUBMITTED: AtomicBool = AtomicBool::new(false);

pub(crate) fn after_fork() {
    TIMELINE.forget();
    MASK.store(u64::MAX, Ordering::Relaxed);
    HAS_SUBMITTED.store(false, Ordering::Relaxed);
}

pub(crate) fn start() {
    let is_new = TIMELINE.get().is_none();
    let timeline = TIMELINE.get_or_make(|| Timeline::new().map(Mutex::new));
    if is_new && timeline.is_some() {
        begin(named().unwrap_or("run"));
        MASK.store(0, Ordering::Relaxed);
    }
}

#[inline]
pub(crate) fn is_sampled(number: u64) -> bool {
    number & MASK.load(Ordering::Relaxed) == 0
}

#[cold]
pub(crate) fn sample() {
    let Some(timeline) = TIMELINE.get() else {
        return;
    };
    let Ok(mut timeline) = timeline.try_lock() else {
        return;
    };
    let at = commands_called();
    if let Some((live_by_scope, live)) = live() {
        timeline.add_sample(at, live_by_scope);
        timeline.points.add(at, &live);
    }
}

#[inline]
pub(crate) fn submitted() {
    if !HAS_SUBMITTED.load(Ordering::Relaxed) && !HAS_SUBMITTED.swap(true, Ordering::Relaxed) {
        begin_phase("first submit");
    }
}

fn named() -> Option<&'static str> {
    *NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn begin_named_phase(name: &'static str) {
    *NAMED.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
    begin(name);
}

#[cold]
pub(crate) fn begin_phase(name: &'static str) {
    if named().is_none() {
        begin(name);
    }
}

/// The phase before ends with the very numbers that this one begins with.
fn begin(name: &'static str) {
    let Some(timeline) = TIMELINE.get() else {
        return;
    };
    let mut timeline = lock(timeline);
    if timeline.phases.len() >= MAX_PHASES && named().is_none() {
        timeline.lost_phases = timeline.lost_phases.saturating_add(1);
        return;
    }
    // Before the phase before it ends: samples belong to a phase that goes on.
    if timeline.phases.try_reserve(1).is_err() {
        timeline.lost_phases = timeline.lost_phases.saturating_add(1);
        return;
    }
    let (commands, counts) = (commands_called(), counts_of_all());
    timeline.end_phase(commands, &counts);
    restart_peak();
    let next = PhaseRow { name, commands, counts, peak: (0, 0) };
    if timeline.phases.try_push(next).is_err() {
        timeline.lost_phases = timeline.lost_phases.saturating_add(1);
    }
    timeline.add_sample(commands, counts.live_bytes);
    if let Some(tape) = tape() {
        tape.phase(name);
    }
}

/// Also the present moment counts as the end of a phase. `None` before the first instance, or without memory.
pub(crate) fn fullest() -> Option<Fullest> {
    let mut timeline = report::part(TIMELINE.get()?)?;
    let counts = counts_of_all();
    timeline.note_fullest(&counts);
    let kinds = timeline.fullest.kinds.as_ref()?;
    let mut copy = TryVec::new_in(own());
    copy.try_extend_from_slice(kinds).ok()?;
    Some(Fullest { kinds: Some(copy), ..timeline.fullest })
}

impl Fullest {
    pub(crate) fn of(&self, account: &KindAccount) -> ByScope {
        let address = ptr::from_ref(account).addr();
        let mut kinds = self.kinds.iter().flatten();
        kinds.find(|(of, _)| *of == address).map_or(ByScope::default(), |(_, live)| *live)
    }
}

/// The last phase has its current numbers; the last member is how many phases were lost. `None` before the first
/// instance.
pub(crate) fn copy(commands: u64) -> Option<(PhaseStarts, Vec<Sample>, u64)> {
    let mut timeline = report::part(TIMELINE.get()?)?;
    let counts = counts_of_all();
    if let Some(last) = timeline.phases.last_mut() {
        last.peak = peak_of_phase();
    }
    let start = |phase: &PhaseRow| {
        let start = PhaseStart { name: phase.name.to_owned(), commands: phase.commands, counts: phase.counts };
        (start, phase.peak)
    };
    let starts = timeline.phases.iter().map(start).collect();
    let mut samples = timeline.sampler.samples();
    let last = timeline.sample(commands, counts.live_bytes);
    if samples.last().is_none_or(|before| before.at < last.at) {
        samples.push(last);
    }
    let phases = PhaseStarts { starts, commands, counts };
    Some((phases, samples, timeline.lost_phases))
}

/// `None` before the first instance.
pub(crate) fn courses(commands: u64) -> Option<Courses> {
    let timeline = report::part(TIMELINE.get()?)?;
    let now = live().map(|(_, live)| (commands, live));
    Some(timeline.points.courses(now))
}

/// After a panic under the lock a sample or a phase is missing.
fn lock(timeline: &Mutex<Timeline>) -> MutexGuard<'_, Timeline> {
    timeline.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Timeline {
    fn new() -> Option<Self> {
        Some(Self {
            phases: TryVec::try_with_capacity_in(MAX_PHASES, own()).ok()?,
            sampler: Sampler::default(),
            points: Points::new(),
            lost_phases: 0,
            fullest: Fullest::default(),
        })
    }

    fn note_fullest(&mut self, counts: &Counts) -> bool {
        let live_bytes = counts.live_bytes.sum();
        if self.fullest.kinds.is_some() && live_bytes <= self.fullest.live_bytes {
            return false;
        }
        let mut kinds = TryVec::new_in(own());
        let live = used_accounts().map(|kind| (ptr::from_ref(kind).addr(), counts_of(kind).live_bytes));
        for one in live {
            if kinds.try_push(one).is_err() {
                return false;
            }
        }
        self.fullest =
            Fullest { phase: self.phases.last().map_or("", |last| last.name), live_bytes, kinds: Some(kinds) };
        true
    }

    fn sample(&self, at: u64, live_by_scope: ByScope) -> Sample {
        Sample { at, phase: self.phases.len().saturating_sub(1), live_by_scope }
    }

    fn add_sample(&mut self, at: u64, live_by_scope: ByScope) {
        let sample = self.sample(at, live_by_scope);
        self.sampler.add(sample);
        let mask = self.sampler.stride().saturating_sub(1);
        MASK.store(mask, Ordering::Relaxed);
    }

    fn end_phase(&mut self, commands: u64, counts: &Counts) {
        let Some(last) = self.phases.last_mut() else {
            return;
        };
        last.peak = peak_of_phase();
        let sample = self.sample(commands, counts.live_bytes);
        self.sampler.end_phase(sample);
        let is_fullest = self.note_fullest(counts);
        if let Some(stacks) = observation().and_then(|observed| observed.stacks.as_ref()) {
            let at = stacks.moment().at;
            stacks.with(|recorder| recorder.end_phase(is_fullest, at));
        }
    }
}

/// The second number is how far the first may be off: the peaks of the program's own callbacks since the start of the
/// process are added.
fn peak_of_phase() -> (u64, u64) {
    let Some(all) = all_usage() else {
        return (0, 0);
    };
    let foreign = all.foreign_peak_bytes;
    (all.recent_peak_bytes.saturating_add(foreign), foreign)
}

fn used_accounts() -> impl Iterator<Item = &'static KindAccount> {
    all_accounts().flat_map(Accounts::used_accounts)
}

/// `None` where a number would have to be waited for.
fn live() -> Option<(ByScope, Live)> {
    let mut live_by_scope = ByScope::default();
    let mut live: Live = [0; MAX_KINDS + MAX_HEAPS];
    for accounts in all_accounts() {
        for place in places(accounts.used_kinds()) {
            let of_kind = live_of(accounts.kind_at(place)?)?;
            live_by_scope.add(&of_kind);
            add(live.get_mut(place)?, of_kind.sum());
        }
        let heaps = live.iter_mut().skip(MAX_KINDS);
        for (sum, heap) in heaps.zip(&accounts.device_memory.heaps) {
            add(sum, get(&heap.live_bytes));
        }
    }
    Some((live_by_scope, live))
}

fn live_of(kind: &KindAccount) -> Option<ByScope> {
    let mut live = ByScope::default();
    if let Some(owner) = kind.owner() {
        let usage = owner.try_usage()?;
        live.add(&ByScope::of(|scope| usage.scope(scope).live_bytes));
    }
    if let Some(usage) = kind.foreign().and_then(ForeignOwner::usage_by_scope) {
        live.add(&ByScope::of(|scope| usage.scope(scope).live_bytes));
    }
    Some(live)
}

fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

fn counts_of_all() -> Counts {
    let mut sum = Counts::default();
    used_accounts().for_each(|kind| sum.add(&counts_of(kind)));
    sum
}

fn counts_of(kind: &KindAccount) -> Counts {
    let mut sum = Counts::default();
    if let Some(owner) = kind.owner() {
        sum.add(&Counts::from(&owner.usage()));
    }
    if let Some(usage) = kind.foreign().and_then(ForeignOwner::usage_by_scope) {
        sum.add(&Counts::of(|scope| usage.scope(scope)));
    }
    sum
}
