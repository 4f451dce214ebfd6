//! The C functions of checked callbacks: the order of records and calls.
//!
//! A freed block leaves the table before the free is passed on, an allocated one enters it after the allocation
//! returned, and a block is in transit during its reallocation: otherwise another thread may get its address first.

use core::ffi::c_void;
use core::num::{NonZeroU64, NonZeroUsize};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::allocator_rules::Pass;
use super::checker::CheckerState;
use super::engine::{CallbackCall, CallerContext, Engine};
use super::finding::{CheckFinding, FindingKind};
use super::owner::CallbackOwner;
use super::records::{BlockRequest, WatchedEntry, hash_of};
use super::user_data;
use crate::command::thread;
use crate::raw::{RawCallbacks, RawNotice, RawRequest};
use crate::sink::CallbackSink;
use crate::trace::Sighting;

/// Callbacks of [`Checker::wrap`](crate::Checker::wrap), to pass to Vulkan instead of the inner ones.
///
/// A copy is as good as the original. Valid until the checker ends, or they are [retired](crate::Checker::retire).
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    raw: RawCallbacks,
}

impl Checked {
    pub(super) fn new(inner: &RawCallbacks, user_data: usize) -> Self {
        let all = RawCallbacks::of_sink::<Watched<'_>>(ptr::without_provenance_mut(user_data));
        Self { raw: with_notifications_of(all, inner) }
    }

    /// The C struct. The user data is a number, no address: unknown user data is never dereferenced (V5).
    #[must_use]
    pub const fn raw(&self) -> &RawCallbacks {
        &self.raw
    }

    /// The address of the C struct, valid while `self` lives and does not move.
    #[must_use]
    pub const fn as_ptr(&self) -> *const RawCallbacks {
        &raw const self.raw
    }
}

/// The sink of checked callbacks, in the checker's memory until the checker ends.
pub(super) struct Watched<'h> {
    shared: NonNull<CheckerState<'h>>,
    pub(super) owner: NonNull<CallbackOwner<'static>>,
    inner: RawCallbacks,
    hash: u32,
}

impl<'h> Watched<'h> {
    pub(super) fn new(
        shared: NonNull<CheckerState<'h>>,
        owner: NonNull<CallbackOwner<'static>>,
        inner: RawCallbacks,
    ) -> Self {
        Self { shared, owner, inner, hash: hash_of(&inner) }
    }

    pub(super) fn entry(&self, user_data: *mut c_void) -> WatchedEntry {
        WatchedEntry::new(&self.inner, self.owner(), user_data)
    }

    fn engine(&self) -> &Engine<'h, 'static> {
        // SAFETY: the shared part outlives what is watched.
        &unsafe { self.shared.as_ref() }.engine
    }

    fn owner(&self) -> &CallbackOwner<'static> {
        // SAFETY: the engine's owners stay until the engine ends.
        unsafe { self.owner.as_ref() }
    }

    #[inline]
    fn call(&self) -> CallbackCall<'_, 'static> {
        CallbackCall { caller: caller_context(), owner: self.owner(), callbacks: self.hash }
    }

    #[inline]
    fn answer(
        &self,
        call: &CallbackCall<'_, 'static>,
        request: BlockRequest,
        nulls: u32,
        block: *mut c_void,
    ) -> *mut c_void {
        let Some(address) = number(block) else {
            self.count_null(&call.caller, nulls);
            return block;
        };
        if is_misaligned(address, request) {
            self.engine().misaligned(call, request);
        }
        if self.engine().answered(None, call, request, address).is_err() {
            return self.no_record(&call.caller, block);
        }
        block
    }

    #[cold]
    fn no_record(&self, caller: &CallerContext<'_, 'static>, block: *mut c_void) -> *mut c_void {
        self.free_block(block);
        self.engine().refused(caller);
        ptr::null_mut()
    }

    /// Counts one NULL, unless the inner callbacks counted it, as a bridge does.
    #[cold]
    fn count_null(&self, caller: &CallerContext<'_, 'static>, before: u32) {
        if nulls(caller) == before {
            self.engine().refused(caller);
        }
    }

    fn allocate(&self, request: RawRequest) -> *mut c_void {
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data of these callbacks.
        unsafe { self.inner.allocation(request) }
    }

    fn resize(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data of these callbacks.
        unsafe { self.inner.reallocation(original, request) }
    }

    fn free_block(&self, block: *mut c_void) {
        let _inside = thread::enter_callback();
        // SAFETY: with the user data of these callbacks; the block is theirs and live.
        unsafe { self.inner.free(block) }
    }

    fn move_block(
        &self,
        call: &CallbackCall<'_, 'static>,
        original: *mut c_void,
        old: NonZeroU64,
        raw_request: RawRequest,
    ) -> *mut c_void {
        let request = BlockRequest::from(raw_request);
        let (engine, caller) = (self.engine(), &call.caller);
        engine.make_ready();
        let Some(before) = engine.moving(call, old, request.scope()) else {
            engine.refused(caller);
            return ptr::null_mut();
        };
        engine.move_requested(call, &before, request);
        // Room for its record at any address; without room nothing is done, and the old block stays (V16).
        let Ok(room) = engine.blocks.promise() else {
            engine.not_moved(call, old, &before, false);
            engine.refused(caller);
            return ptr::null_mut();
        };
        let nulls = nulls(caller);
        let block = match before.pass {
            Pass::ToOwn(user_data) => own(user_data).map_or(ptr::null_mut(), |own| own.resize(original, raw_request)),
            _ => self.resize(original, raw_request),
        };
        match number(block) {
            Some(new) => {
                if before.block.align == request.align && is_misaligned(new, request) {
                    engine.misaligned(call, request);
                }
                engine.moved(call, (old, new), &before, request.size, &room);
            }
            None => {
                engine.not_moved(call, old, &before, true);
                self.count_null(caller, nulls);
            }
        }
        block
    }
}

