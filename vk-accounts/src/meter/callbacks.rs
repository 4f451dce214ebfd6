//! Callbacks that count what a driver asks of them, and tell the meter that a callback runs.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use vk_callbacks::{RawCallbacks, RawScope};

use super::{ThreadActivity, during};

/// What drivers asked for, all owners together: requests that were granted.
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

    /// Calls and bytes until now; exact when nobody asks meanwhile.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        (
            self.calls.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }
}

/// What the user data of the callbacks points at.
#[derive(Debug)]
pub struct CountingCallbacks<'a> {
    inner: RawCallbacks,
    asked: &'a RequestedBytes,
}

impl<'a> CountingCallbacks<'a> {
    /// Callbacks that hand on to `inner`, and add to `asked` what was granted.
    #[must_use]
    pub const fn new(inner: RawCallbacks, asked: &'a RequestedBytes) -> Self {
        Self { inner, asked }
    }

    /// Callbacks that lead here, valid while `self` stays where it is and the inner ones are valid. Notifications go past: they
    /// take nothing.
    #[must_use]
    pub fn callbacks(&self) -> RawCallbacks {
        RawCallbacks {
            p_user_data: ptr::from_ref(self).cast_mut().cast(),
            pfn_allocation: self.inner.pfn_allocation.map(|_| allocation as _),
            pfn_reallocation: self.inner.pfn_reallocation.map(|_| reallocation as _),
            pfn_free: self.inner.pfn_free.map(|_| free as _),
            pfn_internal_allocation: None,
            pfn_internal_free: None,
        }
    }

    fn granted(&self, block: *mut c_void, bytes: usize) -> *mut c_void {
        if !block.is_null() {
            self.asked.add(bytes);
        }
        block
    }
}

/// # Safety
/// `user_data` is that of [`CountingCallbacks::callbacks`], whose `CountingCallbacks` still is where it was.
unsafe fn around<'a>(user_data: *mut c_void) -> &'a CountingCallbacks<'a> {
    // SAFETY: the caller's promise; it is only shared.
    unsafe { &*user_data.cast::<CountingCallbacks<'a>>() }
}

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    // SAFETY: the driver passes back the user data it was given (V5).
    let around = unsafe { around(user_data) };
    let Some(inner) = around.inner.pfn_allocation else {
        return ptr::null_mut();
    };
    // SAFETY: the same call, with the user data these callbacks came with.
    let block = during(ThreadActivity::InCallback, || unsafe {
        inner(around.inner.p_user_data, size, align, scope)
    });
    around.granted(block, size)
}

unsafe extern "system" fn reallocation(
    user_data: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    // SAFETY: the driver passes back the user data it was given (V5).
    let around = unsafe { around(user_data) };
    let Some(inner) = around.inner.pfn_reallocation else {
        return ptr::null_mut();
    };
    // SAFETY: the same call, with the user data these callbacks came with.
    let block = during(ThreadActivity::InCallback, || unsafe {
        inner(around.inner.p_user_data, original, size, align, scope)
    });
    around.granted(block, size)
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    // SAFETY: the driver passes back the user data it was given (V5).
    let around = unsafe { around(user_data) };
    let Some(inner) = around.inner.pfn_free else {
        return;
    };
    // SAFETY: the same call, with the user data these callbacks came with.
    during(ThreadActivity::InCallback, || unsafe {
        inner(around.inner.p_user_data, block)
    });
}
