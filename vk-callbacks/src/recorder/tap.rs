//! Callbacks that record each call and pass it on.
//!
//! Vulkan specification, *Host Memory*: `VkAllocationCallbacks`. Sizes, alignments, scopes and pointers pass unchanged, legal or not.
//! A free is recorded before it is passed on, an allocation after it returned: in between, another thread may get the address. A
//! reallocation is recorded before and after.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

use super::RecorderState;
use super::record::LogEvent;
use crate::command::thread::enter_callback;
use crate::raw::{RawCallbacks, RawNotice, RawRequest};
use crate::sink::CallbackSink;
use crate::trace::Sighting;

/// Callbacks of [`Recorder::tap`](crate::Recorder::tap), to pass to Vulkan instead of the inner ones.
///
/// A copy is as good as the original. Valid until the recorder ends.
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
}

/// The state of a tap, in the recorder's memory until the recorder ends.
pub(super) struct TapState<'h> {
    pub(super) shared: *const RecorderState<'h>,
    pub(super) inner: RawCallbacks,
    pub(super) owner: u64,
    /// Allocated blocks less freed ones.
    pub(super) live: AtomicIsize,
    /// The tap added before.
    pub(super) next: AtomicPtr<Self>,
}

impl<'h> TapState<'h> {
    /// The callbacks of this state.
    pub(super) fn tap(&self) -> Tap {
        let all = RawCallbacks::of_sink::<Self>(ptr::from_ref(self).cast_mut().cast());
        Tap {
            raw: RawCallbacks {
                pfn_internal_allocation: all.pfn_internal_allocation,
                pfn_internal_free: all.pfn_internal_free,
                ..all.only_those_of(&self.inner)
            },
        }
    }

    fn shared(&self) -> &RecorderState<'h> {
        // SAFETY: the shared part outlives every tap: both end with the recorder, taps first.
        unsafe { &*self.shared }
    }

    fn record(&self, what: LogEvent) {
        self.shared().log.append(what);
    }

    fn answered(&self, blocks: isize) {
        self.live.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Records that an answer is not aligned as requested (V8).
    #[cold]
    fn misaligned(&self, at: usize) {
        self.record(LogEvent::Seen {
            owner: self.owner,
            at,
            what: Sighting::Misaligned,
        });
    }
}

impl CallbackSink for TapState<'_> {
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        let _inside = enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with.
        let block = unsafe { self.inner.allocation(request) };
        if !block.is_null() {
            self.answered(1);
        }
        self.record(LogEvent::Allocate {
            owner: self.owner,
            at: block.addr(),
            asked: request,
        });
        if request.align.is_power_of_two() && !block.addr().is_multiple_of(request.align) {
            self.misaligned(block.addr());
        }
        block
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        let _inside = enter_callback();
        let (owner, old) = (self.owner, original.addr());
        let ticket = self.shared().next_ticket();
        self.record(LogEvent::ReallocateBegin { owner, ticket, old });
        // SAFETY: the same call, with the user data these callbacks came with.
        let block = unsafe { self.inner.reallocation(original, request) };
        // A block was returned, and the old one was freed: it moved into the new one, or size 0 freed it (V14).
        let came = isize::from(!block.is_null());
        let went = isize::from(old != 0 && (request.size == 0 || !block.is_null()));
        self.answered(came.saturating_sub(went));
        self.record(LogEvent::Reallocate {
            owner,
            ticket,
            old,
            new: block.addr(),
            asked: request,
        });
        // Of a reallocated block, the alignment may differ from the original request (V15).
        if old == 0
            && request.align.is_power_of_two()
            && !block.addr().is_multiple_of(request.align)
        {
            self.misaligned(block.addr());
        }
        block
    }

    unsafe fn free(&self, block: *mut c_void) {
        let _inside = enter_callback();
        if !block.is_null() {
            self.answered(-1);
        }
        self.record(LogEvent::Free {
            owner: self.owner,
            at: block.addr(),
        });
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { self.inner.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        let _inside = enter_callback();
        self.record(LogEvent::Notice {
            owner: self.owner,
            event: notice.event,
            size: notice.size,
            kind: notice.kind,
            scope: notice.scope,
        });
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { self.inner.notification(notice) }
    }
}
