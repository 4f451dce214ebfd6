//! `Checker` and its callbacks; its own memory is the stage's here.

use alloc_core::{Context, Scope};
use testkit::{Sink, Stage};
use vk_callbacks::check::{Checked, CheckedOwner, FindingKind, OwnerUsage, RuleLevel, stray_callbacks};
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::{CallbackError, CheckOptions, Checker, Command, OwnerId, Owners, Rule};

use super::{Ground, Operation, SYSTEM, nothing, spares, takes};
use crate::common::Driver;

/// Why a refusal is no error to what is observed.
const LOST: &str = "the observation is counted as lost, the call goes on";

/// Why an observation allocates nothing.
const ROOM: &str = "there is room for the first findings";

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Checker::new"], "", |s, g| {
            let checker = s.attempt(|| g.picture(), || Checker::new(g.root, CheckOptions::default()));
            checker.close().expect("nothing is live");
        }),
        takes(&["Checker::naming_callers"], "", |s, g| {
            let new = || Checker::naming_callers(g.root, CheckOptions::default(), || "");
            let checker = s.attempt(|| g.picture(), new);
            checker.close().expect("nothing is live");
        }),
        takes(&["Checker::wrap"], "", |s, g| {
            let checker = checker(g.root);
            // SAFETY: nothing is called.
            s.attempt(|| g.picture(), || unsafe { checker.wrap(g.raw, owner(g)) });
            checker.close().expect("nothing is live");
        }),
        takes(&["Checked::raw"], "a request through a checker", requested::<S>),
        spares(
            &["Checker::run", "CommandFrame::returned"],
            "a reallocation through a checker, in a command",
            "the room for its record is made shard by shard, and kept",
            reallocated::<S>,
        ),
        takes(&["Checker::hand_out"], "", |s, g| {
            let (checker, checked) = checked(g.root, g);
            s.attempt(|| g.picture(), || checker.hand_out(&checked).map(|handed| handed.as_ptr()));
            checker.close().expect("nothing is live");
        }),
        takes(&["Checker::findings"], "", |s, g| {
            let (checker, checked) = checked(&SYSTEM, g);
            Driver(*checked.raw()).free(std::ptr::null_mut());
            let found = s.attempt(|| g.picture(), || checker.findings(g.root));
            assert_eq!(found[0].kind, FindingKind::NullFree);
            assert!(found[0].level() == RuleLevel::Note && found[0].culprit().len() > 3 && found[0].rules() == [18]);
            checker.close().expect("nothing is live");
        }),
        takes(&["Checker::add_owner"], "an owner whose callbacks come later", |s, g| {
            let checker = checker(g.root);
            s.attempt(|| g.picture(), || checker.add_owner(owner(g)));
            checker.close().expect("nothing is live");
        }),
        takes(&["Checker::wrap_for", "Checker::retire"], "", |s, g| {
            let checker = checker(g.root);
            checker.add_owner(owner(g)).expect("refused nothing");
            // SAFETY: nothing is called.
            let wrap = || unsafe { checker.wrap_for(g.raw, g.bridge.owner()) };
            let checked = s.attempt(|| g.picture(), wrap);
            // SAFETY: nothing was called.
            unsafe { checker.retire(&checked) };
            checker.close().expect("nothing is live");
        }),
        takes(&["Checker::findings_at_end"], "", |s, g| {
            let (checker, checked) = checked(&SYSTEM, g);
            Driver(*checked.raw()).free(std::ptr::null_mut());
            let found = s.attempt(|| g.picture(), || checker.findings_at_end(g.root));
            assert_eq!(found[0].kind, FindingKind::NullFree);
            checker.close().expect("nothing is live");
        }),
        spares(&["Checker::created"], "", LOST, |s, g| {
            let (checker, _) = checked(g.root, g);
            s.attempt_plainly(|| checker.created("VkBuffer", 7, Some(g.bridge.owner())));
            assert!(checker.lost() < 2);
        }),
        nothing(&["Checker::destroyed"], ROOM, |s, g| {
            let (checker, _) = checked(g.root, g);
            s.attempt_plainly(|| checker.destroyed("VkBuffer", 7, None, "vkDestroyBuffer"));
            assert_eq!(checker.findings(g.root).expect("refused nothing").len() as u64 + checker.lost(), 1);
        }),
        nothing(&["Checker::freed_elsewhere"], ROOM, |s, g| {
            let (checker, checked) = checked(g.root, g);
            let driver = Driver(*checked.raw());
            let block = checker.run(command(g), |_| driver.alloc(64, 8, Scope::Object));
            s.attempt_plainly(|| assert!(checker.freed_elsewhere(block.cast(), |_| true)));
            assert_eq!(checker.findings(g.root).expect("refused nothing").len() as u64 + checker.lost(), 1);
            // Past the checker, to which it is gone.
            Driver(g.raw).free(block);
            checker.close().expect("nothing is live");
        }),
        nothing(&["Checker::finish", "Checker::live_blocks", "Checker::lost", "Checker::usage"], ROOM, finished::<S>),
        nothing(&["HandedOut::poison", "HandedOut::as_ptr"], ROOM, poisoned::<S>),
        nothing(
            &["Checked::as_ptr", "Checker::close", "Checker::close_anyway", "stray_callbacks"],
            "they read, or give back",
            ending::<S>,
        ),
        nothing(
            &[
                "CheckedOwner::new",
                "CheckedOwner::counted",
                "OwnerUsage::scope",
                "OwnerUsage::total",
                "OwnerId::fresh",
                "FindingKind::rule",
                "CheckFinding::level",
                "CheckFinding::culprit",
                "CheckFinding::rules",
                "Rule::of",
                "RuleLevel::name",
            ],
            "values on the stack",
            values::<S>,
        ),
    ]
}

