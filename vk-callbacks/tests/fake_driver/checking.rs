//! The live checker between the fake application and its driver.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use vk_callbacks::{
    Call, CheckOptions, CheckedOwner, Checker, Coverage, Defect, FakeKind, FakeProgram, FindingKind, Found, Given, HandedOut,
    Opened, OwnerId, RawCallbacks,
};

use crate::heap::{Heap, Seen};
use crate::stage::{Allocators, Interrupted, Meeting, Stage, Watch};

pub(crate) static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;

pub(crate) const OPTIONS: CheckOptions = CheckOptions { coverage: Coverage::Complete, opened: Opened::Directly };

/// What was found: each kind, how often, and in words.
pub(crate) type FoundKinds = BTreeMap<FindingKind, (u64, Vec<String>)>;

pub(crate) struct Checking<'c> {
    checker: &'c Checker<'static>,
    handed: Mutex<BTreeMap<FakeKind, Handed<'c>>>,
}

struct Handed<'c>(HandedOut<'c>);

// SAFETY: made, spoilt and read by the program's one thread.
unsafe impl Send for Handed<'_> {}

impl<'c> Checking<'c> {
    pub(crate) fn new(checker: &'c Checker<'static>) -> Self {
        Self { checker, handed: Mutex::default() }
    }
}

impl Watch for Checking<'_> {
    fn around(&self, inner: RawCallbacks, owner: OwnerId, kind: FakeKind) -> Given {
        // SAFETY: the heap behind `inner` outlives the checker.
        let Ok(checked) = (unsafe { self.checker.wrap(inner, CheckedOwner::new(owner, kind.name())) }) else {
            return Given::NONE;
        };
        let handed = self.checker.hand_out(&checked).expect("memory of the system");
        // SAFETY: the struct lies in the checker's memory, the functions are the checker's: both outlive the run.
        let given = unsafe { Given::new(handed.as_ptr(), owner) };
        self.handed.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, Handed(handed));
        given
    }

    fn command(&self, call: &Call, body: &mut dyn FnMut() -> i32) {
        self.checker.run(call.bracket(), |frame| frame.returned(body()));
    }

    fn created(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>) {
        self.checker.created(kind.name(), handle, by);
    }

    fn destroyed(&self, kind: FakeKind, handle: u64, by: Option<OwnerId>, command: &'static str) {
        self.checker.destroyed(kind.name(), handle, by, command);
    }

    fn spoil(&self, kind: FakeKind) {
        if let Some(Handed(handed)) = self.handed.lock().unwrap_or_else(PoisonError::into_inner).get(&kind) {
            // SAFETY: the program spoils it when the command that was given it has returned.
            unsafe { handed.poison() };
        }
    }
}

/// Runs the program under the live checker; what that says about it, and what the allocator was asked.
pub(crate) fn checked(program: FakeProgram) -> (FoundKinds, Seen) {
    checked_for(program, &FakeKind::WITH_CALLBACKS)
}

/// As [`checked`], where the application has callbacks for these kinds of objects alone, and passes NULL for all others.
pub(crate) fn checked_for(program: FakeProgram, kinds: &[FakeKind]) -> (FoundKinds, Seen) {
    let checker = Checker::new(&SYSTEM, OPTIONS).expect("memory of the system");
    let (heap, meeting) = (Heap::default(), Meeting::default());
    {
        let checking = Checking::new(&checker);
        let interrupted = Interrupted { watch: &checking, meeting: &meeting };
        // SAFETY: the heap outlives the allocators, which outlive the run.
        let allocators = unsafe { Allocators::new(heap.raw(), program.defect, &interrupted) };
        let stage = Stage::new(&checking, &allocators, &meeting).with_callbacks_for(kinds, &allocators);
        program.run(&stage).expect("the heap refuses nothing");
        checker.finish();
    }
    let kinds = found_by(&checker);
    let leaks = program.defect.is_some_and(|defect| matches!(defect, Defect::LiveAfterDestroy | Defect::LiveAtEnd));
    assert_eq!(checker.live_blocks() > 0, leaks, "{:?}: {kinds:#?}", program.defect);
    // SAFETY: the program is over, and all its threads are.
    unsafe { checker.close_anyway() };
    (kinds, heap.seen())
}

/// What the checker says, by kind.
pub(crate) fn found_by(checker: &Checker<'_>) -> FoundKinds {
    assert_eq!(checker.lost(), 0);
    by_kind(&checker.findings(Scoped::new(SYSTEM, Scope::Object)).expect("memory of the system"))
}

pub(crate) fn by_kind(findings: &[Found<'_>]) -> FoundKinds {
    let mut kinds = FoundKinds::new();
    for found in findings {
        assert_eq!(found.coverage, Coverage::Complete);
        let (count, words) = kinds.entry(found.kind).or_default();
        *count += found.count;
        words.push(found.to_string());
    }
    kinds
}