#[inline]
pub(super) fn caller_context<'a>() -> CallerContext<'a, 'static> {
    // SAFETY: null or the frame of a `run` of this thread, which ends after the current call.
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
    CallerContext { bracket: None, thread: thread::thread_number(), issued, known: cfg!(feature = "std"), at: 0 }
}

fn nulls(caller: &CallerContext<'_, 'static>) -> u32 {
    caller.bracket.map_or(0, |bracket| bracket.nulls.get())
}

fn number(block: *mut c_void) -> Option<NonZeroU64> {
    NonZeroU64::new(block.addr() as u64)
}

#[inline]
fn is_misaligned(address: NonZeroU64, request: BlockRequest) -> bool {
    request.align.is_power_of_two() && address.get() & request.align.wrapping_sub(1) != 0
}

/// Unknown user data is reported to the checker of the running command.
#[inline]
fn watched<'a, 'h>(user_data: *mut c_void) -> Option<&'a Watched<'h>> {
    match user_data::find(user_data) {
        // SAFETY: the slot holds a value of `wrap`, which stays while a call is running.
        Some(watched) => Some(unsafe { &*watched.cast::<Watched<'h>>() }),
        None => {
            stray();
            None
        }
    }
}

/// Those stay watched while a block of theirs is live (`Checker::retire`).
#[cold]
fn own<'a, 'h>(user_data: NonZeroUsize) -> Option<&'a Watched<'h>> {
    watched(ptr::without_provenance_mut(user_data.get()))
}

#[cold]
fn stray() {
    // SAFETY: null or the frame of a `run` of this thread, which ends after the current call.
    let frame = unsafe { thread::top().as_ref() };
    let engine = frame.map_or(ptr::null(), |frame| frame.checker()).cast::<Engine<'_, 'static>>();
    // SAFETY: the checker of this command is borrowed until the command ends.
    match (unsafe { engine.as_ref() }, frame) {
        (Some(engine), Some(frame)) => {
            let bracket = frame.bracket();
            engine.report(CheckFinding {
                command: bracket.name,
                first_serial: bracket.serial,
                ..CheckFinding::one(FindingKind::UnknownUserData)
            });
        }
        _ => user_data::one_more_stray(),
    }
}

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

    unsafe fn allocation(&self, raw_request: RawRequest) -> *mut c_void {
        let call = self.call();
        let request = BlockRequest::from(raw_request);
        self.engine().make_ready();
        self.engine().requested(&call, request);
        let nulls = nulls(&call.caller);
        let block = self.allocate(raw_request);
        self.answer(&call, request, nulls, block)
    }

    unsafe fn reallocation(&self, original: *mut c_void, raw_request: RawRequest) -> *mut c_void {
        let call = self.call();
        let request = BlockRequest::from(raw_request);
        let engine = self.engine();
        match (number(original), request.size) {
            (Some(old), 0) => match engine.released(&call, old) {
                Pass::On => {}
                Pass::ToOwn(user_data) => {
                    own(user_data).into_iter().for_each(|own| own.free_block(original));
                    return ptr::null_mut();
                }
                Pass::Not => return ptr::null_mut(),
            },
            (Some(old), _) => return self.move_block(&call, original, old, raw_request),
            (None, 0) => {}
            (None, _) => {
                engine.make_ready();
                engine.requested(&call, request);
            }
        }
        let nulls = nulls(&call.caller);
        let block = self.resize(original, raw_request);
        if request.size == 0 && block.is_null() {
            return block;
        }
        if request.size == 0 && !original.is_null() {
            engine.zero_answered(&call, request.scope());
        }
        self.answer(&call, request, nulls, block)
    }

    unsafe fn free(&self, block: *mut c_void) {
        let call = self.call();
        match number(block) {
            None => self.engine().freed_null(&call),
            Some(address) => match self.engine().released(&call, address) {
                Pass::On => {}
                Pass::ToOwn(user_data) => {
                    own(user_data).into_iter().for_each(|own| own.free_block(block));
                    return;
                }
                Pass::Not => return,
            },
        }
        self.free_block(block);
    }

    unsafe fn notification(&self, notice: RawNotice) {
        let RawNotice { event, size, kind, scope } = notice;
        self.engine().notified(&self.call(), event, size as u64, kind, scope);
        let _inside = thread::enter_callback();
        // SAFETY: the same call, with the user data of these callbacks.
        unsafe { self.inner.notification(notice) }
    }
}

/// The sink of a poisoned struct (V6): it reports each call and passes it on.
#[repr(transparent)]
struct Trapped<'h>(Watched<'h>);

