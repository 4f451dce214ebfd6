//! The C functions of checked callbacks. The rules are the engine's; here is the order of things.
//!
//! A free is taken out of the table before it is passed on, an allocation put in after it came, and a block is in transit while it
//! is reallocated: otherwise another thread may be given its address first. No lock is held over a call.

use core::ffi::c_void;
use core::num::NonZeroU64;
use core::ptr::{self, NonNull};

use alloc_core::NoticeEvent;

use super::block::BlockRequest;
use super::call_rules::Pass;
use super::checker::CheckerState;
use super::engine::{CallerContext, Engine};
use super::kind::FindingKind;
use super::owner::CallbackOwner;
use super::row::FindingRow;
use super::user_data;
use super::watched_entry::WatchedEntry;
use crate::command::thread;
use crate::raw::{RawCallbacks, RawInternalType, RawScope};
use crate::trace::Sighting;

/// Callbacks to hand on instead of the ones they were made from, [`Checker::wrap`](crate::Checker::wrap).
///
/// A copy is as good as the original. Valid until the checker goes, or they are [retired](crate::Checker::retire).
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    raw: RawCallbacks,
}

impl Checked {
    /// The callbacks that lead to those that pass on to `inner`, by this user data.
    pub(super) fn new(inner: &RawCallbacks, user_data: usize) -> Self {
        let raw = RawCallbacks {
            p_user_data: ptr::without_provenance_mut(user_data),
            pfn_allocation: Some(allocation),
            pfn_reallocation: Some(reallocation),
            pfn_free: Some(free),
            pfn_internal_allocation: inner
                .pfn_internal_allocation
                .map(|_| internal_allocation as _),
            pfn_internal_free: inner.pfn_internal_free.map(|_| internal_free as _),
        };
        Self { raw }
    }

    /// The C struct. The user data is a number, no address: a strange one is found without following it (V5).
    #[must_use]
    pub const fn raw(&self) -> &RawCallbacks {
        &self.raw
    }

    /// What a C binding wants: the address of the C struct, valid while `self` is and does not move.
    #[must_use]
    pub const fn as_ptr(&self) -> *const RawCallbacks {
        &raw const self.raw
    }
}

/// What the user data stands for; lies in the checker's memory until the checker goes.
pub(super) struct Watched<'h> {
    shared: NonNull<CheckerState<'h>>,
    /// Of the engine's list.
    pub(super) owner: NonNull<CallbackOwner<'static>>,
    inner: RawCallbacks,
}

impl<'h> Watched<'h> {
    pub(super) const fn new(
        shared: NonNull<CheckerState<'h>>,
        owner: NonNull<CallbackOwner<'static>>,
        inner: RawCallbacks,
    ) -> Self {
        Self {
            shared,
            owner,
            inner,
        }
    }

    pub(super) fn entry(&self, user_data: *mut c_void) -> WatchedEntry {
        WatchedEntry::new(&self.inner, self.owner(), user_data)
    }

    fn engine(&self) -> &Engine<'h, 'static> {
        // SAFETY: the shared part outlives what is watched: both go with the checker, this first.
        &unsafe { self.shared.as_ref() }.engine
    }

