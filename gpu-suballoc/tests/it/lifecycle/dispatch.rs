//! What a dispatch locks: H6, H18. What it gets, H19 to H23, is in `lifecycle_model`.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use gpu_suballoc::ash::AshContextTable;
use gpu_suballoc::context::{ContextError, ContextHandlers, DeviceContextId};

use super::fake::LifecycleDriver;
use super::scene::{SceneMemory, acquire, handles};

/// What the handlers below answer and count; their user data.
struct Switch {
    id: Option<DeviceContextId>,
    refuses: bool,
    acquired: AtomicU64,
    released: AtomicU64,
}

impl Switch {
    fn of(id: Option<DeviceContextId>) -> Self {
        Self {
            id,
            refuses: false,
            acquired: AtomicU64::new(0),
            released: AtomicU64::new(0),
        }
    }

    fn user(&self) -> *mut c_void {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn counts(&self) -> (u64, u64) {
        (self.acquired.load(SeqCst), self.released.load(SeqCst))
    }
}

fn acquire_context(user: *mut c_void, _: bool) -> Result<Option<DeviceContextId>, ContextError> {
    assert_eq!(alloc_core::held_state_locks(), 0);
    // SAFETY: every dispatch below is asked with a switch.
    let switch = unsafe { &*user.cast::<Switch>() };
    if switch.refuses {
        return Err(ContextError::NoContext);
    }
    switch.acquired.fetch_add(1, SeqCst);
    Ok(switch.id)
}

fn release_context(user: *mut c_void, id: Option<DeviceContextId>) {
    assert_eq!(alloc_core::held_state_locks(), 0);
    // SAFETY: as above.
    let switch = unsafe { &*user.cast::<Switch>() };
    assert_eq!(id, switch.id, "the one that was acquired");
    switch.released.fetch_add(1, SeqCst);
}

const OWN: ContextHandlers = ContextHandlers {
    acquire_context,
    release_context,
};

fn with_table(run: impl FnOnce(&AshContextTable, DeviceContextId, &LifecycleDriver, &SceneMemory)) {
    let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
    let (home, table) = (memory.home(), memory.table());
    let id = table
        .acquire(None, handles(&driver), || {
            Ok(acquire(&home, &memory, &driver))
        })
        .unwrap();
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
                table.dispatch(ptr::null_mut(), true, |context| context
                    .map(|context| context.id())),
                Ok(Some(id))
            );
        }
        assert_eq!((seen(), driver.log()), (before, vec![]));
    });
}

#[test]
fn h18_a_second_dispatch_waits_for_the_first_and_both_are_released() {
    with_table(|table, id, _, _| {
        let switch = Switch::of(Some(id));
        table.set_context_handlers(Some(OWN)).unwrap();
        let (inside, user) = (AtomicU64::new(0), switch.user().expose_provenance());
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..500 {
                        let dispatch = table.dispatch(
                            ptr::with_exposed_provenance_mut(user),
                            true,
                            |context| {
                                assert!(context.is_some());
                                assert_eq!(inside.fetch_add(1, SeqCst), 0, "one at a time");
                                std::hint::spin_loop();
                                inside.fetch_sub(1, SeqCst);
                            },
                        );
                        dispatch.unwrap();
                    }
                });
            }
        });
        assert_eq!(switch.counts(), (2000, 2000));
        // A context that is none, and a dispatch that unwinds, are released too.
        let none = Switch::of(Some(DeviceContextId::from_raw(u64::MAX)));
        assert_eq!(
            table.dispatch(none.user(), true, |_| ()),
            Err(ContextError::Released)
        );
        assert_eq!(none.counts(), (1, 1));
        let unwinds = std::panic::AssertUnwindSafe(|| {
            table.dispatch(switch.user(), true, |_| panic!("on purpose"))
        });
        assert!(std::panic::catch_unwind(unwinds).is_err());
        assert_eq!(switch.counts(), (2001, 2001));
        assert!(
            table
                .dispatch(switch.user(), true, |context| context.is_some())
                .unwrap(),
            "and nobody has it"
        );
    });
}

/// Runs it on a thread of its own, which is left behind where it does not end.
fn ends(run: impl FnOnce() + Send + 'static) {
    let (ended, end) = channel();
    std::thread::spawn(move || {
        run();
        ended.send(()).expect("somebody listens");
    });
    end.recv_timeout(Duration::from_secs(20))
        .expect("it ends, and without a panic");
}

#[test]
fn ge12_a_dispatch_within_a_dispatch_of_its_thread_is_refused() {
    ends(|| {
        with_table(|table, id, _, _| {
            table.set_default(Some(id)).unwrap();
            let nested = table.dispatch(ptr::null_mut(), true, |context| {
                let context = context.expect("the default");
                assert_eq!(context.dispatch(|_| ()), Err(ContextError::NestedDispatch));
                assert_eq!(
                    table.dispatch(ptr::null_mut(), true, |_| ()),
                    Err(ContextError::NestedDispatch)
                );
                table.with(id, |same| same.dispatch(|_| ())).unwrap()
            });
            assert_eq!(nested, Ok(Err(ContextError::NestedDispatch)));
            assert_eq!(
                table.dispatch(ptr::null_mut(), true, |_| ()),
                Ok(()),
                "and it is over"
            );
        });
    });
}

/// Another context's dispatch may be nested, and other threads wait as before.
#[test]
fn ge12_dispatches_of_two_contexts_nest() {
    ends(|| {
        let (memory, driver) = (SceneMemory::new(), LifecycleDriver::new());
        let home = memory.home();
        let [one, other] = [(); 2].map(|()| acquire(&home, &memory, &driver));
        let inside = AtomicU64::new(0);
        std::thread::scope(|threads| {
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
        let unwinds = std::panic::AssertUnwindSafe(|| {
            context.dispatch(|_| std::panic::resume_unwind(Box::new("on purpose")))
        });
        assert!(std::panic::catch_unwind(unwinds).is_err());
        std::thread::scope(|threads| {
            threads.spawn(|| assert_eq!(context.dispatch(|_| 7), Ok(7)));
        });
        assert_eq!(context.dispatch(|_| 8), Ok(8));
        drop(context);
    });
}
