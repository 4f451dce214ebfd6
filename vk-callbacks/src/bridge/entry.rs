use core::ffi::c_void;
use core::marker::PhantomData;

use alloc_core::{HostAllocator, Notice};

use super::state::{BridgeState, scope_from};
use crate::command::thread;
use crate::fence::{Care, CareKind, FencedCare, GuardedCare, PlainCare, fenced};
use crate::raw::{INTERNAL_EXECUTABLE, RawCallbacks, RawNotice, RawRequest};
use crate::sink::{CallMistakeKind, Callback, CallbackSink, is_no_address_of, report_mistake};

/// Valid while the state at `place` does not move.
pub(crate) fn callbacks_of<A: HostAllocator + Sync>(
    state: &BridgeState<A>,
    place: *const BridgeState<A>,
) -> RawCallbacks {
    match state.care() {
        CareKind::Plain => functions::<A, PlainCare>(place),
        CareKind::Fenced => functions::<A, FencedCare>(place),
        CareKind::Guarded => functions::<A, GuardedCare>(place),
    }
}

#[repr(transparent)]
struct Careful<A, C>(BridgeState<A>, PhantomData<C>);

fn functions<A: HostAllocator + Sync, C: Care>(state: *const BridgeState<A>) -> RawCallbacks {
    RawCallbacks::of_sink::<Careful<A, C>>(state.cast_mut().cast())
}

impl<A: HostAllocator + Sync, C: Care> CallbackSink for Careful<A, C> {
    /// Also none where a bridge has ended, or none ever was.
    #[inline]
    unsafe fn of_user_data<'a>(user_data: *mut c_void) -> Option<&'a Self>
    where
        Self: 'a,
    {
        let state = user_data.cast::<BridgeState<A>>();
        if is_no_address_of::<BridgeState<A>>(user_data)
            // SAFETY: aligned, and readable, as `CallbackSink::of_user_data` requires.
            || !unsafe { BridgeState::is_marked(state) }
        {
            return None;
        }
        // SAFETY: the mark shows a bridge's state there, which lives through the call.
        Some(unsafe { &*user_data.cast::<Self>() })
    }

    #[inline(always)]
    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        let _inside = thread::enter_callback();
        self.0.allocate::<C>(Callback::Allocation, request.size, request.align, request.scope).cast()
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        let _inside = thread::enter_callback();
        let RawRequest { size, align, scope } = request;
        // SAFETY: by Vulkan's rules NULL or readable, and nothing else uses a live block.
        unsafe { self.0.reallocate::<C>(original.cast(), size, align, scope) }.cast()
    }

    #[inline(always)]
    unsafe fn free(&self, block: *mut c_void) {
        let _inside = thread::enter_callback();
        // SAFETY: by Vulkan's rules NULL or readable, and nothing else uses a live block.
        unsafe { self.0.free::<C>(block.cast()) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        let _inside = thread::enter_callback();
        notified(&self.0, notice);
    }
}

#[cold]
fn notified<A: HostAllocator + Sync>(state: &BridgeState<A>, notice: RawNotice) {
    let (INTERNAL_EXECUTABLE, Some(scope)) = (notice.kind, scope_from(notice.scope)) else {
        state.counters.bad_notifications.one_more();
        let wrong = match notice.kind {
            INTERNAL_EXECUTABLE => notice.scope,
            kind => kind,
        };
        let wrong = wrong as isize;
        let callback = Callback::of_notice(notice.event);
        report_mistake(callback, CallMistakeKind::Scope, wrong.cast_unsigned());
        return;
    };
    let notice = Notice { event: notice.event, bytes: notice.size, scope };
    if fenced(|| state.backing.notify(notice)).is_err() {
        state.counters.panics.one_more();
    }
}
