//! Callbacks from before a fork, called in the child while other threads of the parent were in the middle of calls.

use std::time::Duration;

use alloc_core::{Budget, Context, ContextOptions, FromGlobalAlloc, Scope, Scoped};
use testkit::{Child, fork_while};
use vk_callbacks::bridge::BareBridge;
use vk_callbacks::check::CheckedOwner;
use vk_callbacks::{Bridge, CheckOptions, Checker, OwnerId, Recorder};

use crate::common::{Driver, SYSTEM};

#[test]
fn m45_bridges_checkers_and_recorders_work_in_a_forked_child() {
    const NAME: &str = "m45_bridges_checkers_and_recorders_work_in_a_forked_child";
    if !Child::is_child(NAME) {
        let child = Child::this_test(NAME).limit(Duration::from_secs(300));
        child.run().assert_code(0);
        return;
    }
    // Before there is a context, so that the checker alone sees to it that the handlers are there.
    let checker = Checker::new(&SYSTEM, CheckOptions::default()).expect("memory");
    let bare = std::pin::pin!(BareBridge::new(FromGlobalAlloc::SYSTEM));
    let owner = CheckedOwner::new(OwnerId::fresh(), "VkDevice");
    // SAFETY: what is behind the callbacks stays until the end.
    let checked = unsafe { checker.wrap(bare.as_ref().raw(), owner) }.expect("memory");
    let driver = Driver(*checked.raw());
    let operate = |driver: Driver, turn: u64| {
        let size = 8 + turn as usize % 500;
        let block = driver.alloc(size, 8, Scope::Object);
        let block = driver.realloc(block, size + 100, 8, Scope::Object);
        assert!(!block.is_null(), "{turn}");
        driver.free(block);
    };
    let live = checker.live_blocks();
    let watch = |driver| {
        fork_while(
            4,
            150,
            |turn| operate(driver, turn),
            |fork| {
                (0..200).for_each(|turn| operate(driver, fork + turn));
                let found = checker.findings(Scoped::new(&SYSTEM, Scope::Object));
                drop(found.expect("memory"));
                assert!(checker.live_blocks() <= live + 8);
            },
        );
    };
    watch(driver);
    let root = Context::root_static(&SYSTEM, ContextOptions::new("root").budget(Budget::limit(1 << 20)));
    let root = root.expect("memory");
    let bridge = Bridge::new(root.child("bridge").expect("memory")).expect("memory");
    // SAFETY: what is behind the callbacks stays until the end.
    let checked = unsafe { checker.wrap(bridge.raw(), owner) }.expect("memory");
    let recorder = Recorder::new(&SYSTEM).expect("memory");
    // SAFETY: what is behind the callbacks stays until the end.
    let tap = unsafe { recorder.tap(1, *checked.raw()) }.expect("memory");
    watch(Driver(*tap.raw()));
}
