//! The entry points: what a driver calls.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use alloc_core::Scope;
use testkit::Stage;
use vk_callbacks::CallbackSink;
use vk_callbacks::raw::{RawCallbacks, RawNotice, RawRequest};

use super::{Ground, Operation, nothing, takes};
use crate::common::{Driver, assert_filled, fill, raw};

const SCOPE: Scope = Scope::Object;

pub(super) fn operations<S: Stage>() -> Vec<Operation<S>> {
    vec![
        takes(&["Bridge::raw", "BareBridge::raw", "Tap::raw"], "pfnAllocation", |s, g| allocate(s, g, 100, 8)),
        takes(&["Bridge::raw"], "pfnAllocation of 0 bytes", |s, g| allocate(s, g, 0, 1)),
        takes(&["Bridge::raw"], "pfnAllocation aligned to a page", |s, g| allocate(s, g, 100, 4096)),
        takes(&["Bridge::raw"], "pfnReallocation of NULL", |s, g| {
            let block = s.attempt(|| g.picture(), || some(Driver(g.raw).realloc(std::ptr::null_mut(), 100, 8, SCOPE)));
            Driver(g.raw).free(block);
        }),
        takes(&["Bridge::raw"], "pfnReallocation to more", |s, g| reallocate(s, g, (100, 5000), 8)),
        takes(&["Bridge::raw"], "pfnReallocation to less", |s, g| reallocate(s, g, (5000, 100), 8)),
        takes(&["Bridge::raw"], "pfnReallocation to more, aligned", |s, g| reallocate(s, g, (100, 5000), 64)),
        takes(&["Bridge::raw"], "pfnReallocation to less, aligned", |s, g| reallocate(s, g, (5000, 100), 64)),
        takes(&["Bridge::raw"], "pfnReallocation of a block of 0 bytes", |s, g| reallocate(s, g, (0, 100), 8)),
        nothing(&["Bridge::raw"], "freeing takes nothing, nor do notifications", |s, g| {
            let driver = Driver(g.raw);
            let blocks = [driver.alloc(100, 8, SCOPE), driver.alloc(100, 256, SCOPE)];
            s.attempt_plainly(|| {
                assert!(driver.realloc(blocks[0], 0, 8, SCOPE).is_null());
                driver.free(blocks[1]);
                driver.free(std::ptr::null_mut());
                driver.internal(true, 4096, 0, raw(SCOPE));
                driver.internal(false, 4096, 0, raw(SCOPE));
            });
        }),
        takes(
            &[
                "RawCallbacks::of_sink",
                "RawCallbacks::only_those_of",
                "RawCallbacks::words",
                "CallbackSink::of_user_data",
                "CallbackSink::allocation",
                "CallbackSink::reallocation",
                "CallbackSink::free",
                "CallbackSink::notification",
            ],
            "through a sink of the program's own",
            through_a_sink,
        ),
    ]
}

/// Passes every call on, and counts the notifications.
struct PassingSink(RawCallbacks, AtomicU32);

impl CallbackSink for PassingSink {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        // SAFETY: this function's contract, which is the inner sink's as well.
        unsafe { self.0.allocation(request) }
    }
    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        // SAFETY: this function's contract, which is the inner sink's as well.
        unsafe { self.0.reallocation(original, request) }
    }
    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: this function's contract, which is the inner sink's as well.
        unsafe { self.0.free(block) }
    }
    unsafe fn notification(&self, notice: RawNotice) {
        self.1.fetch_add(1, Ordering::Relaxed);
        // SAFETY: this function's contract, which is the inner sink's as well.
        unsafe { self.0.notification(notice) }
    }
}

fn through_a_sink<S: Stage>(stage: &S, ground: &Ground<'_>) {
    let sink = PassingSink(ground.raw, AtomicU32::new(0));
    let here: *mut c_void = (&raw const sink).cast_mut().cast();
    // SAFETY: the address of the sink.
    let found = unsafe { PassingSink::of_user_data(here) };
    assert!(found.is_some_and(|found| std::ptr::eq(found, &raw const sink)));
    let all = RawCallbacks::of_sink::<PassingSink>(here);
    let driver = Driver(all.only_those_of(&ground.raw));
    let block = driver.alloc(100, 8, SCOPE);
    fill(block, 100, 7);
    let moved = stage.attempt(|| ground.picture(), || some(driver.realloc(block, 5000, 8, SCOPE)));
    assert_filled(moved, 100, 7);
    driver.free(moved);
    driver.internal(true, 4096, 0, raw(SCOPE));
    driver.internal(false, 4096, 0, raw(SCOPE));
    let told = sink.1.load(Ordering::Relaxed);
    assert_eq!(told, 2, "both notifications");
    let nothing = RawCallbacks {
        pfn_allocation: None,
        pfn_reallocation: None,
        pfn_free: None,
        pfn_internal_allocation: None,
        pfn_internal_free: None,
        ..ground.raw
    };
    let none = all.only_those_of(&nothing);
    let null = std::ptr::null_mut();
    assert_eq!(none.words(), [here, null, null, null, null, null]);
    assert!(!all.words().contains(&null));
}

fn some(block: *mut u8) -> Result<*mut u8, &'static str> {
    if block.is_null() { Err("NULL") } else { Ok(block) }
}

fn allocate<S: Stage>(stage: &S, ground: &Ground<'_>, size: usize, align: usize) {
    let driver = Driver(ground.raw);
    let block = stage.attempt(|| ground.picture(), || some(driver.alloc(size, align, SCOPE)));
    assert!(block.addr().is_multiple_of(align));
    driver.free(block);
}

fn reallocate<S: Stage>(stage: &S, ground: &Ground<'_>, (old, new): (usize, usize), align: usize) {
    let driver = Driver(ground.raw);
    let block = driver.alloc(old, align, SCOPE);
    fill(block, old, 7);
    let moved = stage.attempt(
        || {
            assert_filled(block, old, 7);
            ground.picture()
        },
        || some(driver.realloc(block, new, align, SCOPE)),
    );
    assert_filled(moved, old.min(new), 7);
    driver.free(moved);
}
