//! Requests of the program's own callbacks that are refused on purpose, with the setting `fail_application`.
//!
//! ```text
//!   driver -> checker -> FailingCallbacks -> the program's callbacks
//!                          refused by the plan: NULL, and the program is not asked
//! ```
//!
//! Each command that the program passes callbacks to has a record. It lives as long as the command and the objects that it created, for
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

/// Callbacks of the program, behind the plan.
struct FailingCallbacks {
    inner: RawCallbacks,
    kind: &'static str,
    layers: &'static Layers,
    /// The command, and objects that it created.
    references: AtomicUsize,
}

/// A reference to such callbacks, which the driver calls in place of the program's.
pub(crate) struct FailingRef(NonNull<FailingCallbacks>);

impl FailingRef {
    /// For this kind of object. `None` where the plan does not cover them, or without memory.
    pub(crate) fn new(raw: RawCallbacks, kind: &'static str) -> Option<Self> {
        if !settings().fail_application {
            return None;
        }
        let record = new_record(FailingCallbacks {
            inner: raw,
            kind,
            layers: faults()?,
            references: AtomicUsize::new(1),
        });
        record.map(Self)
    }

    /// Valid until the last reference is dropped.
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
            // Synchronises with the other threads' releases.
            fence(Ordering::Acquire);
            // SAFETY: from `new_record`; this was the last reference.
            unsafe { free_record(self.0) };
        }
    }
}

impl FailingCallbacks {
    fn admits(&self, request: RawRequest) -> bool {
        let scope = u32::try_from(request.scope).ok().and_then(Scope::from_raw);
        self.layers
            .admits(self.kind, request.size, scope.unwrap_or(Scope::Object))
    }
}

impl CallbackSink for FailingCallbacks {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        if !self.admits(request) {
            return ptr::null_mut();
        }
        // SAFETY: the same call, of the program's callbacks.
        unsafe { self.inner.allocation(request) }
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        // To size 0 it is a free. A refused one leaves the block as it is (V16).
        if !self.admits(request) {
            return ptr::null_mut();
        }
        // SAFETY: the same call, of the program's callbacks.
        unsafe { self.inner.reallocation(original, request) }
    }

    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the same call, of the program's callbacks.
        unsafe { self.inner.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        // SAFETY: the same call, of the program's callbacks.
        unsafe { self.inner.notification(notice) }
    }
}
