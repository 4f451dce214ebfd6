//! What other threads, and functions of the user's, do while a context is released.

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use alloc_core::FromGlobalAlloc;
use gpu_suballoc::cache::{CacheLimits, CompiledShader, ShaderKey};
use gpu_suballoc::context::VulkanHandles;
use gpu_suballoc::{AllocatorOptions, DeviceContexts};
use mock_device::{MockDevice, MockProfile};

use super::scene::{SYSTEM, SceneHost, SceneMemory, acquire, info, kernel, try_acquire};

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

/// Another context's thread asks for the kernel all the time. A release that succeeds leaves nothing of the context's: no kernel that
/// somebody holds, and so no block that goes through its callbacks later.
#[test]
fn h16_h26_a_strict_release_and_a_hold_never_pass_one_another() {
    let host = SceneHost::new();
    application!(memory, driver, home);
    let stays = acquire(&home, &memory, &driver);
    let key = ShaderKey::kernel(stays.shaders().device(), 0);
    let (over, mut refused) = (AtomicBool::new(false), 0);
    let found = std::thread::scope(|threads| {
        let asks = threads.spawn(|| {
            let mut found = 0;
            while !over.load(SeqCst) {
                found += u64::from(
                    home.cache()
                        .get(key)
                        .is_some_and(|held| held.pipelines().len() == 2),
                );
            }
            found
        });
        // Keeps the cache's lock busy, so that there is time between one step under it and the next.
        threads.spawn(|| {
            while !over.load(SeqCst) {
                let stats = home.cache().stats();
                assert!(stats.entries <= KERNELS);
                std::thread::yield_now();
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
                        assert_eq!(
                            (gone.shaders, gone.held, host.live()),
                            (KERNELS, 0, 0),
                            "nothing of it is left"
                        );
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
    assert!(
        found > 0,
        "the other thread found it while it was there; {refused} releases were refused"
    );
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

type Mock = MockDevice<FromGlobalAlloc<System>>;
const HANDLES: VulkanHandles = VulkanHandles {
    instance: 1,
    physical_device: 2,
    device: 3,
};

#[test]
fn h16_a_shader_that_unwinds_in_a_release_takes_its_context_along_and_no_other() {
    let (memory, mock) = (SceneMemory::new(), Mock::new(MockProfile::IntelUma, SYSTEM));
    let home = DeviceContexts::<Wild, ()>::new(memory.shared.handle(), CacheLimits::NONE).unwrap();
    let make = |key: u64, unwinds| {
        let (own, options) = (memory.own.handle(), AllocatorOptions::default());
        // SAFETY: the mock outlives it; nothing runs on it.
        let context = unsafe { home.acquire(HANDLES, own, options, |_| Ok(&mock)) }.unwrap();
        let shaders = context.shaders();
        let compiled = shaders.get_or_compile(ShaderKey::kernel(shaders.device(), key), || {
            let value = Wild(unwinds);
            Ok(CompiledShader { value, bytes: 1 })
        });
        drop(compiled.unwrap());
        context
    };
    let (wild, tame) = (make(1, true), make(2, false));
    assert!(catch_unwind(AssertUnwindSafe(|| wild.release())).is_err());
    assert_eq!(tame.shaders().stats().entries, 1);
    assert_eq!(tame.release().unwrap().shaders, 1);
    drop(home);
    memory.end();
    assert!(mock.live_counts().memory == 0 && mock.violations().is_empty());
}
