//! Checkers whose application or memory calls back, and commands within commands.

use super::*;

#[test]
fn a_checker_and_a_recorder_whose_application_reenters_them_see_each_block_once() {
    let (bridge, recorder, checker) = (bare(), Recorder::new(&HOST).expect("memory"), checker(&HOST));
    let behind = bridge.as_ref().raw();
    // SAFETY: the bridge stays, and the recorder is closed before it goes.
    let tap = unsafe { recorder.tap(1, application(&behind)) }.expect("memory");
    let owner = OwnerId::fresh();
    let driver = Driver(*watch(&checker, *tap.raw(), owner).raw());
    let times = Cell::new(0);
    let hook = |request: Request| {
        if matches!(request.call, Call::Other(_)) {
            times.set(times.get() + 1);
            use_callbacks(driver);
        }
    };
    bracket(&checker, owner, "vkCreateBuffer", || with_hook(2, &hook, || hold_blocks(driver)));
    assert!(times.get() > 50, "{times:?}");
    assert_eq!((found(&checker), checker.live_blocks(), recorder.live_blocks()), (Vec::new(), 0, 0));
    let mut trace = String::new();
    let written = recorder.write("d", &mut trace).expect("memory");
    assert!(written.lost == 0 && written.events > 300, "{written:?}");
    let sums = sums(&trace);
    assert_eq!((sums.not_live, sums.live.len()), (0, 0));
    checker.close().expect("nothing is live");
    recorder.close().map_err(|in_use| in_use.error).expect("nothing is live");
}

#[test]
fn a_checker_that_is_closed_or_dropped_as_the_application_reenters_stays() {
    for closes in [true, false] {
        let (bridge, owner) = (bare(), OwnerId::fresh());
        let behind = bridge.as_ref().raw();
        let slot = RefCell::new(Some(checker(&HOST)));
        let driver = Driver(*watch(slot.borrow().as_ref().expect("there"), application(&behind), owner).raw());
        let told = RefCell::new(String::new());
        let hook = |request| {
            let Some(checker) = is_request(request).then(|| slot.take()).flatten() else {
                return;
            };
            if let Err(in_use) = if closes {
                checker.close()
            } else {
                drop(checker);
                Ok(())
            } {
                told.replace(in_use.to_string());
                slot.replace(Some(in_use.value));
            }
        };
        let block = with_hook(1, &hook, || driver.alloc(100, 8, Scope::Object));
        driver.free(block);
        if closes {
            assert_eq!(told.take(), "a callback runs on this thread: close again when it has returned");
            slot.take().expect("it came back").close().expect("nothing is live, and no callback runs");
        } else {
            // It was leaked, and goes on watching.
            assert!(!block.is_null() && !driver.alloc(0, 8, Scope::Object).is_null());
        }
    }
}

fn names(count: usize) -> Vec<&'static str> {
    (0..count).map(|nth| &*Box::leak(format!("vkNamed{nth}").into_boxed_str())).collect()
}

#[test]
fn findings_whose_memory_reenters_the_checker_are_told_once_each() {
    let (bridge, checker, owner) = (bare(), checker(&HOST), OwnerId::fresh());
    let driver = Driver(*watch(&checker, bridge.as_ref().raw(), owner).raw());
    let names = names(4000);
    let used = Cell::new(0);
    let misalign = |count: usize| {
        for name in &names[used.get()..used.get() + count] {
            bracket(&checker, owner, name, || assert!(driver.alloc(64, 3, Scope::Object).is_null()));
        }
        used.set(used.get() + count);
    };
    misalign(300);
    let hook = |request| {
        if is_request(request) && used.get() < 3000 {
            misalign(100);
        }
    };
    let counted = with_hook(1, &hook, || {
        let findings = checker.findings(Scoped::new(&HOST, Scope::Object)).expect("memory");
        findings.iter().map(|found| (found.command, found.count)).collect::<Vec<_>>()
    });
    let counted: Vec<_> = counted.into_iter().filter(|(name, _)| name.starts_with("vkNamed")).collect();
    assert!(used.get() >= 400, "it called back");
    assert!(counted.iter().all(|(_, count)| *count == 1), "{:?}", counted.iter().find(|(_, count)| *count != 1));
    assert!(names[..300].iter().all(|name| counted.contains(&(name, 1))), "{} of {}", counted.len(), used.get());
    checker.close().expect("nothing is live");
}

