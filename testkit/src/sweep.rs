//! Fail the i-th request, for every i.
//!
//! Fault injection has its home in debug-guard, which this crate may not import: the test passes it in as two closures.
//!
//! ```text
//! Sweep::new(|witness| FailingAllocator::new(witness, Fault::Never),
//!            |host, n| host.arm(n.map_or(Fault::Never, Fault::Nth)))
//!     .run("child", |trial| {
//!         let root = root_over(trial.host());                                          // set-up: refused nothing
//!         let child = trial.attempt(|| root.subtree_usage(), || root.child("c"));      // the i-th request in here fails
//!         ..                                                                           // everything is dropped
//!     });
//! ```

use std::alloc::Layout;
use std::cell::Cell;
use std::fmt::{self, Debug};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope};

use crate::hooked::{Call, Moment, Request, in_hook, run_hook, with_hook};
use crate::recording_allocator::RecordingAllocator;

/// More requests than any one operation should make: a sweep that goes on for longer does not end by itself.
const MOST: u64 = 100_000;

/// How refusals are made.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<M, R> {
    make: M,
    refuse: R,
    keeps: bool,
    shown: Shown,
    reenters: bool,
}

/// The traits that the operation sees, made from those of the allocator that refuses.
type Shown = fn(AllocatorTraits) -> AllocatorTraits;

/// What a sweep met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Requests of the operation when nothing is refused.
    pub requests: u64,
    /// Refusals that the operation answered with an error.
    pub failed: u64,
    /// Refusals that the operation got over (a second try with less, an optional block).
    pub survived: u64,
}

/// One run of the body; at most one of the requests of its attempts is refused.
pub struct Trial<'a, H, R> {
    host: Counted<H>,
    witness: RecordingAllocator,
    refuse: &'a R,
    nth: Option<u64>,
    keeps: bool,
    /// Of all attempts so far.
    outcome: Cell<Option<Outcome>>,
}

#[derive(Clone, Copy, Default)]
struct Outcome {
    requests: u64,
    refused: bool,
    failed: bool,
}

impl<H, R> Debug for Trial<'_, H, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("nth", &self.nth).field("keeps", &self.keeps).finish_non_exhaustive()
    }
}

