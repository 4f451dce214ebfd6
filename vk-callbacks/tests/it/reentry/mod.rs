//! Backings, memory, sinks and applications that call back, on the same thread, what is in the middle of calling them.
//! `docs/design/reentry/vk-callbacks.md` lists every such place.

mod bridges;
mod checkers;
mod objects;
mod readers;
mod recorders;

use std::alloc::System;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::common::{COMPLETE, Driver, SYSTEM, assert_filled, fill, sums};
use alloc_core::{Context, ContextOptions, FromGlobalAlloc, Scope, Scoped};
use testkit::{Call, HookedAllocator, Moment, Request, run_hook, with_hook};
use vk_callbacks::bridge::{BareBridge, leaked_bridges};
use vk_callbacks::check::{Checked, CheckedOwner, FindingKind};
use vk_callbacks::command::{BracketCoverage, current_command, in_callback};
use vk_callbacks::raw::{RawCallbacks, RawScope};
use vk_callbacks::{
    Bridge, CallbackAllocator, Checker, Command, FallbackChain, Judge, MultiAlloc, Object, OwnerId, Owners, Recorder,
    TraceReader,
};

type Hooked = HookedAllocator<FromGlobalAlloc<System>>;

/// Runs the hook at each request.
static HOST: Hooked = HookedAllocator::new(FromGlobalAlloc::SYSTEM);

fn bare() -> Pin<Box<BareBridge<&'static Hooked>>> {
    Box::pin(BareBridge::new(&HOST))
}

fn is_request(request: Request) -> bool {
    request.moment == Moment::Before
        && matches!(request.call, Call::Allocate | Call::AllocateZeroed | Call::Grow | Call::Other(_))
}

/// Takes a block, makes it larger and smaller, and frees it.
fn use_callbacks(driver: Driver) {
    let block = driver.alloc(40, 8, Scope::Command);
    fill(block, 40, 3);
    let block = driver.realloc(block, 400, 8, Scope::Command);
    assert_filled(block, 40, 3);
    let block = driver.realloc(block, 4, 8, Scope::Command);
    assert_filled(block, 4, 3);
    driver.free(block);
}

/// A driver that holds blocks over a whole round of requests.
fn hold_blocks(driver: Driver) {
    for align in [8, 256] {
        let block = driver.alloc(100, align, Scope::Object);
        fill(block, 100, 9);
        let block = driver.realloc(block, 5000, align, Scope::Object);
        assert_filled(block, 100, 9);
        let other = driver.alloc(1, 1, Scope::Object);
        let block = driver.realloc(block, 10, align, Scope::Object);
        assert_filled(block, 10, 9);
        driver.free(other);
        driver.free(block);
    }
}

/// Callbacks of an application that is no bridge: its functions run the hook, and have the rest done by the callbacks
/// that the user data points at.
fn application(inner: &RawCallbacks) -> RawCallbacks {
    RawCallbacks {
        p_user_data: std::ptr::from_ref(inner).cast_mut().cast(),
        pfn_allocation: Some(allocation),
        pfn_reallocation: Some(reallocation),
        pfn_free: Some(free),
        pfn_internal_allocation: None,
        pfn_internal_free: None,
    }
}

fn application_runs(call: &'static str) {
    run_hook(Request { call: Call::Other(call), moment: Moment::Before, bytes: 0 });
}

/// # Safety
/// `user_data` points at callbacks.
unsafe fn behind(user_data: *mut c_void) -> Driver {
    // SAFETY: this function's contract: `user_data` points at callbacks.
    Driver(unsafe { *user_data.cast::<RawCallbacks>() })
}

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    application_runs("pfnAllocation");
    // SAFETY: as `application` says.
    unsafe { behind(user_data) }.alloc_raw(size, align, scope).cast()
}

unsafe extern "system" fn reallocation(
    user_data: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    application_runs("pfnReallocation");
    // SAFETY: as `application` says.
    unsafe { behind(user_data) }.realloc_raw(original.cast(), size, align, scope).cast()
}

unsafe extern "system" fn free(user_data: *mut c_void, memory: *mut c_void) {
    application_runs("pfnFree");
    // SAFETY: as `application` says.
    unsafe { behind(user_data) }.free(memory.cast());
}

fn checker(memory: &'static Hooked) -> Checker<'static> {
    Checker::new(memory, COMPLETE).expect("memory")
}

fn watch(checker: &Checker<'_>, inner: RawCallbacks, owner: OwnerId) -> Checked {
    // SAFETY: the tests keep what is behind, and close the checker last.
    unsafe { checker.wrap(inner, CheckedOwner::new(owner, "VkBuffer")) }.expect("memory")
}

fn bracket(checker: &Checker<'_>, owner: OwnerId, name: &'static str, body: impl FnOnce()) {
    let owners = Owners { object: Some(owner), ..Owners::default() };
    checker.run(Command::new(name, owners, BracketCoverage::Complete), |_| body());
}

/// Kinds of finding, with their owner and how often.
fn found(checker: &Checker<'_>) -> Vec<(FindingKind, Option<OwnerId>, u64)> {
    let findings = checker.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("memory");
    findings.iter().map(|found| (found.kind, found.owner, found.count)).collect()
}
