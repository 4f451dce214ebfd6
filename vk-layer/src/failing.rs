//! Requests of the program's own callbacks that are refused on purpose, with the setting `fail_application`.
//!
//! ```text
//!   driver -> checker -> FailingCallbacks -> the program's callbacks
//!                          refused by the plan: NULL, and the program is not asked
//! ```
//!
//! Each set of callbacks that the program brings has a record, which stays: objects that were created with it may call it at any time.

use std::ffi::c_void;
use std::ptr;

use alloc_core::Scope;
use vk_accounts::guard_run::Layers;
use vk_callbacks::{CallbackSink, RawCallbacks, RawNotice, RawRequest};

use crate::foreign::{identity, object_key};
use crate::guarding::faults;
use crate::handle_map::HandleMap;
use crate::record::{free_record, new_record};
use crate::settings::settings;

/// Callbacks of the program that the plan stands in front of.
struct FailingCallbacks {
    inner: RawCallbacks,
    kind: &'static str,
    layers: &'static Layers,
}

/// By what they lead to.
static FAILING: HandleMap<FailingCallbacks> = HandleMap::new();

/// What the driver is to call in place of callbacks of the program for this kind of object: the same ones where no plan is about them,
/// or there is no memory.
pub(crate) fn with_faults(raw: RawCallbacks, kind: &'static str) -> RawCallbacks {
    if !settings().fail_application {
        return raw;
    }
    let failing = faults().and_then(|layers| failing(raw, kind, layers));
    failing.unwrap_or(raw)
}

fn failing(raw: RawCallbacks, kind: &'static str, layers: &'static Layers) -> Option<RawCallbacks> {
    let key = object_key(kind.as_ptr().addr() as u64, &raw).get();
    if FAILING.get(key).is_none() {
        let new = new_record(FailingCallbacks {
            inner: raw,
            kind,
            layers,
        })?;
        if !FAILING.insert(key, new) {
            // SAFETY: from `new_record`, and no map has it.
            unsafe { free_record(new) };
        }
    }
    let there = FAILING.get(key)?;
    // SAFETY: a record that stays.
    let known = unsafe { there.as_ref() };
    let is_same = identity(&known.inner) == identity(&raw) && ptr::eq(known.kind, kind);
    // Two sets with one key: the later one is not refused.
    is_same.then(|| {
        RawCallbacks::of_sink::<FailingCallbacks>(there.as_ptr().cast()).only_those_of(&raw)
    })
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
        // SAFETY: the same call, of the callbacks that the driver was to have.
        unsafe { self.inner.allocation(request) }
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        // To size 0 it is a free. Where it is refused the block stays (V16).
        if !self.admits(request) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { self.inner.reallocation(original, request) }
    }

    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: as above.
        unsafe { self.inner.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        // SAFETY: as above.
        unsafe { self.inner.notification(notice) }
    }
}