impl<H, M, R> Sweep<M, R>
where
    H: HostAllocator,
    M: Fn(RecordingAllocator) -> H,
    R: Fn(&H, Option<u64>),
{
    /// `make` wraps the witness in an allocator that can refuse; `refuse(host, Some(n))` makes it refuse the n-th
    /// request from now, counted from 0, and no other; `refuse(host, None)` makes it refuse nothing.
    pub const fn new(make: M, refuse: R) -> Self {
        Self { make, refuse, keeps: false, shown: |traits| traits, reenters: false }
    }

    /// For operations that make their tables ready before they change anything: what a refused one had got for them
    /// stays there for the next try, which then takes no more than it would have at once.
    #[must_use]
    pub fn keeping(self) -> Self {
        Self { keeps: true, ..self }
    }

    /// Runs the hook of [`Trial::with_hook`] before and after each request of the attempt. What the hook allocates is
    /// neither counted nor refused: it comes from the witness, whose blocks the allocator that refuses must hand
    /// through as they are.
    #[must_use]
    pub fn reentering(self) -> Self {
        Self { reenters: true, ..self }
    }

    /// Shows the operation other traits than those of the allocator that refuses, since a path chosen by traits (a C
    /// bridge's care) is swept only where it is chosen. `shown` may add what only costs, and hide `tracks_requester`
    /// where no refusal depends on it.
    #[must_use]
    pub fn showing(self, shown: fn(AllocatorTraits) -> AllocatorTraits) -> Self {
        Self { shown, ..self }
    }

    /// Runs `body` once without refusals, then once for each request that its [`Trial::attempt`] makes, that one
    /// refused.
    ///
    /// # Panics
    /// When a trial breaks law 2, or the body makes no attempt; the text says `name` and which request it was.
    pub fn run(&self, name: &str, body: impl Fn(&Trial<'_, H, R>)) -> Swept {
        let dry = self.trial(name, None, &body);
        assert!(!dry.failed, "{name} fails although nothing was refused");
        let mut swept = Swept { requests: dry.requests, failed: 0, survived: 0 };
        for n in 0..MOST {
            let outcome = self.trial(name, Some(n), &body);
            if !outcome.refused {
                // A refusal may lead to more requests than the dry run made, so the end is where none is met.
                assert!(n >= dry.requests, "{name}: request {n} of {} was not refused", dry.requests);
                return swept;
            }
            if outcome.failed {
                swept.failed += 1;
            } else {
                swept.survived += 1;
            }
        }
        panic!("{name} makes more than {MOST} requests");
    }

    fn trial(&self, name: &str, nth: Option<u64>, body: &impl Fn(&Trial<'_, H, R>)) -> Outcome {
        let witness = RecordingAllocator::system();
        let host = Counted::new((self.make)(witness.clone()), self.shown, self.reenters.then(|| witness.clone()));
        let trial = Trial { host, witness, refuse: &self.refuse, nth, keeps: self.keeps, outcome: Cell::new(None) };
        let told = SweepReport { name, nth };
        body(&trial);
        trial.witness.assert_empty(&format!("by {name}, refused request: {nth:?}"));
        std::mem::forget(told);
        trial.outcome.get().unwrap_or_else(|| panic!("{name} makes no attempt"))
    }
}

impl<H, R> Trial<'_, H, R>
where
    H: HostAllocator,
    R: Fn(&H, Option<u64>),
{
    /// The allocator to build on. It refuses nothing outside of [`attempt`](Self::attempt).
    pub const fn host(&self) -> &Counted<H> {
        &self.host
    }

    /// The recorder under it.
    pub const fn witness(&self) -> &RecordingAllocator {
        &self.witness
    }

    /// Runs `body`; in a sweep that [re-enters](Sweep::reentering), each request of its attempt calls `hook` back.
    pub fn with_hook<T>(&self, hook: &dyn Fn(), body: impl FnOnce() -> T) -> T {
        if self.host.past.is_some() { with_hook(1, &|_| hook(), body) } else { body() }
    }

    /// Runs `operation` with this trial's refusal armed. If it fails, what `observe` sees and what the witness saw live
    /// must be as before, and a second try, with nothing refused, must succeed. Answers with what the operation gave.
    ///
    /// # Panics
    /// When one of these does not hold, and when it fails although nothing was refused.
    pub fn attempt<T, E: Debug, O: PartialEq + Debug>(
        &self,
        observe: impl Fn() -> O,
        mut operation: impl FnMut() -> Result<T, E>,
    ) -> T {
        let so_far = self.outcome.get().unwrap_or_default();
        // The first refusal is the trial's only one.
        let nth = self.nth.filter(|_| !so_far.refused).and_then(|nth| nth.checked_sub(so_far.requests));
        let before = (observe(), self.live());
        let (requests, refusals) = (self.host.requests(), self.host.refusals());
        (self.refuse)(&self.host.inner, nth);
        self.host.attempting.store(true, SeqCst);
        let first = operation();
        self.host.attempting.store(false, SeqCst);
        (self.refuse)(&self.host.inner, None);
        let outcome = Outcome {
            requests: self.host.requests() - requests,
            refused: self.host.refusals() > refusals,
            failed: first.is_err(),
        };
        self.outcome.set(Some(Outcome {
            requests: so_far.requests + outcome.requests,
            refused: so_far.refused || outcome.refused,
            failed: so_far.failed || outcome.failed,
        }));
        first.unwrap_or_else(|error| {
            assert!(outcome.refused, "it fails although nothing was refused: {error:?}");
            let kept = self.live();
            let left = if self.keeps { before.1 } else { kept };
            assert_eq!((observe(), left), before, "the failed operation changed something");
            let done = operation().unwrap_or_else(|error| panic!("the next try fails: {error:?}"));
            let (kept, live) = (kept.map(|(bytes, _)| bytes), self.live().map(|(bytes, _)| bytes));
            let within = !self.keeps || kept.iter().zip(live).all(|(kept, live)| *kept <= live);
            assert!(within, "the failed operation kept {kept:?}, and the next try has {live:?} in all");
            done
        })
    }

    fn live(&self) -> [(u64, u64); Scope::COUNT] {
        Scope::ALL.map(|scope| {
            let tally = self.witness.scope(scope);
            (tally.live_bytes, tally.live_blocks)
        })
    }
}

/// Says which trial it was when the body panics.
struct SweepReport<'a> {
    name: &'a str,
    nth: Option<u64>,
}

impl Drop for SweepReport<'_> {
    fn drop(&mut self) {
        eprintln!("sweep of {}: panicked with request {:?} refused", self.name, self.nth);
    }
}