/// Callbacks that return an address of no memory: no checker reads there.
fn addresses() -> RawCallbacks {
    unsafe extern "system" fn next(_: *mut c_void, _: usize, _: usize, _: RawScope) -> *mut c_void {
        static NEXT: AtomicUsize = AtomicUsize::new(1 << 20);
        std::ptr::without_provenance_mut(NEXT.fetch_add(64, Relaxed))
    }
    unsafe extern "system" fn moved(
        data: *mut c_void,
        _: *mut c_void,
        size: usize,
        align: usize,
        scope: RawScope,
    ) -> *mut c_void {
        // SAFETY: it reads nothing.
        unsafe { next(data, size, align, scope) }
    }
    unsafe extern "system" fn nothing(_: *mut c_void, _: *mut c_void) {}
    RawCallbacks {
        p_user_data: std::ptr::null_mut(),
        pfn_allocation: Some(next),
        pfn_reallocation: Some(moved),
        pfn_free: Some(nothing),
        pfn_internal_allocation: None,
        pfn_internal_free: None,
    }
}

#[test]
fn blocks_that_are_left_are_all_told_of_though_the_memory_reenters_the_checker() {
    let (checker, left, other) = (checker(&HOST), OwnerId::fresh(), OwnerId::fresh());
    let [left_of, others] = [left, other].map(|owner| Driver(*watch(&checker, addresses(), owner).raw()));
    let names = names(1500);
    let blocks: Vec<_> = names
        .iter()
        .map(|name| {
            let mut block = std::ptr::null_mut();
            bracket(&checker, left, name, || block = left_of.alloc(64, 8, Scope::Object));
            block
        })
        .collect();
    checker.created("VkBuffer", 7, Some(left));
    // A table that is large because of others is rebuilt smaller without them.
    let rest = RefCell::new((0..10_000).map(|_| others.alloc(8, 8, Scope::Object)).collect::<Vec<_>>());
    let times = Cell::new(0);
    let hook = |request| {
        if is_request(request) {
            times.set(times.get() + 1);
        }
        if times.get() == 4 {
            rest.take().into_iter().for_each(|block| others.free(block));
            (0..20_000).for_each(|_| others.free(others.alloc(8, 8, Scope::Object)));
        }
    };
    with_hook(1, &hook, || checker.destroyed("VkBuffer", 7, Some(left), "vkDestroyBuffer"));
    assert!(times.get() > 4 && rest.take().is_empty(), "it called back");
    let told = found(&checker)
        .into_iter()
        .filter(|(kind, owner, _)| (*kind, *owner) == (FindingKind::LiveAfterDestroy, Some(left)));
    assert_eq!(told.map(|(.., count)| count).sum::<u64>(), 1500);
    blocks.iter().for_each(|block| left_of.free(*block));
    checker.close().expect("nothing is live");
}

#[test]
fn what_is_left_is_found_though_the_memory_moves_a_block_at_each_request() {
    let (checker, owner) = (checker(&HOST), OwnerId::fresh());
    let driver = Driver(*watch(&checker, addresses(), owner).raw());
    let names = names(100);
    let blocks: Vec<_> = names
        .iter()
        .map(|name| {
            let mut block = std::ptr::null_mut();
            bracket(&checker, owner, name, || block = driver.alloc(64, 8, Scope::Object));
            block
        })
        .collect();
    let (moving, times) = (Cell::new(blocks[0]), Cell::new(0));
    let hook = |request| {
        if is_request(request) && times.get() < 5000 {
            times.set(times.get() + 1);
            moving.set(driver.realloc(moving.get(), 64, 8, Scope::Object));
        }
    };
    let left = with_hook(1, &hook, || {
        let findings = checker.findings_at_end(Scoped::new(&HOST, Scope::Object)).expect("memory");
        let left = findings.iter().filter(|found| found.kind == FindingKind::LiveAtEnd);
        left.map(|found| found.count).sum::<u64>()
    });
    assert!((1..1000).contains(&times.get()), "{} requests", times.get());
    assert_eq!(left, 100);
    driver.free(moving.get());
    blocks[1..].iter().for_each(|block| driver.free(*block));
    checker.close().expect("nothing is live");
}