fn traps(raw: &RawCallbacks) -> RawCallbacks {
    with_notifications_of(RawCallbacks::of_sink::<Trapped<'_>>(raw.p_user_data), raw)
}

impl CallbackSink for Trapped<'_> {
    #[cold]
    unsafe fn of_user_data<'a>(user_data: *mut c_void) -> Option<&'a Self>
    where
        Self: 'a,
    {
        let watched: &'a Watched<'_> = watched(user_data)?;
        watched.engine().seen(&watched.call(), Sighting::OldStruct);
        // SAFETY: transparent.
        Some(unsafe { &*ptr::from_ref(watched).cast::<Self>() })
    }

    unsafe fn allocation(&self, request: RawRequest) -> *mut c_void {
        // SAFETY: the same call; `Watched` has the same contract.
        unsafe { self.0.allocation(request) }
    }

    unsafe fn reallocation(&self, original: *mut c_void, request: RawRequest) -> *mut c_void {
        // SAFETY: the same call; `Watched` has the same contract.
        unsafe { self.0.reallocation(original, request) }
    }

    unsafe fn free(&self, block: *mut c_void) {
        // SAFETY: the same call; `Watched` has the same contract.
        unsafe { self.0.free(block) }
    }

    unsafe fn notification(&self, notice: RawNotice) {
        // SAFETY: the same call; `Watched` has the same contract.
        unsafe { self.0.notification(notice) }
    }
}

/// A struct of checked callbacks, in the checker's memory: pass [`as_ptr`](HandedOut::as_ptr) to the creating command,
/// and [`poison`](HandedOut::poison) it when the command returned.
///
/// A driver that kept the address of the struct calls functions that report and pass the call on. It may read while the
/// struct is overwritten: every mixture of words works.
#[derive(Debug)]
pub struct HandedOut<'c>(pub(super) &'c Handed);

#[derive(Debug)]
pub(super) struct Handed {
    raw: Words,
    passed: RawCallbacks,
}

/// ```text
///   0           8               16                24        32                      40                48 (on 64 bits)
///   | pUserData | pfnAllocation | pfnReallocation | pfnFree | pfnInternalAllocation | pfnInternalFree |
/// ```
#[derive(Debug)]
#[repr(C)]
pub(super) struct Words([AtomicPtr<c_void>; 6]);

const _: () =
    assert!(size_of::<Words>() == size_of::<RawCallbacks>() && align_of::<Words>() == align_of::<RawCallbacks>());

impl Words {
    fn new(raw: &RawCallbacks) -> Self {
        Self(raw.words().map(AtomicPtr::new))
    }
}

impl HandedOut<'_> {
    /// The `pAllocator` to pass. Valid until the checker ends.
    #[must_use]
    pub const fn as_ptr(&self) -> *const RawCallbacks {
        (&raw const self.0.raw).cast()
    }

    /// Overwrites the struct with functions that report each call (V6) and pass it on.
    ///
    /// # Safety
    /// No command that got the struct is running: a correct driver does not read it now.
    pub unsafe fn poison(&self) {
        let Handed { raw, passed } = self.0;
        for (word, trap) in raw.0.iter().zip(traps(passed).words()) {
            word.store(trap, Ordering::Relaxed);
        }
    }
}

impl Handed {
    pub(super) fn new(passed: RawCallbacks) -> Self {
        Self { raw: Words::new(&passed), passed }
    }
}
