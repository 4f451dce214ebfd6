//! Callbacks that write down each call and pass it on as it came.
//!
//! Vulkan specification, *Host Memory*: `VkAllocationCallbacks`. Sizes, alignments, scopes and pointers go through unchanged,
//! legal or not. A free is written down before it is passed on, an allocation after: in between, another thread may be given
//! the address. A reallocation is written down on both sides.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicIsize, Ordering};

use alloc_core::NoticeEvent;

use super::RecorderState;
use super::record::{LogEvent, LogRequest};
use crate::command::thread::enter_callback;
use crate::raw::{RawCallbacks, RawInternalType, RawScope};
use crate::trace::Sighting;

/// Callbacks to hand on instead of the ones they were made from, [`Recorder::tap`](crate::Recorder::tap).
///
/// A copy is as good as the original. Valid until the recorder goes.
#[derive(Clone, Copy, Debug)]
pub struct Tap {
    raw: RawCallbacks,
}

impl Tap {
    /// The C struct. A function that was NULL in the original is NULL here; the two notifications are always there.
    #[must_use]
    pub const fn raw(&self) -> &RawCallbacks {
        &self.raw
    }

    /// LogEvent a C binding wants: the address of the C struct, valid while `self` is and does not move.
    #[must_use]
    pub const fn as_ptr(&self) -> *const RawCallbacks {
        &raw const self.raw
    }
}

/// What the user data of a tap points at; lies in the recorder's memory until the recorder goes.
pub(super) struct TapState<'h> {
    pub(super) shared: *const RecorderState<'h>,
    pub(super) inner: RawCallbacks,
    pub(super) owner: u64,
    /// Blocks given less blocks taken back.
    pub(super) live: AtomicIsize,
    /// The tap made before.
    pub(super) next: *mut Self,
}

impl<'h> TapState<'h> {
    /// The callbacks that lead here.
    pub(super) fn tap(this: *mut Self) -> Tap {
        // SAFETY: made for the pinned state just placed; `inner` never changes.
        let inner = unsafe { &(*this).inner };
        Tap {
            raw: RawCallbacks {
                p_user_data: this.cast(),
                pfn_allocation: inner.pfn_allocation.map(|_| allocation as _),
                pfn_reallocation: inner.pfn_reallocation.map(|_| reallocation as _),
                pfn_free: inner.pfn_free.map(|_| free as _),
                pfn_internal_allocation: Some(internal_allocation),
                pfn_internal_free: Some(internal_free),
            },
        }
    }

    fn shared(&self) -> &RecorderState<'h> {
        // SAFETY: the shared part outlives every tap: both go with the recorder, taps first.
        unsafe { &*self.shared }
    }

    fn record(&self, what: LogEvent) {
        self.shared().log.append(what);
    }

    fn answered(&self, blocks: isize) {
        self.live.fetch_add(blocks, Ordering::Relaxed);
    }

    /// What was answered, and that it is not aligned as was asked (V8).
    #[cold]
    fn misaligned(&self, at: usize) {
        self.record(LogEvent::Seen {
            owner: self.owner,
            at,
            what: Sighting::Misaligned,
        });
    }

    fn notice(&self, event: NoticeEvent, size: usize, kind: RawInternalType, scope: RawScope) {
        self.record(LogEvent::Notice {
            owner: self.owner,
            event,
            size,
            kind,
            scope,
        });
    }
}

/// # Safety
/// `user_data` is that of a [`Tap`] whose recorder is there.
unsafe fn state<'a>(user_data: *mut c_void) -> &'a TapState<'a> {
    // SAFETY: the caller's promise; the state is only reached through shared references.
    unsafe { &*user_data.cast::<TapState<'a>>() }
}

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let _inside = enter_callback();
    // SAFETY: the driver passes back the user data it was given (V5).
    let tap = unsafe { state(user_data) };
    let Some(inner) = tap.inner.pfn_allocation else {
        return ptr::null_mut();
    };
    // SAFETY: the same call, with the user data these callbacks came with.
    let block = unsafe { inner(tap.inner.p_user_data, size, align, scope) };
    if !block.is_null() {
        tap.answered(1);
    }
    tap.record(LogEvent::Allocate {
        owner: tap.owner,
        at: block.addr(),
        asked: LogRequest { size, align, scope },
    });
    if align.is_power_of_two() && !block.addr().is_multiple_of(align) {
        tap.misaligned(block.addr());
    }
    block
}

unsafe extern "system" fn reallocation(
    user_data: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let _inside = enter_callback();
    // SAFETY: the driver passes back the user data it was given (V5).
    let tap = unsafe { state(user_data) };
    let Some(inner) = tap.inner.pfn_reallocation else {
        return ptr::null_mut();
    };
    let (owner, old) = (tap.owner, original.addr());
    let ticket = tap.shared().next_ticket();
    tap.record(LogEvent::ReallocateBegin { owner, ticket, old });
    // SAFETY: the same call, with the user data these callbacks came with.
    let block = unsafe { inner(tap.inner.p_user_data, original, size, align, scope) };
    // A block came, and the old one went: by growing into it, or because size 0 frees (V14).
    let came = isize::from(!block.is_null());
    let went = isize::from(old != 0 && (size == 0 || !block.is_null()));
    tap.answered(came.saturating_sub(went));
    tap.record(LogEvent::Reallocate {
        owner,
        ticket,
        old,
        new: block.addr(),
        asked: LogRequest { size, align, scope },
    });
    // Where something was reallocated, the alignment may not be the one that it was made with (V15).
    if old == 0 && align.is_power_of_two() && !block.addr().is_multiple_of(align) {
        tap.misaligned(block.addr());
    }
    block
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    let _inside = enter_callback();
    // SAFETY: the driver passes back the user data it was given (V5).
    let tap = unsafe { state(user_data) };
    let Some(inner) = tap.inner.pfn_free else {
        return;
    };
    if !block.is_null() {
        tap.answered(-1);
    }
    tap.record(LogEvent::Free {
        owner: tap.owner,
        at: block.addr(),
    });
    // SAFETY: the same call, with the user data these callbacks came with.
    unsafe { inner(tap.inner.p_user_data, block) }
}

unsafe extern "system" fn internal_allocation(
    user_data: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    let _inside = enter_callback();
    // SAFETY: the driver passes back the user data it was given (V5).
    let tap = unsafe { state(user_data) };
    tap.notice(NoticeEvent::Allocated, size, kind, scope);
    if let Some(inner) = tap.inner.pfn_internal_allocation {
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { inner(tap.inner.p_user_data, size, kind, scope) }
    }
}

unsafe extern "system" fn internal_free(
    user_data: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    let _inside = enter_callback();
    // SAFETY: the driver passes back the user data it was given (V5).
    let tap = unsafe { state(user_data) };
    tap.notice(NoticeEvent::Freed, size, kind, scope);
    if let Some(inner) = tap.inner.pfn_internal_free {
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { inner(tap.inner.p_user_data, size, kind, scope) }
    }
}