    fn owner(&self) -> &CallbackOwner<'static> {
        // SAFETY: the engine's owners stay until the engine goes.
        unsafe { self.owner.as_ref() }
    }

    /// What came of a request goes to the driver: a block that is on record, or NULL.
    #[inline]
    fn answer(
        &self,
        who: &CallerContext<'_, 'static>,
        asked: BlockRequest,
        nulls: u32,
        block: *mut c_void,
    ) -> *mut c_void {
        let Some(address) = number(block) else {
            self.count_null(who, nulls);
            return block;
        };
        if asked.align.is_power_of_two() && address.get() & asked.align.wrapping_sub(1) != 0 {
            self.engine().misaligned(who, self.owner(), asked);
        }
        if self
            .engine()
            .answered(who, self.owner(), asked, address)
            .is_err()
        {
            return self.no_record(who, block);
        }
        block
    }

    /// There is no memory for its record: the block goes back, and the request was refused.
    #[cold]
    fn no_record(&self, who: &CallerContext<'_, 'static>, block: *mut c_void) -> *mut c_void {
        self.free_block(block);
        self.engine().refused(who);
        ptr::null_mut()
    }

    /// One NULL, unless the callbacks behind have counted it already, as a bridge does.
    #[cold]
    fn count_null(&self, who: &CallerContext<'_, 'static>, before: u32) {
        if nulls(who) == before {
            self.engine().refused(who);
        }
    }

    fn allocate(&self, asked: BlockRequest) -> *mut c_void {
        let Some(inner) = self.inner.pfn_allocation else {
            return ptr::null_mut();
        };
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe {
            inner(
                self.inner.p_user_data,
                asked.size as usize,
                asked.align as usize,
                asked.scope,
            )
        }
    }

    fn resize(&self, original: *mut c_void, asked: BlockRequest) -> *mut c_void {
        let Some(inner) = self.inner.pfn_reallocation else {
            return ptr::null_mut();
        };
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe {
            inner(
                self.inner.p_user_data,
                original,
                asked.size as usize,
                asked.align as usize,
                asked.scope,
            )
        }
    }

    fn free_block(&self, block: *mut c_void) {
        let Some(inner) = self.inner.pfn_free else {
            return;
        };
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with; the block is theirs and live.
        unsafe { inner(self.inner.p_user_data, block) }
    }

    /// A reallocation of a block to another size than 0.
    fn move_block(
        &self,
        who: &CallerContext<'_, 'static>,
        original: *mut c_void,
        old: NonZeroU64,
        asked: BlockRequest,
    ) -> *mut c_void {
        let (engine, owner) = (self.engine(), self.owner());
        engine.make_ready();
        let before = match engine.moving(who, owner, old, Some(asked)) {
            Ok(before) => before,
            Err(_) => {
                engine.refused(who);
                return ptr::null_mut();
            }
        };
        // Room for its record wherever it goes; without, nothing is done, and the old block stays (V16).
        let Ok(room) = engine.blocks.promise() else {
            engine.not_moved(who, owner, old, &before, false);
            engine.refused(who);
            return ptr::null_mut();
        };
        let nulls = nulls(who);
        let block = self.resize(original, asked);
        match number(block) {
            Some(new) => {
                if asked.align.is_power_of_two()
                    && before.has_align(asked.align)
                    && new.get() & asked.align.wrapping_sub(1) != 0
                {
                    engine.misaligned(who, owner, asked);
                }
                engine.moved(who, owner, (old, new), &before, asked.size, &room);
            }
            None => {
                engine.not_moved(who, owner, old, &before, true);
                self.count_null(who, nulls);
            }
        }
        block
    }
}

/// The running command of this thread, as the rules see it.
#[inline]
pub(super) fn caller_context<'a>() -> CallerContext<'a, 'static> {
    // SAFETY: a non-null top is the frame of a `run` on this thread's own stack, which ends after the call that is running.
    match unsafe { thread::top().as_ref() } {
        Some(frame) => {
            let bracket = frame.bracket();
            CallerContext {
                bracket: Some(bracket),
                thread: frame.thread(),
                issued: true,
                known: true,
                at: bracket.serial,
            }
        }
        None => unknown_caller(),
    }
}

#[cold]
fn unknown_caller<'a>() -> CallerContext<'a, 'static> {
    let issued = thread::has_issued();
    if !issued {
        thread::early_callback();
    }
    CallerContext {
        bracket: None,
        thread: thread::thread_number(),
        issued,
        known: cfg!(feature = "std"),
        at: 0,
    }
}

fn nulls(who: &CallerContext<'_, 'static>) -> u32 {
    who.bracket.map_or(0, |bracket| bracket.nulls.get())
}

fn number(block: *mut c_void) -> Option<NonZeroU64> {
    NonZeroU64::new(block.addr() as u64)
}

/// What this user data was handed out for; a strange one is reported to whoever watches the running command.
#[inline]
fn watched<'a>(user_data: *mut c_void) -> Option<&'a Watched<'a>> {
    match user_data::find(user_data) {
        // SAFETY: the slot holds what `wrap` placed, which stays until the checker goes, and then no call is running.
        Some(watched) => Some(unsafe { &*watched.cast::<Watched<'a>>() }),
        None => {
            stray();
            None
        }
    }
}

#[cold]
fn stray() {
    // SAFETY: as in `caller_context`.
    let frame = unsafe { thread::top().as_ref() };
    let engine = frame
        .map_or(ptr::null(), |frame| frame.checker())
        .cast::<Engine<'_, 'static>>();
    // SAFETY: the checker that runs this command is borrowed until the command ends.
    match (unsafe { engine.as_ref() }, frame) {
        (Some(engine), Some(frame)) => {
            let bracket = frame.bracket();
            let row = FindingRow::one(FindingKind::UnknownUserData);
            engine.report(FindingRow {
                command: bracket.name,
                first_serial: bracket.serial,
                ..row
            });
        }
        _ => user_data::one_more_stray(),
    }
}

unsafe extern "system" fn allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let Some(watched) = watched(user_data) else {
        return ptr::null_mut();
    };
    let who = caller_context();
    let asked = BlockRequest {
        size: size as u64,
        align: align as u64,
        scope,
    };
    watched.engine().make_ready();
    watched.engine().requested(&who, watched.owner(), asked);
    let nulls = nulls(&who);
    let block = watched.allocate(asked);
    watched.answer(&who, asked, nulls, block)
}