fn owner(ground: &Ground<'_>) -> CheckedOwner {
    CheckedOwner::new(ground.bridge.owner(), "VkDevice")
}

fn checker(memory: &Context) -> Checker<'_> {
    Checker::new(memory, CheckOptions::default()).expect("refused nothing")
}

/// A checker, and the ground's callbacks through it.
fn checked<'m>(memory: &'m (dyn alloc_core::HostAllocator + Sync), ground: &Ground<'_>) -> (Checker<'m>, Checked) {
    let checker = Checker::new(memory, CheckOptions::default()).expect("refused nothing");
    // SAFETY: the ground's callbacks outlive the body, and none is called after the checker was closed.
    let checked = unsafe { checker.wrap(ground.raw, owner(ground)) }.expect("refused nothing");
    (checker, checked)
}

/// A command that may do with the ground's callbacks what it likes.
fn command(ground: &Ground<'_>) -> Command {
    Command::new(
        "vkUnheardOf",
        Owners { device: Some(ground.bridge.owner()), ..Owners::default() },
        BracketCoverage::Complete,
    )
}

fn requested<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let (checker, checked) = checked(ground.root, ground);
    let driver = Driver(*checked.raw());
    checker.run(command(ground), |_| {
        let block = stage.attempt(
            || (checker.live_blocks(), ground.picture()),
            || {
                let block = driver.alloc(100, 8, Scope::Object);
                if block.is_null() { Err(()) } else { Ok(block) }
            },
        );
        assert_eq!(checker.live_blocks(), 1);
        driver.free(block);
    });
    assert_eq!(checker.lost(), 0);
    checker.close().expect("nothing is live");
}

fn reallocated<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let (checker, checked) = checked(ground.root, ground);
    let driver = Driver(*checked.raw());
    checker.run(command(ground), |frame| {
        let block = driver.alloc(100, 8, Scope::Object);
        let moved = stage.attempt_plainly(|| driver.realloc(block, 200, 8, Scope::Object));
        assert_eq!((checker.live_blocks(), frame.null_answers()), (1, u32::from(moved.is_null())));
        driver.free(if moved.is_null() { block } else { moved });
        frame.returned(if moved.is_null() { -1 } else { 0 });
    });
    assert_eq!((checker.lost(), checker.findings(ground.root).expect("refused nothing").len()), (0, 0));
    checker.close().expect("nothing is live");
}

fn finished<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let (checker, checked) = checked(ground.root, ground);
    let driver = Driver(*checked.raw());
    let block = checker.run(command(ground), |_| driver.alloc(100, 8, Scope::Object));
    stage.attempt_plainly(|| {
        checker.finish();
        assert_eq!(checker.live_blocks(), 1);
        assert_eq!(checker.usage(ground.bridge.owner()), None);
    });
    assert_eq!(checker.findings(ground.root).expect("refused nothing").len() as u64 + checker.lost(), 1);
    checker.run(command(ground), |_| driver.free(block));
    checker.close().expect("nothing is live");
}

fn poisoned<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let (checker, checked) = checked(ground.root, ground);
    let handed = checker.hand_out(&checked).expect("refused nothing");
    // SAFETY: a struct of the checker, which is not being read.
    unsafe { handed.poison() };
    // SAFETY: a struct of the checker, which is not being changed.
    let old = Driver(unsafe { handed.as_ptr().read() });
    let block = checker.run(command(ground), |_| Driver(*checked.raw()).alloc(100, 8, Scope::Object));
    checker.run(command(ground), |_| stage.attempt_plainly(|| old.free(block)));
    assert_eq!(checker.findings(ground.root).expect("refused nothing").len() as u64 + checker.lost(), 1);
    checker.close().expect("nothing is live");
}

fn ending<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let (first, old) = checked(ground.root, ground);
    let (second, _) = checked(ground.root, ground);
    let block = first.run(command(ground), |_| Driver(*old.raw()).alloc(100, 8, Scope::Object));
    let mut checkers = Some((first, second));
    stage.attempt_plainly(|| {
        let (first, second) = checkers.take().expect("made above");
        assert_eq!(old.as_ptr(), &raw const *old.raw());
        let in_use = first.close().expect_err("a block is live");
        assert_eq!(in_use.value.live_blocks(), 1);
        // SAFETY: no call is running.
        unsafe { in_use.value.close_anyway() };
        second.close().expect("nothing is live");
        // Nobody is there any more: the call finds that out without following the user data.
        let strays = stray_callbacks();
        assert!(Driver(*old.raw()).alloc(1, 1, Scope::Object).is_null() && stray_callbacks() > strays);
    });
    Driver(ground.raw).free(block);
}

fn values<S: Stage>(stage: &S, ground: &Ground<'_>) {
    stage.attempt_plainly(|| {
        let usage = OwnerUsage::default();
        assert!(owner(ground).counted().is_counted && usage.scope(Scope::Object) == usage.total());
        assert!(owner(ground).group == 0 && OwnerId::fresh() != OwnerId::fresh());
        assert_eq!(Rule::of(FindingKind::NullFree.rule().number).map(|rule| rule.level.name()), Some("note"));
        assert!(Sink::debug((FindingKind::ALL, CallbackError::TooManyOwners)) > 0);
    });
}
