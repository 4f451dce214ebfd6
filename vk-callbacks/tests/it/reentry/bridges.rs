//! Bridges whose backing calls back.

use super::*;

fn bridge() -> Bridge {
    Bridge::new(Context::root_static(&HOST, ContextOptions::new("bridge")).expect("memory")).expect("memory")
}

#[test]
fn a_bridge_whose_backing_reenters_it_keeps_every_block() {
    let bridge = bridge();
    let driver = Driver(bridge.raw());
    let times = Cell::new(0);
    let hook = |_| {
        times.set(times.get() + 1);
        use_callbacks(driver);
    };
    with_hook(2, &hook, || hold_blocks(driver));
    assert!(times.get() > 50, "{times:?}");
    assert_eq!((bridge.counters().faults(), bridge.live().total().blocks), (0, 0));
    bridge.close().expect("nothing is live");
}

#[test]
fn a_bridge_that_is_closed_as_its_backing_reenters_the_application_stays() {
    let (bridge, told) = (RefCell::new(Some(bridge())), RefCell::new(String::new()));
    let driver = Driver(bridge.borrow().as_ref().expect("there").raw());
    let hook = |request| {
        let Some(closed) = is_request(request).then(|| bridge.take()).flatten() else {
            return;
        };
        match closed.close() {
            Err(busy) => {
                told.replace(busy.to_string());
                bridge.replace(Some(busy.value));
            }
            Ok(_) => drop(told.replace("closed".into())),
        }
    };
    let block = with_hook(1, &hook, || driver.alloc(100, 8, Scope::Object));
    assert_eq!(told.take(), "a callback runs on this thread: close again when it has returned");
    assert!(!block.is_null());
    driver.free(block);
    let bridge = bridge.take().expect("it came back");
    assert_eq!(bridge.counters().faults(), 0);
    bridge.close().expect("nothing is live, and no callback runs");
}

/// In a process of its own, with its own count of leaked bridges.
#[test]
fn a_bridge_that_is_dropped_as_its_backing_reenters_the_application_is_leaked() {
    const NAME: &str = "a_bridge_that_is_dropped_as_its_backing_reenters_the_application_is_leaked";
    if !testkit::Child::is_child(NAME) {
        testkit::Child::this_test(NAME).run().assert_code(0);
        return;
    }
    let bridge = RefCell::new(Some(bridge()));
    let driver = Driver(bridge.borrow().as_ref().expect("there").raw());
    let before = leaked_bridges();
    let hook = |request: Request| {
        if is_request(request) {
            drop(bridge.take());
        }
    };
    let block = with_hook(1, &hook, || driver.alloc(100, 8, Scope::Object));
    assert_eq!(leaked_bridges(), before + 1);
    driver.free(block);
    assert!(driver.alloc(100, 8, Scope::Object).is_null(), "its context is closed");
}

#[test]
fn a_bridge_is_busy_until_its_own_callback_returns_whichever_returned_within() {
    let (outer, inner) = (RefCell::new(Some(bridge())), bridge());
    let driver = Driver(outer.borrow().as_ref().expect("there").raw());
    let told = RefCell::new(String::new());
    let hook = |request| {
        let Some(closed) = is_request(request).then(|| outer.take()).flatten() else {
            return;
        };
        use_callbacks(Driver(inner.raw()));
        assert!(in_callback());
        let busy = closed.close().expect_err("its callback runs");
        told.replace(busy.to_string());
        outer.replace(Some(busy.value));
    };
    let block = with_hook(1, &hook, || driver.alloc(100, 8, Scope::Object));
    assert_eq!(told.take(), "a callback runs on this thread: close again when it has returned");
    assert!(!in_callback());
    driver.free(block);
    let outer = outer.take().expect("it came back");
    outer.close().expect("no callback runs");
}