unsafe extern "system" fn reallocation(
    user_data: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    let Some(watched) = watched(user_data) else {
        return ptr::null_mut();
    };
    let who = caller_context();
    let asked = BlockRequest {
        size: size as u64,
        align: align as u64,
        scope,
    };
    let (engine, owner) = (watched.engine(), watched.owner());
    match (number(original), size) {
        (Some(old), 0) => {
            if engine.released(&who, owner, old) == Pass::Not {
                return ptr::null_mut();
            }
            let block = watched.resize(original, asked);
            if number(block).is_some() {
                engine.zero_answered(&who, owner, asked);
                return watched.answer(&who, asked, 0, block);
            }
            block
        }
        (Some(old), _) => watched.move_block(&who, original, old, asked),
        (None, 0) => {
            let block = watched.resize(original, asked);
            if number(block).is_some() {
                watched.answer(&who, asked, 0, block)
            } else {
                block
            }
        }
        (None, _) => {
            engine.make_ready();
            engine.requested(&who, owner, asked);
            let nulls = nulls(&who);
            let block = watched.resize(original, asked);
            watched.answer(&who, asked, nulls, block)
        }
    }
}

unsafe extern "system" fn free(user_data: *mut c_void, block: *mut c_void) {
    let Some(watched) = watched(user_data) else {
        return;
    };
    let who = caller_context();
    match number(block) {
        None => watched.engine().freed_null(&who, watched.owner()),
        Some(address) => {
            if watched.engine().released(&who, watched.owner(), address) == Pass::Not {
                return;
            }
        }
    }
    watched.free_block(block);
}

unsafe extern "system" fn internal_allocation(
    user_data: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    let Some(watched) = watched(user_data) else {
        return;
    };
    watched.engine().notified(
        &caller_context(),
        watched.owner(),
        NoticeEvent::Allocated,
        size as u64,
        kind,
        scope,
    );
    if let Some(inner) = watched.inner.pfn_internal_allocation {
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { inner(watched.inner.p_user_data, size, kind, scope) }
    }
}

unsafe extern "system" fn internal_free(
    user_data: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    let Some(watched) = watched(user_data) else {
        return;
    };
    watched.engine().notified(
        &caller_context(),
        watched.owner(),
        NoticeEvent::Freed,
        size as u64,
        kind,
        scope,
    );
    if let Some(inner) = watched.inner.pfn_internal_free {
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { inner(watched.inner.p_user_data, size, kind, scope) }
    }
}

/// The functions that stand in a struct which nobody may use any more (V6): each reports and does what it should.
pub(super) fn traps(raw: &RawCallbacks) -> RawCallbacks {
    RawCallbacks {
        p_user_data: raw.p_user_data,
        pfn_allocation: Some(old_allocation),
        pfn_reallocation: Some(old_reallocation),
        pfn_free: Some(old_free),
        pfn_internal_allocation: raw
            .pfn_internal_allocation
            .map(|_| old_internal_allocation as _),
        pfn_internal_free: raw.pfn_internal_free.map(|_| old_internal_free as _),
    }
}

#[cold]
fn trapped(user_data: *mut c_void) {
    if let Some(watched) = watched(user_data) {
        let who = caller_context();
        watched
            .engine()
            .seen(&who, watched.owner(), Sighting::OldStruct);
    }
}

unsafe extern "system" fn old_allocation(
    user_data: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    trapped(user_data);
    // SAFETY: forwarded.
    unsafe { allocation(user_data, size, align, scope) }
}

unsafe extern "system" fn old_reallocation(
    user_data: *mut c_void,
    original: *mut c_void,
    size: usize,
    align: usize,
    scope: RawScope,
) -> *mut c_void {
    trapped(user_data);
    // SAFETY: forwarded.
    unsafe { reallocation(user_data, original, size, align, scope) }
}

unsafe extern "system" fn old_free(user_data: *mut c_void, block: *mut c_void) {
    trapped(user_data);
    // SAFETY: forwarded.
    unsafe { free(user_data, block) }
}

unsafe extern "system" fn old_internal_allocation(
    user_data: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    trapped(user_data);
    // SAFETY: forwarded.
    unsafe { internal_allocation(user_data, size, kind, scope) }
}

unsafe extern "system" fn old_internal_free(
    user_data: *mut c_void,
    size: usize,
    kind: RawInternalType,
    scope: RawScope,
) {
    trapped(user_data);
    // SAFETY: forwarded.
    unsafe { internal_free(user_data, size, kind, scope) }
}
