//! With the setting `fail_application` requests of the program's own callbacks are refused on purpose.
//!
//! ```text
//!   driver -> checker -> FailingCallbacks -> the program's callbacks
//!                          refused by the plan: NULL, and the program is not asked
//! ```
//!
//! A record lives as long as the command that the program passed callbacks to and the objects that it created, for
//! which it may be called at any time.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use alloc_core::Scope;
use vk_callbacks::CallbackSink;
use vk_callbacks::raw::{RawCallbacks, RawNotice, RawRequest};
use vk_report::guard_run::Layers;

use crate::guarding::faults;
use crate::record::{free_record, new_record};
use crate::settings::settings;

struct FailingCallbacks {
    inner: RawCallbacks,
    kind: &'static str,
    layers: &'static Layers,
    references: AtomicUsize,
}

pub(crate) struct FailingRef(NonNull<FailingCallbacks>);

// SAFETY: the record is only shared, may be called on any thread, and its count is atomic.
unsafe impl Send for FailingRef {}

impl FailingRef {
    pub(crate) fn new(raw: RawCallbacks, kind: &'static str) -> Option<Self> {
        if !settings().fail_application {
            return None;
        }
        let record =
            new_record(FailingCallbacks { inner: raw, kind, layers: faults()?, references: AtomicUsize::new(1) });
        record.map(Self)
    }

    pub(crate) fn raw(&self) -> RawCallbacks {
        let sink = self.0.as_ptr().cast();
        RawCallbacks::of_sink::<FailingCallbacks>(sink).only_those_of(&self.record().inner)
    }

    fn record(&self) -> &FailingCallbacks {
        // SAFETY: from `new_record`, and freed with the last reference.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for FailingRef {
    fn clone(&self) -> Self {
        self.record().references.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for FailingRef {
    fn drop(&mut self) {
        if self.record().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: from `new_record`; this was the last reference.
            unsafe { free_record(self.0) };
        }
    }
}

impl FailingCallbacks {
    fn admits(&self, request: RawRequest) -> bool {
        let scope = u32::try_from(request.scope).ok().and_then(Scope::from_raw);
        self.layers.admits(self.kind, request.size, scope.unwrap_or(Scope::Object))
    }
}

impl CallbackSink for FailingCallbacks {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        if !self.admits(request) {
            return ptr::null_mut();
        }
        // SAFETY: the same call.
        unsafe { self.inner.allocation(request) }
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        if !self.admits(request) {
            return ptr::null_mut();
        }
        // SAFETY: the same call.
        unsafe { self.inner.reallocation(original, request) }
    }

    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the same call.
        unsafe { self.inner.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        // SAFETY: the same call.
        unsafe { self.inner.notification(notice) }
    }
}
