//! The application's callbacks in the fake driver: a copy of the struct, called as C would call it.

use core::ffi::c_void;
use core::ptr;

use alloc_core::{NoticeEvent, Scope};

use vk_callbacks::CallbackSink;
use vk_callbacks::command::OwnerId;
use vk_callbacks::raw::{RawCallbacks, RawNotice, RawRequest, RawScope};

/// A `pAllocator` of the fake application: the address of its struct, NULL for none, and its owner id.
#[derive(Clone, Copy, Debug)]
pub struct PassedCallbacks {
    raw: *const RawCallbacks,
    id: Option<OwnerId>,
}

impl PassedCallbacks {
    /// `pAllocator = NULL`.
    pub const NONE: Self = Self { raw: ptr::null(), id: None };

    /// The struct at `raw`, with the owner `id`.
    ///
    /// # Safety
    /// Until the fake program returned, the struct can be read and its functions may be called from any thread, with
    /// any arguments: a planted defect passes illegal ones.
    #[must_use]
    pub const unsafe fn new(raw: *const RawCallbacks, id: OwnerId) -> Self {
        Self { raw, id: Some(id) }
    }

    /// The owner id.
    #[must_use]
    pub const fn id(&self) -> Option<OwnerId> {
        self.id
    }

    /// True for `pAllocator = NULL`.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.raw.is_null()
    }

    /// The struct by value, as a driver must keep it (V6).
    pub(crate) fn copy(self) -> Option<Host> {
        // SAFETY: `new` demands a struct that can be read, or it is NULL.
        unsafe { self.raw.as_ref() }.map(|raw| Host { raw: *raw, id: self.id })
    }
}

// SAFETY: `new` demands a struct that any thread may read and functions that any thread may call.
unsafe impl Send for PassedCallbacks {}
// SAFETY: `new` demands a struct that any thread may read and functions that any thread may call.
unsafe impl Sync for PassedCallbacks {}

/// Copied callbacks.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) raw: RawCallbacks,
    pub(crate) id: Option<OwnerId>,
}

// SAFETY: any thread may call the functions (`PassedCallbacks::new`).
unsafe impl Send for Host {}
// SAFETY: any thread may call the functions (`PassedCallbacks::new`).
unsafe impl Sync for Host {}

impl Host {
    /// `pfnAllocation`; NULL without the function.
    pub(crate) fn allocate(&self, size: usize, align: usize, scope: Scope) -> *mut u8 {
        self.allocate_raw(size, align, raw(scope))
    }

    /// As [`allocate`](Self::allocate), with any number as the scope.
    pub(crate) fn allocate_raw(&self, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        // SAFETY: `PassedCallbacks::new` demands functions that may be called, with any arguments.
        unsafe { self.raw.allocation(RawRequest { size, align, scope }) }.cast()
    }

    /// `pfnReallocation`; NULL without the function.
    pub(crate) fn reallocate(&self, old: *mut u8, size: usize, align: usize, scope: Scope) -> *mut u8 {
        let scope = raw(scope);
        // SAFETY: `PassedCallbacks::new` demands functions that may be called, with any arguments.
        unsafe { self.raw.reallocation(old.cast(), RawRequest { size, align, scope }) }.cast()
    }

    /// `pfnFree`.
    pub(crate) fn free(&self, block: *mut u8) {
        // SAFETY: `PassedCallbacks::new` demands functions that may be called, with any arguments.
        unsafe { self.raw.free(block.cast()) }
    }

    /// `pfnFree` of the answer to a request, unless it is NULL.
    pub(crate) fn free_if_any(&self, block: *mut u8) {
        if !block.is_null() {
            self.free(block);
        }
    }

    pub(crate) fn allocate_and_free(&self, size: usize, align: usize, scope: Scope) {
        self.free_if_any(self.allocate(size, align, scope));
    }

    pub(crate) fn reallocate_and_free(&self, old: *mut u8, size: usize, align: usize, scope: Scope) {
        self.free_if_any(self.reallocate(old, size, align, scope));
    }

    /// `pfnInternalAllocation` or `pfnInternalFree`, if there.
    pub(crate) fn notify(&self, event: NoticeEvent, size: usize, kind: i32, scope: Scope) {
        let scope = raw(scope);
        let notice = RawNotice { event, size, kind, scope };
        // SAFETY: `PassedCallbacks::new` demands functions that may be called, with any arguments.
        unsafe { self.raw.notification(notice) }
    }

    /// The same functions with other user data.
    pub(crate) const fn with_user_data(mut self, user_data: *mut c_void) -> Self {
        self.raw.p_user_data = user_data;
        self
    }
}

const fn raw(scope: Scope) -> RawScope {
    scope.as_raw().cast_signed()
}
