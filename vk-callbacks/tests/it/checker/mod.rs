//! The live checker around callbacks: what it lets through, what it keeps from going through, and what it survives.
//! Which defect leads to which finding is the fake driver's matrix.

mod commands;
mod layers;
mod objects;
mod order;
mod past_callbacks;
mod refusing;
mod strangers;
mod threads;

use std::alloc::System;
use std::sync::Arc;

use crate::common::{self, App, COMPLETE, Driver, SYSTEM};
use alloc_core::{FromGlobalAlloc, HostAllocator, Scope, Scoped};
use vk_callbacks::check::{Checked, CheckedOwner, FindingKind, Opened};
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{CheckFinding, CheckOptions, Checker, Command, OwnerId, Owners};

fn checker<'m>(memory: &'m (dyn HostAllocator + Sync)) -> Checker<'m> {
    Checker::new(memory, COMPLETE).expect("there is memory")
}

/// Callbacks of an object of this kind through the checker.
fn wrap(checker: &Checker<'_>, raw: RawCallbacks, id: OwnerId, kind: &'static str, group: u32) -> Checked {
    let mut owner = CheckedOwner::new(id, kind);
    owner.group = group;
    // SAFETY: the tests keep what is behind the callbacks until after the last call.
    unsafe { checker.wrap(raw, owner) }.expect("there is memory, and the functions are there")
}

/// A driver that calls them.
fn drive(checker: &Checker<'_>, raw: RawCallbacks, id: OwnerId, kind: &'static str, group: u32) -> Driver {
    Driver(*wrap(checker, raw, id, kind, group).raw())
}

/// A command about an object with these callbacks.
fn command(name: &'static str, owner: OwnerId) -> Command {
    Command::new(name, Owners { object: Some(owner), ..Owners::default() }, BracketCoverage::Complete)
}

/// What `of` reads from each finding.
fn found<R>(checker: &Checker<'_>, of: impl FnMut(&CheckFinding<'static>) -> R) -> Vec<R> {
    let found = checker.findings(Scoped::new(&SYSTEM, Scope::Object));
    found.expect("there is memory").iter().map(of).collect()
}

fn kinds(checker: &Checker<'_>) -> Vec<FindingKind> {
    assert_eq!(checker.lost(), 0);
    found(checker, |found| found.kind)
}

fn said(checker: &Checker<'_>) -> Vec<String> {
    found(checker, |found| found.to_string())
}

/// An application, its callbacks through a checker, and a driver that calls them.
struct Bench<'m> {
    app: Arc<App>,
    checker: Checker<'m>,
    owner: OwnerId,
    driver: Driver,
}

impl<'m> Bench<'m> {
    fn new(memory: &'m (dyn HostAllocator + Sync)) -> Self {
        let app = Arc::<App>::default();
        let (checker, owner) = (checker(memory), OwnerId::fresh());
        let driver = drive(&checker, app.callbacks(), owner, "VkBuffer", 0);
        Self { app, checker, owner, driver }
    }

    fn run<R>(&self, name: &'static str, body: impl FnOnce() -> R) -> R {
        self.checker.run(command(name, self.owner), |_| body())
    }
}

#[test]
fn v19_a_stray_or_second_free_is_told_and_not_passed_on() {
    let bench = Bench::new(&SYSTEM);
    let mut own = [0_u8; 64];
    bench.run("vkCreateBuffer", || {
        let block = bench.driver.alloc(100, 8, Scope::Object);
        bench.driver.free(block);
        // The application's heap panics when one of these reaches it.
        bench.driver.free(block);
        bench.driver.free(own.as_mut_ptr());
        assert!(bench.driver.realloc(own.as_mut_ptr(), 8, 8, Scope::Object).is_null());
        assert!(bench.driver.realloc(block, 8, 8, Scope::Object).is_null());
    });
    assert_eq!(
        kinds(&bench.checker),
        [
            FindingKind::ReallocatedUnknown,
            FindingKind::ReallocatedFreed,
            FindingKind::FreedUnknown,
            FindingKind::FreedTwice
        ]
    );
    assert_eq!((bench.app.heap.live(), bench.app.calls().len()), (0, 2));
    bench.checker.close().expect("nothing is live");
}