#[test]
fn the_same_callbacks_are_compatible_though_wrapping_reenters_the_checker() {
    let (bridge, checker) = (bare(), checker(&HOST));
    let (inner, owners) = (bridge.as_ref().raw(), [OwnerId::fresh(), OwnerId::fresh()]);
    let within = Cell::new(None);
    let hook = |request| {
        if is_request(request) && within.get().is_none() {
            within.set(Some(watch(&checker, inner, owners[1])));
        }
    };
    let first = with_hook(1, &hook, || watch(&checker, inner, owners[0]));
    let second = within.get().expect("it called back");
    bracket(&checker, owners[0], "vkCreateBuffer", || {
        let block = Driver(*first.raw()).alloc(64, 8, Scope::Object);
        Driver(*second.raw()).free(block);
    });
    let through_other = found(&checker).into_iter().find(|(kind, ..)| *kind == FindingKind::FreedThroughOther);
    assert_eq!((through_other, checker.live_blocks()), (None, 0));
    checker.close().expect("nothing is live");
}

#[test]
fn memory_that_reenters_without_end_is_refused_and_not_followed() {
    let (bridge, checker, owner) = (bare(), checker(&HOST), OwnerId::fresh());
    let recorder = Recorder::new(&HOST).expect("memory");
    // SAFETY: the bridge outlives both, and they are closed with no callback running.
    let tap = unsafe { recorder.tap(1, bridge.as_ref().raw()) }.expect("memory");
    let driver = Driver(*watch(&checker, *tap.raw(), owner).raw());
    let blocks = RefCell::new(Vec::new());
    let (most, depth) = (Cell::new(0), Cell::new(0));
    let take = || {
        let block = driver.alloc(8, 8, Scope::Object);
        blocks.borrow_mut().extend((!block.is_null()).then_some(block));
    };
    // Every user of the host, the tables, the log and the bridge, is called back.
    let hook = |request: Request| {
        // A bridge requests 24 bytes: to call back without end would be the application's own mistake.
        if !is_request(request) || request.bytes < 100 {
            return;
        }
        depth.set(depth.get() + 1);
        most.set(most.get().max(depth.get()));
        take();
        depth.set(depth.get() - 1);
    };
    bracket(&checker, owner, "vkCreateBuffer", || with_hook(u32::MAX, &hook, || (0..2000).for_each(|_| take())));
    assert!((2..20).contains(&most.get()), "{most:?}");
    assert!(blocks.borrow().len() >= 2000, "only what was nested too deep was refused");
    let mut trace = String::new();
    let written = recorder.write("d", &mut trace).expect("memory");
    assert!(written.lost > 0 && written.events >= 2000, "{written:?}");
    assert_eq!(checker.live_blocks(), blocks.borrow().len());
    blocks.take().into_iter().for_each(|block| driver.free(block));
    checker.close().expect("nothing is live");
    recorder.close().map_err(|in_use| in_use.error).expect("nothing is live");
}

#[test]
fn a_command_that_reenters_the_checker_is_judged_by_itself_also_where_it_unwinds() {
    let (bridge, checker, owner) = (bare(), checker(&HOST), OwnerId::fresh());
    let driver = Driver(*watch(&checker, bridge.as_ref().raw(), owner).raw());
    let left = RefCell::new(Vec::new());
    let leave = || left.borrow_mut().push(driver.alloc(64, 8, Scope::Command));
    bracket(&checker, owner, "vkCreateImage", || {
        leave();
        bracket(&checker, owner, "vkCreateBuffer", || {
            leave();
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                bracket(&checker, owner, "vkDestroyImage", || {
                    leave();
                    std::panic::resume_unwind(Box::new(()));
                });
            }));
            assert!(unwound.is_err());
            assert_eq!(current_command().map(|command| command.name), Some("vkCreateBuffer"));
        });
        driver.free(left.borrow_mut().remove(0));
    });
    assert!(current_command().is_none());
    let mut told = checker.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory");
    told.retain(|found| found.kind == FindingKind::CommandBlockLeft);
    let told: Vec<_> = told.iter().map(|found| (found.command, found.count)).collect();
    assert_eq!(
        told,
        [("vkCreateBuffer", 1), ("vkDestroyImage", 1)],
        "the inner ones; the outer one gave its block back"
    );
    left.take().into_iter().for_each(|block| driver.free(block));
    checker.close().expect("nothing is live");
}
