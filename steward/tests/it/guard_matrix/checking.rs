//! The checker between the application's callbacks and the driver: by hand, and around the fake program.

use std::alloc::System;

use alloc_core::{FromGlobalAlloc, Scope, Scoped};
use fake_driver::{Defect, FakeProgram};
use vk_callbacks::check::{CheckedOwner, Opened};
use vk_callbacks::command::{BracketCoverage, current_thread};
use vk_callbacks::{CheckFinding, CheckOptions, Checker, Command, OwnerId, Owners};

use super::application::{Application, MatrixDriver};
use super::common::{Lab, SeenByChild, note};
use super::stage::{Allocators, Interrupted, Meeting, Stage};
use super::watching::Checking;

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
pub(crate) const OPTIONS: CheckOptions = CheckOptions { coverage: BracketCoverage::Complete, opened: Opened::Directly };

/// What a checker found, one after the other: how much it weighs, the sentence with rules, owner, command, scope and
/// bytes, and of what was outside of any command whether this thread did it or another.
pub(crate) fn said(checker: &Checker<'_>) -> Vec<String> {
    assert_eq!(checker.lost(), 0);
    let found = checker.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory of the system");
    let on = |found: &CheckFinding<'_>| match found.on_thread {
        None => "",
        Some(thread) if thread == current_thread() => " [on this thread]",
        Some(_) => " [on another thread]",
    };
    found.iter().map(|found| format!("{}: {found}{}", found.level(), on(found))).collect()
}

pub(crate) fn checker() -> Checker<'static> {
    Checker::new(&SYSTEM, OPTIONS).expect("memory of the system")
}

/// One object's callbacks with a checker around.
pub(crate) struct Checked {
    pub(crate) checker: Checker<'static>,
    pub(crate) owner: OwnerId,
    driver: MatrixDriver,
}

impl Checked {
    pub(crate) fn around(driver: MatrixDriver, kind: &'static str) -> Self {
        let (checker, owner) = (checker(), OwnerId::fresh());
        // SAFETY: cases keep what is behind until after the last call.
        let checked = unsafe { checker.wrap(driver.0, CheckedOwner::new(owner, kind)) }.expect("whole callbacks");
        Self { checker, owner, driver: MatrixDriver(*checked.raw()) }
    }

    pub(crate) fn driver(&self) -> MatrixDriver {
        self.driver
    }

    pub(crate) fn run<R>(&self, name: &'static str, body: impl FnOnce() -> R) -> R {
        let owners = Owners { object: Some(self.owner), ..Owners::default() };
        self.checker.run(Command::new(name, owners, BracketCoverage::Complete), |_| body())
    }

    /// Exactly this was found, as [`said`] says it; notes how much.
    #[track_caller]
    pub(crate) fn note_found(&self, expected: &[&str]) {
        let found = said(&self.checker);
        assert_eq!(found, expected, "what the checker says");
        note("found", found.len());
    }
}

/// Runs the fake program over the application's callbacks, with a checker between; answers what the program did and
/// what was found.
pub(crate) fn run_checked(
    application: &Application,
    program: FakeProgram,
    run: impl FnOnce(&dyn fake_driver::Dispatch) -> Result<(), i32>,
) -> (Result<(), i32>, Vec<String>) {
    let checker = checker();
    let meeting = Meeting::default();
    let answer = {
        let checking = Checking::new(&checker);
        let interrupted = Interrupted { watch: &checking, meeting: &meeting };
        // SAFETY: the application outlives the run.
        let allocators = unsafe { Allocators::new(application.driver().0, program.defect, &interrupted) };
        let answer = run(&Stage::new(&checking, &allocators, &meeting));
        checker.finish();
        answer
    };
    let found = said(&checker);
    // SAFETY: the program is over, and all its threads are.
    unsafe { checker.close_anyway() };
    (answer, found)
}

/// The fake program with this defect, over the guard: what the checker found is asserted to be that and no more, and
/// noted.
pub(crate) fn runs_with(lab: &Lab, defect: Defect, expected: &str) {
    let application = Application::new(&lab.guard, "fake application");
    let program = FakeProgram { defect: Some(defect), rounds: 1, habits: false };
    let (answer, found) = run_checked(&application, program, |stage| program.run(stage));
    assert_eq!(answer, Ok(()));
    assert_eq!(found, [expected], "what the checker says of {defect:?}");
    note("found", found.len());
    assert_eq!(lab.guard.check_all(), 0);
    std::mem::forget(application);
}

/// The checker found it; the guard below, with hundreds of blocks, found nothing.
#[track_caller]
pub(crate) fn found_by_the_checker_alone(seen: &SeenByChild) {
    seen.quiet(100);
    assert_eq!(seen.note("found"), 1);
}

/// For each planted defect a case of its own: `plants! { Defect in name_of_the_case: "what the checker says of it", ..
/// }`.
macro_rules! plants {
    ($($defect:ident in $case:ident: $said:literal),+ $(,)?) => {$(
        fn $case(lab: &$crate::guard_matrix::common::Lab) {
            $crate::guard_matrix::checking::runs_with(lab, fake_driver::Defect::$defect, $said);
        }
        $crate::guard_matrix::common::each($crate::guard_matrix::common::On::ALL, $case, $crate::guard_matrix::checking::found_by_the_checker_alone);
    )+};
}
pub(crate) use plants;