/// Counts requests and refusals of the allocator that refuses, from outside.
#[derive(Debug)]
pub struct Counted<H> {
    inner: H,
    shown: Shown,
    requests: AtomicU64,
    refusals: AtomicU64,
    /// Where hooks run during an attempt: what they allocate comes from here, past the refusals.
    past: Option<RecordingAllocator>,
    attempting: AtomicBool,
}

impl<H: HostAllocator> Counted<H> {
    fn new(inner: H, shown: Shown, past: Option<RecordingAllocator>) -> Self {
        let (requests, refusals) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner, shown, requests, refusals, past, attempting: AtomicBool::new(false) }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(SeqCst)
    }

    fn refusals(&self) -> u64 {
        self.refusals.load(SeqCst)
    }

    /// Calls the allocator that refuses, a hook before it and after it; or the witness behind, where it is a hook that
    /// calls.
    fn serve<R>(&self, call: Call, bytes: usize, forward: impl FnOnce(&dyn HostAllocator) -> R) -> R {
        let Some(past) = &self.past else {
            return forward(&self.inner);
        };
        if in_hook() {
            return forward(past);
        }
        let hook = |moment| {
            if self.attempting.load(SeqCst) {
                run_hook(Request { call, moment, bytes });
            }
        };
        hook(Moment::Before);
        let answer = forward(&self.inner);
        hook(Moment::After);
        answer
    }

    fn count(
        &self,
        call: Call,
        bytes: usize,
        forward: impl FnOnce(&dyn HostAllocator) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        let answer = self.serve(call, bytes, forward);
        if self.past.is_none() || !in_hook() {
            self.requests.fetch_add(1, SeqCst);
            self.refusals.fetch_add(answer.is_err().into(), SeqCst);
        }
        answer
    }
}

// SAFETY: every call is `inner`'s own, or the witness's that `inner` hands the blocks of through.
unsafe impl<H: HostAllocator> HostAllocator for Counted<H> {
    fn traits(&self) -> AllocatorTraits {
        (self.shown)(self.inner.traits())
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.count(Call::Allocate, layout.size(), |host| host.allocate(layout, scope))
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.count(Call::AllocateZeroed, layout.size(), |host| host.allocate_zeroed(layout, scope))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the host's.
        self.serve(Call::Deallocate, layout.size(), |host| unsafe { host.deallocate(block, layout, scope) });
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: this function's contract: the block is the host's.
        self.count(Call::resize(old, new), new.size(), |host| unsafe { host.resize(block, old, new, scope) })
    }

    fn notify(&self, notice: Notice) {
        self.serve(Call::Notify, notice.bytes, |host| host.notify(notice));
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.serve(Call::Refusal, layout.size(), |host| host.refusal(layout, scope))
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.inner.validate_pointer(pointer, front)
    }
}
