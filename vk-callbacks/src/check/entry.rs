//! The C functions of checked callbacks. The rules are the engine's; here is the order of things.
//!
//! A free is taken out of the table before it is passed on, an allocation put in after it came, and a block is in transit while it
//! is reallocated: otherwise another thread may be given its address first. No lock is held over a call.

use core::ffi::c_void;
use core::num::NonZeroU64;
use core::ptr::{self, NonNull};

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
use crate::raw::{RawCallbacks, RawNotice, RawRequest};
use crate::sink::CallbackSink;
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
        let all = RawCallbacks::of_sink::<Watched<'_>>(ptr::without_provenance_mut(user_data));
        Self {
            raw: with_notifications_of(all, inner),
        }
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

    fn allocate(&self, request: RawRequest) -> *mut c_void {
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { self.inner.allocation(request) }
    }

    fn resize(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        let _inside = thread::enter_callback();
        // SAFETY: as in `allocate`.
        unsafe { self.inner.reallocation(original, request) }
    }

    fn free_block(&self, block: *mut c_void) {
        let _inside = thread::enter_callback();
        // SAFETY: as in `allocate`; the block is theirs and live.
        unsafe { self.inner.free(block) }
    }

    /// A reallocation of a block to another size than 0.
    fn move_block(
        &self,
        who: &CallerContext<'_, 'static>,
        original: *mut c_void,
        old: NonZeroU64,
        request: RawRequest,
    ) -> *mut c_void {
        let asked = BlockRequest::from(request);
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
        let block = self.resize(original, request);
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
fn watched<'a, 'h>(user_data: *mut c_void) -> Option<&'a Watched<'h>> {
    match user_data::find(user_data) {
        // SAFETY: the slot holds what `wrap` placed, which stays until the checker goes, and then no call is running.
        Some(watched) => Some(unsafe { &*watched.cast::<Watched<'h>>() }),
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

/// All three functions that must be there, and of the notifications those that `inner` has.
fn with_notifications_of(all: RawCallbacks, inner: &RawCallbacks) -> RawCallbacks {
    let only = all.only_those_of(inner);
    RawCallbacks {
        pfn_internal_allocation: only.pfn_internal_allocation,
        pfn_internal_free: only.pfn_internal_free,
        ..all
    }
}

impl CallbackSink for Watched<'_> {
    unsafe fn of_user_data<'a>(user_data: *mut c_void) -> Option<&'a Self>
    where
        Self: 'a,
    {
        watched(user_data)
    }

    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        let who = caller_context();
        let asked = BlockRequest::from(request);
        self.engine().make_ready();
        self.engine().requested(&who, self.owner(), asked);
        let nulls = nulls(&who);
        let block = self.allocate(request);
        self.answer(&who, asked, nulls, block)
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        let who = caller_context();
        let asked = BlockRequest::from(request);
        let (engine, owner) = (self.engine(), self.owner());
        match (number(original), request.size) {
            (Some(old), 0) => {
                if engine.released(&who, owner, old) == Pass::Not {
                    return ptr::null_mut();
                }
                let block = self.resize(original, request);
                if number(block).is_some() {
                    engine.zero_answered(&who, owner, asked);
                    return self.answer(&who, asked, 0, block);
                }
                block
            }
            (Some(old), _) => self.move_block(&who, original, old, request),
            (None, 0) => {
                let block = self.resize(original, request);
                if number(block).is_some() {
                    self.answer(&who, asked, 0, block)
                } else {
                    block
                }
            }
            (None, _) => {
                engine.make_ready();
                engine.requested(&who, owner, asked);
                let nulls = nulls(&who);
                let block = self.resize(original, request);
                self.answer(&who, asked, nulls, block)
            }
        }
    }

    unsafe fn free(&self, block: *mut c_void) {
        let who = caller_context();
        match number(block) {
            None => self.engine().freed_null(&who, self.owner()),
            Some(address) => {
                if self.engine().released(&who, self.owner(), address) == Pass::Not {
                    return;
                }
            }
        }
        self.free_block(block);
    }

    unsafe fn notification(&self, notice: RawNotice) {
        let (engine, owner) = (self.engine(), self.owner());
        engine.notified(
            &caller_context(),
            owner,
            notice.event,
            notice.size as u64,
            notice.kind,
            notice.scope,
        );
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data these callbacks came with.
        unsafe { self.inner.notification(notice) }
    }
}

/// What the functions lead to that stand in a struct which nobody may use any more (V6): each call is reported, and does what it should.
#[repr(transparent)]
struct Trapped<'h>(Watched<'h>);

/// Such functions for those in `raw`.
pub(super) fn traps(raw: &RawCallbacks) -> RawCallbacks {
    with_notifications_of(RawCallbacks::of_sink::<Trapped<'_>>(raw.p_user_data), raw)
}

impl CallbackSink for Trapped<'_> {
    #[cold]
    unsafe fn of_user_data<'a>(user_data: *mut c_void) -> Option<&'a Self>
    where
        Self: 'a,
    {
        let watched: &'a Watched<'_> = watched(user_data)?;
        watched
            .engine()
            .seen(&caller_context(), watched.owner(), Sighting::OldStruct);
        // SAFETY: transparent.
        Some(unsafe { &*ptr::from_ref(watched).cast::<Self>() })
    }

    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        // SAFETY: forwarded.
        unsafe { self.0.allocation(request) }
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        // SAFETY: forwarded.
        unsafe { self.0.reallocation(original, request) }
    }

    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: forwarded.
        unsafe { self.0.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        // SAFETY: forwarded.
        unsafe { self.0.notification(notice) }
    }
}
