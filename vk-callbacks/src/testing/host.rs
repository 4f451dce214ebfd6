//! The application's callbacks as the fake driver holds them: a copy of the struct, called as C would call it.

use core::ffi::c_void;
use core::ptr;

use alloc_core::{NoticeEvent, Scope};

use crate::command::OwnerId;
use crate::raw::{RawCallbacks, RawScope};

/// A `pAllocator` of the fake application: the address of its struct, NULL for none, and what the struct is called in brackets.
#[derive(Clone, Copy, Debug)]
pub struct PassedCallbacks {
    raw: *const RawCallbacks,
    id: Option<OwnerId>,
}

impl PassedCallbacks {
    /// `pAllocator = NULL`.
    pub const NONE: Self = Self {
        raw: ptr::null(),
        id: None,
    };

    /// The struct at `raw`, called `id`.
    ///
    /// # Safety
    /// Until the program that is given this has returned, the struct can be read and its functions may be called from any
    /// thread, with any arguments: a planted defect passes illegal ones.
    #[must_use]
    pub const unsafe fn new(raw: *const RawCallbacks, id: OwnerId) -> Self {
        Self { raw, id: Some(id) }
    }

    /// What it is called.
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
    pub(super) fn copy(self) -> Option<Host> {
        // SAFETY: `new` demands a struct that can be read, or it is NULL.
        unsafe { self.raw.as_ref() }.map(|raw| Host {
            raw: *raw,
            id: self.id,
        })
    }
}

// SAFETY: `new` demands a struct that any thread may read and functions that any thread may call.
unsafe impl Send for PassedCallbacks {}
// SAFETY: as for `Send`.
unsafe impl Sync for PassedCallbacks {}

/// Copied callbacks.
#[derive(Clone, Copy)]
pub(super) struct Host {
    pub(super) raw: RawCallbacks,
    pub(super) id: Option<OwnerId>,
}

// SAFETY: as for `PassedCallbacks`.
unsafe impl Send for Host {}
// SAFETY: as for `PassedCallbacks`.
unsafe impl Sync for Host {}

impl Host {
    /// `pfnAllocation`; NULL where there is none.
    pub(super) fn allocate(&self, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let Some(call) = self.raw.pfn_allocation else {
            return ptr::null_mut();
        };
        // SAFETY: `PassedCallbacks::new` demands functions that may be called, with any arguments.
        unsafe { call(self.raw.p_user_data, size, align, scope) }.cast()
    }

    /// `pfnReallocation`; NULL where there is none.
    pub(super) fn reallocate(
        &self,
        old: *mut u8,
        size: usize,
        align: usize,
        scope: RawScope,
    ) -> *mut u8 {
        let Some(call) = self.raw.pfn_reallocation else {
            return ptr::null_mut();
        };
        // SAFETY: as in `allocate`.
        unsafe { call(self.raw.p_user_data, old.cast(), size, align, scope) }.cast()
    }

    /// `pfnFree`.
    pub(super) fn free(&self, block: *mut u8) {
        let Some(call) = self.raw.pfn_free else {
            return;
        };
        // SAFETY: as in `allocate`.
        unsafe { call(self.raw.p_user_data, block.cast()) }
    }

    /// `pfnFree` of what a request was answered with, if it was a block.
    pub(super) fn free_if_any(&self, block: *mut u8) {
        if !block.is_null() {
            self.free(block);
        }
    }

    /// `pfnInternalAllocation` or `pfnInternalFree`, where the application wants to know.
    pub(super) fn notify(&self, event: NoticeEvent, size: usize, kind: i32, scope: Scope) {
        let call = match event {
            NoticeEvent::Allocated => self.raw.pfn_internal_allocation,
            NoticeEvent::Freed => self.raw.pfn_internal_free,
        };
        let Some(call) = call else { return };
        // SAFETY: as in `allocate`.
        unsafe { call(self.raw.p_user_data, size, kind, raw(scope)) }
    }

    /// The same functions with somebody else's user data.
    pub(super) const fn with_user_data(mut self, user_data: *mut c_void) -> Self {
        self.raw.p_user_data = user_data;
        self
    }
}

pub(super) const fn raw(scope: Scope) -> RawScope {
    scope.as_raw().cast_signed()
}