#[test]
fn calls_go_through_as_they_are_and_the_contents_stay() {
    let bench = Bench::new(&SYSTEM);
    bench.run("vkCreateBuffer", || {
        let block = bench.driver.alloc(100, 256, Scope::Object);
        assert!(block.addr().is_multiple_of(256) && bench.app.heap.live() == 1);
        common::fill(block, 100, 7);
        let moved = bench.driver.realloc(block, 5000, 256, Scope::Object);
        common::assert_filled(moved, 100, 7);
        assert_eq!(bench.checker.live_blocks(), 1);
        bench.driver.internal(true, 4096, 0, 1);
        bench.driver.internal(false, 4096, 0, 1);
        bench.driver.free(moved);
    });
    use crate::common::Call::{Alloc, Free, Internal, Realloc};
    assert_eq!(
        bench.app.calls(),
        [
            Alloc { size: 100, align: 256, scope: 1 },
            Realloc { size: 5000, align: 256, scope: 1 },
            Internal { taken: true, size: 4096, kind: 0, scope: 1 },
            Internal { taken: false, size: 4096, kind: 0, scope: 1 },
            Free,
        ]
    );
    assert_eq!(kinds(&bench.checker), []);
}

#[test]
fn v42_compatible_callbacks_free_for_each_other_and_others_do_not() {
    let checker = checker(&SYSTEM);
    let first = App::default();
    let (second, stranger) = (App::compatible(&first), App::default());
    let ids = [OwnerId::fresh(), OwnerId::fresh(), OwnerId::fresh()];
    let a = drive(&checker, first.callbacks(), ids[0], "VkBuffer", 9);
    let b = drive(&checker, second.callbacks(), ids[1], "VkBuffer", 9);
    let c = drive(&checker, stranger.callbacks(), ids[2], "VkBuffer", 0);
    let block = checker.run(command("vkCreateBuffer", ids[0]), |_| a.alloc(8, 8, Scope::Object));
    checker.run(command("vkDestroyBuffer", ids[2]), |_| c.free(block));
    assert_eq!(
        (kinds(&checker), checker.live_blocks(), first.heap.live()),
        (vec![FindingKind::FreedThroughOther], 0, 0)
    );
    let block = checker.run(command("vkCreateBuffer", ids[0]), |_| a.alloc(8, 8, Scope::Object));
    checker.run(command("vkDestroyBuffer", ids[1]), |_| b.free(block));
    assert_eq!((kinds(&checker), checker.live_blocks()), (vec![FindingKind::FreedThroughOther], 0));
    checker.close().expect("nothing is live");
}

#[test]
fn a_checker_with_a_live_block_comes_back_and_says_how_many() {
    let bench = Bench::new(&SYSTEM);
    let block = bench.run("vkCreateBuffer", || bench.driver.alloc(8, 8, Scope::Object));
    let Bench { app, checker, owner, driver } = bench;
    let in_use = checker.close().expect_err("a block is live");
    assert_eq!((in_use.value.live_blocks(), app.heap.live()), (1, 1));
    assert_eq!(in_use.to_string(), "1 block that passed through is live: destroy its object first, then close again");
    in_use.value.run(command("vkDestroyBuffer", owner), |_| driver.free(block));
    in_use.value.close().expect("nothing is live");
    assert_eq!(app.heap.live(), 0);
}

#[test]
fn a_checker_that_is_dropped_with_a_live_block_goes_on_to_pass_its_free() {
    let bench = Bench::new(&SYSTEM);
    let block = bench.run("vkCreateBuffer", || bench.driver.alloc(8, 8, Scope::Object));
    let Bench { app, checker, driver, .. } = bench;
    drop(checker);
    assert_eq!(app.heap.live(), 1);
    driver.free(block);
    assert_eq!(app.heap.live(), 0, "the callbacks lead on, to the leaked checker and through it");
}
