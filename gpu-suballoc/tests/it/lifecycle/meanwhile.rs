//! What other threads, and functions of the user's, do while a context is released.

use super::*;

/// Says that it is over, also where this thread unwinds.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

const ROUNDS: usize = if cfg!(miri) { 3 } else { 800 };
/// The last of them to be looked at is the one that is asked for.
const KERNELS: u64 = if cfg!(miri) { 2 } else { 8 };

/// Another context's thread asks for the kernel all the time. A release that succeeds leaves nothing of the context's:
/// no kernel that somebody holds, and so no block that goes through its callbacks later.
#[test]
fn h16_h26_a_strict_release_and_a_hold_never_pass_one_another() {
    let host = SceneHost::new();
    application!(memory, driver, home);
    let stays = acquire(&home, &memory, &driver);
    let key = ShaderKey::kernel(stays.shaders().device(), 0);
    let (over, mut refused) = (AtomicBool::new(false), 0);
    let found = thread::scope(|threads| {
        let asks = threads.spawn(|| {
            let mut found = 0;
            while !over.load(SeqCst) {
                found += u64::from(home.cache().get(key).is_some_and(|held| held.pipelines().len() == 2));
            }
            found
        });
        // Keeps the cache's lock busy, so that there is time between one step under it and the next.
        threads.spawn(|| {
            while !over.load(SeqCst) {
                let stats = home.cache().stats();
                assert!(stats.entries <= KERNELS);
                thread::yield_now();
            }
        });
        let end = Over(&over);
        for _ in 0..ROUNDS {
            let context = try_acquire(&home, info(&memory, &driver, Some(&host))).unwrap();
            (0..KERNELS).for_each(|number| drop(kernel(&context, number)));
            let mut goes = Some(context);
            while let Some(context) = goes.take() {
                match context.release() {
                    Ok(gone) => {
                        assert_eq!((gone.shaders, gone.held, host.live()), (KERNELS, 0, 0), "nothing of it is left");
                    }
                    Err(held) => {
                        assert_eq!(held.error.shaders, 1);
                        refused += 1;
                        goes = Some(held.value);
                    }
                }
            }
        }
        drop(end);
        asks.join().unwrap()
    });
    assert!(found > 0, "the other thread found it while it was there; {refused} releases were refused");
    stays.release().unwrap();
}

/// A shader whose destructor unwinds, if it is told to.
struct Wild(bool);

impl Drop for Wild {
    fn drop(&mut self) {
        if self.0 {
            // Quietly: no hook is run.
            resume_unwind(Box::new("planted"));
        }
    }
}

type Mock = MockDevice;
type Table<'m> = ContextTable<&'m Mock, Wild, ()>;

const HANDLES: VulkanHandles = VulkanHandles { instance: 1, physical_device: 2, device: 3 };

fn with_table(run: impl FnOnce(&Table<'_>, &dyn Fn(bool) -> DeviceContextId)) {
    let (memory, mock) = (SceneMemory::new(), Mock::new(IntelUma));
    let home = DeviceContexts::<Wild, ()>::new(memory.shared.handle(), CacheLimits::NONE).unwrap();
    let table = Table::new(memory.shared.handle());
    let make = |unwinds| {
        let context = || -> Result<DeviceContext<&Mock, Wild, ()>, ContextError> {
            // SAFETY: the mock outlives it; nothing runs on it.
            unsafe { home.acquire(HANDLES, memory.own.handle(), AllocatorOptions::default(), |_| Ok(&mock)) }
        };
        let id = table.acquire(None, HANDLES, context).unwrap();
        let compiled = table.with(id, |context| {
            let shaders = context.shaders();
            let key = ShaderKey::kernel(shaders.device(), id.as_raw());
            shaders.get_or_compile(key, || Ok(CompiledShader { value: Wild(unwinds), bytes: 1 })).map(drop)
        });
        compiled.unwrap().unwrap();
        id
    };
    run(&table, &make);
    drop((table, home));
    memory.end();
    mock.assert_ended();
}

fn unwinds<R>(work: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn h16_a_shader_that_unwinds_in_a_release_takes_its_context_along_and_no_other() {
    with_table(|table, make| {
        let (wild, tame) = (make(true), make(false));
        table.set_default(Some(wild)).unwrap();
        assert!(unwinds(|| table.release(Some(wild), HANDLES)));
        assert_eq!(table.release(Some(wild), HANDLES), Err(ContextError::Released), "it went all the same");
        assert_eq!(table.dispatch(ptr::null_mut(), true, |_| ()), Err(ContextError::NoContext), "and is no default");
        assert_eq!(table.with(tame, DeviceContext::id), Ok(tame));
        // Its room is another one's: there are 64 in all.
        let more = Vec::from_iter((1..64).map(|_| make(false)));
        for id in more.into_iter().chain([tame]) {
            assert_eq!(table.release(Some(id), HANDLES).unwrap().unwrap().shaders, 1);
        }
    });
}

static RELEASES: AtomicU64 = AtomicU64::new(0);

fn answer(user: *mut c_void, _: bool) -> Result<Option<DeviceContextId>, ContextError> {
    if user.is_null() {
        resume_unwind(Box::new("planted"));
    }
    Ok(Some(DeviceContextId::from_raw(user.addr() as u64)))
}

fn unwind(_: *mut c_void, _: Option<DeviceContextId>) {
    RELEASES.fetch_add(1, SeqCst);
    resume_unwind(Box::new("planted"));
}

#[test]
fn h18_h22_handlers_that_unwind_leave_no_dispatch_behind() {
    with_table(|table, make| {
        let id = make(false);
        table.set_context_handlers(Some(ContextHandlers { acquire_context: answer, release_context: unwind })).unwrap();
        let user = ptr::without_provenance_mut(usize::try_from(id.as_raw()).unwrap());
        assert!(unwinds(|| table.dispatch(ptr::null_mut(), true, |_| panic!("nothing runs"))));
        assert_eq!(RELEASES.load(SeqCst), 0, "what was not acquired is not released");
        let mut ran = false;
        assert!(unwinds(|| table.dispatch(user, true, |context| ran = context.is_some())));
        assert_eq!((ran, RELEASES.load(SeqCst)), (true, 1));
        // Nobody is said to have one: handlers may be changed, the context dispatched and released.
        assert!(table.set_context_handlers(None).unwrap().is_some());
        table.set_default(Some(id)).unwrap();
        assert_eq!(table.dispatch(ptr::null_mut(), true, |context| context.map(|context| context.id())), Ok(Some(id)));
        table.release(Some(id), HANDLES).unwrap();
    });
}
