//! What a dispatch locks: H6, GE12. What it gets, H19 to H23, is in `lifecycle_model`.

use super::*;

fn with_table(run: impl FnOnce(&AshContextTable, DeviceContextId, &LifecycleDriver, &SceneMemory)) {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let id = table.acquire(None, handles(&driver), || Ok(acquire(&home, &memory, &driver))).unwrap();
    run(&table, id, &driver, &memory);
    table.release(Some(id), handles(&driver)).unwrap();
}

#[test]
fn h6_a_dispatch_locks_and_does_nothing_else() {
    with_table(|table, id, driver, memory| {
        table.set_default(Some(id)).unwrap();
        driver.log();
        let seen = || (driver.loads(), memory.requests(), memory.bytes());
        let before = seen();
        for _ in 0..100 {
            assert_eq!(
                table.dispatch(ptr::null_mut(), true, |context| context.map(|context| context.id())),
                Ok(Some(id))
            );
        }
        assert_eq!((seen(), driver.log()), (before, vec![]));
    });
}

/// Runs it on a thread of its own, which is left behind where it does not end.
fn ends(run: impl FnOnce() + Send + 'static) {
    let (ended, end) = channel();
    thread::spawn(move || {
        run();
        ended.send(()).expect("somebody listens");
    });
    end.recv_timeout(Duration::from_secs(20)).expect("it ends, and without a panic");
}

#[test]
fn ge12_a_dispatch_within_a_dispatch_of_its_thread_is_refused() {
    ends(|| {
        with_table(|table, id, _, _| {
            table.set_default(Some(id)).unwrap();
            let nested = table.dispatch(ptr::null_mut(), true, |context| {
                let context = context.expect("the default");
                assert_eq!(context.dispatch(|_| ()), Err(ContextError::NestedDispatch));
                assert_eq!(table.dispatch(ptr::null_mut(), true, |_| ()), Err(ContextError::NestedDispatch));
                table.with(id, |same| same.dispatch(|_| ())).unwrap()
            });
            assert_eq!(nested, Ok(Err(ContextError::NestedDispatch)));
            assert_eq!(table.dispatch(ptr::null_mut(), true, |_| ()), Ok(()), "and it is over");
        });
    });
}

/// Another context's dispatch may be nested, and other threads wait as before.
#[test]
fn ge12_dispatches_of_two_contexts_nest() {
    ends(|| {
        let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
        let home = memory.home();
        let [one, other] = each(|| acquire(&home, &memory, &driver));
        let inside = AtomicU64::new(0);
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..200 {
                        let both = one.dispatch(|_| {
                            other.dispatch(|_| {
                                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                                inside.fetch_sub(1, SeqCst);
                            })
                        });
                        assert_eq!(both, Ok(Ok(())));
                    }
                });
            }
        });
        drop((one, other));
    });
}

/// There is nothing to forget: whatever a dispatch answers or keeps, and where it unwinds, the turn is over.
#[test]
fn ge12_what_a_dispatch_gives_out_does_not_keep_its_context_locked() {
    ends(|| {
        let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
        let home = memory.home();
        let context = acquire(&home, &memory, &driver);
        std::mem::forget(context.dispatch(|running| Box::new(running.id())).unwrap());
        let unwinds = AssertUnwindSafe(|| context.dispatch(|_| resume_unwind(Box::new("on purpose"))));
        assert!(catch_unwind(unwinds).is_err());
        thread::scope(|threads| {
            threads.spawn(|| assert_eq!(context.dispatch(|_| 7), Ok(7)));
        });
        assert_eq!(context.dispatch(|_| 8), Ok(8));
        drop(context);
    });
}
