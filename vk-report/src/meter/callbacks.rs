use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use vk_callbacks::CallbackSink;
use vk_callbacks::raw::{RawCallbacks, RawNotice, RawRequest};

use super::{ThreadActivity, during};

/// The granted requests of drivers, all owners together.
#[derive(Debug, Default)]
pub struct RequestedBytes {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl RequestedBytes {
    fn add(&self, bytes: usize) {
        // Drivers call on any thread; a few nanoseconds do not matter here.
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Calls and bytes until now; exact when no request runs.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// The target of the callbacks' user data.
#[derive(Debug)]
pub struct CountingCallbacks<'a> {
    inner: RawCallbacks,
    requested: &'a RequestedBytes,
}

impl<'a> CountingCallbacks<'a> {
    /// Callbacks that forward to `inner`, and add granted requests to `requested`.
    #[must_use]
    pub const fn new(inner: RawCallbacks, requested: &'a RequestedBytes) -> Self {
        Self { inner, requested }
    }

    /// Callbacks that lead here, valid while `self` stays where it is and the inner ones are valid. They notify nobody.
    #[must_use]
    pub fn callbacks(&self) -> RawCallbacks {
        let here = ptr::from_ref(self).cast_mut().cast();
        RawCallbacks {
            pfn_internal_allocation: None,
            pfn_internal_free: None,
            ..RawCallbacks::of_sink::<Self>(here).only_those_of(&self.inner)
        }
    }

    fn granted(&self, block: *mut c_void, bytes: usize) -> *mut c_void {
        if !block.is_null() {
            self.requested.add(bytes);
        }
        block
    }
}

impl CallbackSink for CountingCallbacks<'_> {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        // SAFETY: the same call, with the inner user data.
        let block = during(ThreadActivity::InCallback, || unsafe { self.inner.allocation(request) });
        self.granted(block, request.size)
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        // SAFETY: the same call, with the inner user data.
        let block = during(ThreadActivity::InCallback, || unsafe { self.inner.reallocation(original, request) });
        self.granted(block, request.size)
    }

    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the same call, with the inner user data.
        during(ThreadActivity::InCallback, || unsafe { self.inner.free(block) });
    }

    unsafe fn notification(&self, _: RawNotice) {}
}
