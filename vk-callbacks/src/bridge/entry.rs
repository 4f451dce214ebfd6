//! The five C functions. `pUserData` is the address of the state: no lookup, no registry.

use core::ffi::c_void;

use alloc_core::{HostAllocator, Notice, NoticeEvent, NoticeKind};

use super::state::{BridgeState, scope_from};
use crate::command::thread;
use crate::fence::{Care, CareKind, FencedCare, GuardedCare, PlainCare, fenced};
use crate::raw::{INTERNAL_EXECUTABLE, RawCallbacks, RawInternalType, RawScope};

/// The callbacks of the state at `place`, valid while it stays there. What its backing needs is asked here, once.
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

fn functions<A: HostAllocator + Sync, C: Care>(state: *const BridgeState<A>) -> RawCallbacks {
    RawCallbacks {
        p_user_data: state.cast_mut().cast(),
        pfn_allocation: Some(allocation::<A, C>),
        pfn_reallocation: Some(reallocation::<A, C>),
        pfn_free: Some(free::<A, C>),
        pfn_internal_allocation: Some(internal_allocation::<A>),
        pfn_internal_free: Some(internal_free::<A>),
    }
}

/// # Safety
/// `ud` is the address of a live `BridgeState<A>`, as in all functions here: what [`callbacks_of`] put beside them.
unsafe extern "system" fn allocation<A: HostAllocator + Sync, C: Care>(
    ud: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    // SAFETY: the caller's promise; the state is only ever shared.
    let state = unsafe { &*ud.cast::<BridgeState<A>>() };
    let _inside = thread::enter_callback();
    state.allocate::<C>(size, align, scope).cast()
}

/// # Safety
/// As [`allocation`]; `original` is NULL or came from these functions (or at least the 16 bytes before it can be read).
unsafe extern "system" fn reallocation<A: HostAllocator + Sync, C: Care>(
    ud: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    let state = unsafe { &*ud.cast::<BridgeState<A>>() };
    let _inside = thread::enter_callback();
    // SAFETY: the caller's promise.
    unsafe { state.reallocate::<C>(original.cast(), size, align, scope) }.cast()
}

/// # Safety
/// As [`reallocation`], with `memory` for `original`.
unsafe extern "system" fn free<A: HostAllocator + Sync, C: Care>(
    ud: *mut c_void,
    memory: *mut c_void,
) {
    // SAFETY: the caller's promise.
    let state = unsafe { &*ud.cast::<BridgeState<A>>() };
    let _inside = thread::enter_callback();
    // SAFETY: the caller's promise.
    unsafe { state.free::<C>(memory.cast()) }
}

/// # Safety
/// As [`allocation`].
unsafe extern "system" fn internal_allocation<A: HostAllocator + Sync>(
    ud: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    // SAFETY: the caller's promise.
    let state = unsafe { &*ud.cast::<BridgeState<A>>() };
    let _inside = thread::enter_callback();
    notified(state, NoticeEvent::Allocated, size, kind, scope);
}

/// # Safety
/// As [`allocation`].
unsafe extern "system" fn internal_free<A: HostAllocator + Sync>(
    ud: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    // SAFETY: the caller's promise.
    let state = unsafe { &*ud.cast::<BridgeState<A>>() };
    let _inside = thread::enter_callback();
    notified(state, NoticeEvent::Freed, size, kind, scope);
}

#[cold]
fn notified<A: HostAllocator + Sync>(
    state: &BridgeState<A>,
    event: NoticeEvent,
    bytes: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    let (INTERNAL_EXECUTABLE, Some(scope)) = (kind, scope_from(scope)) else {
        state.notes.bad_notifications.one_more();
        return;
    };
    match event {
        NoticeEvent::Allocated => state.notes.internal_allocation(scope, bytes),
        NoticeEvent::Freed => state.notes.internal_free(scope, bytes),
    }
    let notice = Notice {
        event,
        kind: NoticeKind::Executable,
        bytes,
        scope,
    };
    if fenced(|| state.backing.notify(notice)).is_err() {
        state.notes.panics.one_more();
    }
}
