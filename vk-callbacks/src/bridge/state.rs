//! The state behind `pUserData`, and its three operations.
//!
//! No counter, no lock: the context behind counts, and the header in front of each block stores the rest.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostAllocator, PointerStatus, Scope, with_front};

use super::block_header::{read_words, write_word1};
use super::counters::CounterCells;
use super::live_bridges;
use crate::command::note_null_answer;
use crate::fence::{Care, CareKind, Panicked, fence, fenced};
use crate::header::{
    CookieKey, HEADER, HeaderError, HeaderPlan, Mark, Mode, Pad, SMALL_ALIGN, Word0,
};
use crate::raw::{RawCallbacks, RawRequest, RawScope};
use crate::realloc_rules::{Action, IgnoredArguments, Original, OriginalBlock, decide};
use crate::sink::{CallMistakeKind, Callback, CallbackSink as _, is_no_memory, report_mistake};

/// A bridge's state over the allocator `A`. Never moved while callbacks may come.
pub(crate) struct BridgeState<A> {
    /// [`MARK`] until the bridge ends.
    mark: AtomicUsize,
    pub(crate) backing: A,
    pub(crate) cookie_key: CookieKey,
    mode: Mode,
    pub(crate) counters: CounterCells,
}

/// Some number that memory of anything else hardly has.
const MARK: usize = 0x6b1d_9e37_c2a5_40f3_u64 as usize;

impl<A> BridgeState<A> {
    /// Whether a bridge is there, and has not ended.
    ///
    /// # Safety
    /// `state` is aligned, and can be read.
    #[inline]
    pub(super) unsafe fn is_marked(state: *const Self) -> bool {
        // SAFETY: the caller's promise; within what is read.
        let mark = unsafe { &raw const (*state).mark };
        // SAFETY: as above: a number, whatever it is.
        unsafe { &*mark }.load(Relaxed) == MARK
    }

    /// The bridge ends: calls that come nevertheless are answered with NULL, as long as the memory can be read and is no other's.
    pub(super) fn end(&self) {
        self.mark.store(0, Relaxed);
    }
}

impl<A: HostAllocator + Sync> BridgeState<A> {
    pub(crate) fn new(backing: A, cookie_key: CookieKey) -> Self {
        // A backing that tracks requesters needs the size of the front before the block exists: it must not depend on the address.
        let traits = backing.traits();
        let exact = traits.exact_alignment || traits.tracks_requester;
        let mode = if exact { Mode::Exact } else { Mode::Own };
        Self {
            mark: AtomicUsize::new(MARK),
            backing,
            cookie_key,
            mode,
            counters: CounterCells::default(),
        }
    }

    /// The care that the callbacks need. Constant, as the backing's traits are.
    pub(crate) fn care(&self) -> CareKind {
        match self.mode {
            Mode::Exact => CareKind::Guarded,
            Mode::Own if self.backing.traits().may_unwind => CareKind::Fenced,
            Mode::Own => CareKind::Plain,
        }
    }

    /// `pfnAllocation`. NULL when refused.
    #[inline(always)]
    pub(crate) fn allocate<C: Care>(
        &self,
        callback: Callback,
        size: usize,
        align: usize,
        scope: RawScope,
    ) -> *mut u8 {
        let Some(known) = scope_from(scope) else {
            let scope = (scope as isize).cast_unsigned();
            return self.refuse(callback, HeaderError::BadScope, scope);
        };
        let scope = known;
        // A branch instead of a computed pad, which would be on the critical path of every request.
        if align > SMALL_ALIGN || C::GUARDED {
            return self.allocate_aligned::<C>(callback, size, align, scope);
        }
        match HeaderPlan::small(size, align) {
            // The word is computed before the call: one value to keep across it instead of three.
            Ok(layout) => self.allocate_small::<C>(layout, scope, Word0::small(size, align, scope)),
            Err(refusal) => self.refuse_layout(callback, refusal, size, align),
        }
    }

    #[inline(always)]
    fn allocate_small<C: Care>(&self, layout: Layout, scope: Scope, word0: Word0) -> *mut u8 {
        match fence::<C, _>(|| self.backing.allocate(layout, scope)) {
            // SAFETY: `base` was just given with `layout`, and the pad of small plans is the header.
            Ok(Ok(base)) => unsafe { self.write_header(base, HEADER, word0) },
            Ok(Err(_)) => self.backing_refused(),
            Err(Panicked) => self.panicked(),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_aligned<C: Care>(
        &self,
        callback: Callback,
        size: usize,
        align: usize,
        scope: Scope,
    ) -> *mut u8 {
        match HeaderPlan::new(size, align, self.mode) {
            Ok(plan) => self.allocate_with_plan::<C>(&plan, OriginalBlock { size, align, scope }),
            Err(refusal) => self.refuse_layout(callback, refusal, size, align),
        }
    }

    #[inline(always)]
    fn allocate_with_plan<C: Care>(&self, plan: &HeaderPlan, block: OriginalBlock) -> *mut u8 {
        match fence::<C, _>(|| {
            refusal_known::<C, _>(plan, || self.backing.allocate(plan.layout, block.scope))
        }) {
            Ok(Ok(base)) => {
                let pad = plan.pad_at(base.addr().get());
                // SAFETY: `base` was just given with `plan.layout`.
                unsafe { self.place(base, pad, block, plan) }
            }
            Ok(Err(_)) => self.backing_refused(),
            Err(Panicked) => self.panicked(),
        }
    }

    /// `pfnReallocation`: [`decide`] says what, this does it.
    ///
    /// # Safety
    /// `payload` is NULL, or the 16 bytes before it can be read; if it is a live block of this bridge, nothing else uses it.
    #[inline(never)]
    pub(crate) unsafe fn reallocate<C: Care>(
        &self,
        payload: *mut u8,
        size: usize,
        align: usize,
        scope: RawScope,
    ) -> *mut u8 {
        let original = match NonNull::new(payload) {
            None => Original::Null,
            Some(payload) if self.is_refused::<C>(payload) => return ptr::null_mut(),
            Some(payload) if is_no_memory(payload.addr().get()) => {
                self.unknown(Callback::Reallocation, payload.as_ptr());
                return ptr::null_mut();
            }
            // SAFETY: forwarded from this function's contract.
            Some(payload) => match unsafe { self.read(payload) } {
                Some((word0, scope)) => Original::Ours(OriginalBlock {
                    size: word0.size(),
                    align: word0.align(),
                    scope,
                }),
                None => Original::NotOurs,
            },
        };
        match decide(original, size, align, scope, self.mode) {
            Action::Nothing => ptr::null_mut(),
            Action::Allocate => self.allocate::<C>(Callback::Reallocation, size, align, scope),
            Action::Free => {
                // SAFETY: forwarded; the header was just found to be that of a live block.
                unsafe { self.free_believed::<C>(payload) };
                ptr::null_mut()
            }
            Action::Refuse(refusal) => {
                self.refuse_layout(Callback::Reallocation, refusal, size, align)
            }
            Action::RefuseNotOurs => {
                let through = Callback::Reallocation;
                // SAFETY: forwarded.
                let Some(own) = (unsafe { self.own_callbacks_of(through, payload) }) else {
                    return ptr::null_mut();
                };
                let request = RawRequest { size, align, scope };
                // SAFETY: the block is theirs and live.
                unsafe { own.reallocation(payload.cast(), request) }.cast()
            }
            Action::Resize {
                old,
                new,
                size,
                ignored,
            } => {
                self.count_ignored(ignored, align);
                // SAFETY: `payload` is a live block of this bridge whose header says `old`; see `Original::Ours`.
                unsafe { self.resize::<C>(payload, &old, &new, size) }
            }
        }
    }

    /// `pfnFree`.
    ///
    /// # Safety
    /// As [`reallocate`](Self::reallocate).
    #[inline(always)]
    pub(crate) unsafe fn free<C: Care>(&self, payload: *mut u8) {
        if let Some(pointer) = NonNull::new(payload)
            && !self.is_refused::<C>(pointer)
        {
            // SAFETY: forwarded.
            unsafe { self.free_believed::<C>(payload) }
        }
    }

    /// Frees a pointer that no guard refused.
    ///
    /// # Safety
    /// As [`reallocate`](Self::reallocate).
    #[inline(always)]
    unsafe fn free_believed<C: Care>(&self, payload: *mut u8) {
        let Some(live) = NonNull::new(payload).filter(|live| !is_no_memory(live.addr().get()))
        else {
            if !payload.is_null() {
                self.unknown(Callback::Free, payload);
            }
            return;
        };
        // SAFETY: forwarded.
        let Some((word0, scope)) = (unsafe { self.read(live) }) else {
            // SAFETY: forwarded.
            if let Some(own) = unsafe { self.own_callbacks_of(Callback::Free, payload) } {
                // SAFETY: the block is theirs and live.
                unsafe { own.free(payload.cast()) };
            }
            return;
        };
        let align = word0.align();
        if align > SMALL_ALIGN || C::GUARDED {
            // SAFETY: forwarded; the header is that of a live block.
            return unsafe { self.free_aligned::<C>(live, word0, scope) };
        }
        // The plan was valid when the block was allocated; the header is intact, so it is now.
        let Ok(layout) = HeaderPlan::small(word0.size(), align) else {
            return;
        };
        // SAFETY: as above; this is the block's plan.
        unsafe {
            self.free_block::<C>(
                live,
                word0,
                scope,
                &HeaderPlan {
                    layout,
                    pad: Pad::Fixed(HEADER),
                },
            )
        }
    }

    /// # Safety
    /// As [`free_block`](Self::free_block).
    #[cold]
    #[inline(never)]
    unsafe fn free_aligned<C: Care>(&self, payload: NonNull<u8>, word0: Word0, scope: Scope) {
        // As in `free`.
        let Ok(plan) = HeaderPlan::new(word0.size(), word0.align(), self.mode) else {
            return;
        };
        // SAFETY: forwarded.
        unsafe { self.free_block::<C>(payload, word0, scope, &plan) }
    }

    /// # Safety
    /// `payload` is a live block of this bridge, `word0` and `scope` its header, `plan` its plan.
    #[inline(always)]
    unsafe fn free_block<C: Care>(
        &self,
        payload: NonNull<u8>,
        word0: Word0,
        scope: Scope,
        plan: &HeaderPlan,
    ) {
        // SAFETY: the header of a live block is writable.
        unsafe { write_word1(payload, self.cookie_key.freed(payload.addr().get(), word0)) };
        // SAFETY: `place` put the payload this far behind the block's start.
        let base = unsafe { payload.sub(word0.pad(plan)) };
        // SAFETY: `base` was given by this backing with this layout and scope and is live; it goes out of use here.
        let free = || unsafe { self.backing.deallocate(base, plan.layout, scope) };
        if fence::<C, _>(|| refusal_known::<C, _>(plan, free)).is_err() {
            self.counters.panics.one_more();
        }
    }

    /// A refusal of the backing leaves the block unchanged. After a panic it is unknown whether the backing still has the block, so
    /// it is not touched again: it stays marked as freed, and is leaked if it was not.
    ///
    /// # Safety
    /// `payload` is a live block of this bridge with the plan `old`; `new` is the plan of `size` with the same alignment.
    unsafe fn resize<C: Care>(
        &self,
        payload: *mut u8,
        old: &HeaderPlan,
        new: &HeaderPlan,
        size: usize,
    ) -> *mut u8 {
        // SAFETY: the caller's promise: a live block, so not NULL and with a header.
        let Some((payload, (word0, scope))) =
            NonNull::new(payload).and_then(|p| Some((p, unsafe { self.read(p) }?)))
        else {
            return ptr::null_mut();
        };
        if old.layout == new.layout {
            return payload.as_ptr();
        }
        let address = payload.addr().get();
        let old_pad = word0.pad(old);
        // SAFETY: `place` put the payload this far behind the block's start.
        let base = unsafe { payload.sub(old_pad) };
        // If the block moves, the old header must not look live.
        // SAFETY: the header of a live block is writable.
        unsafe { write_word1(payload, self.cookie_key.freed(address, word0)) };
        // SAFETY: `base` is live in this backing with `old.layout` and `scope`.
        let resize = || unsafe { self.backing.resize(base, old.layout, new.layout, scope) };
        let answer = fence::<C, _>(|| refusal_known::<C, _>(new, resize));
        let moved = match answer {
            Ok(Ok(moved)) => moved,
            Ok(Err(_)) => {
                // SAFETY: a refused resize left the block as it was.
                unsafe { write_word1(payload, self.cookie_key.live(address, word0)) };
                return self.backing_refused();
            }
            Err(Panicked) => return self.panicked(),
        };
        let pad = new.pad_at(moved.addr().get());
        let kept = word0.size().min(size);
        if pad != old_pad {
            // SAFETY: the payload was kept at `old_pad`: `old_pad + kept` is at most align + kept, which both layouts hold.
            let from = unsafe { moved.add(old_pad) };
            // SAFETY: `pad + size` fits `new.layout`, see `HeaderPlan`.
            let to = unsafe { moved.add(pad) };
            // SAFETY: both ranges lie within the block; they may overlap, so this is a memmove.
            unsafe { ptr::copy(from.as_ptr(), to.as_ptr(), kept) };
        }
        // SAFETY: `moved` was just given with `new.layout`, and `pad` is the plan's for it.
        unsafe {
            self.place(
                moved,
                pad,
                OriginalBlock {
                    size,
                    align: word0.align(),
                    scope,
                },
                new,
            )
        }
    }

    /// Whether a guard refuses the pointer, which it reported then. Nothing is read through the pointer.
    #[inline(always)]
    fn is_refused<C: Care>(&self, payload: NonNull<u8>) -> bool {
        C::GUARDED && self.refuses(payload)
    }

    #[inline(never)]
    fn refuses(&self, payload: NonNull<u8>) -> bool {
        match fenced(|| self.backing.validate_pointer(payload, HEADER)) {
            Ok(PointerStatus::Invalid) => self.counters.guard_refusals.one_more(),
            Ok(PointerStatus::Live | PointerStatus::Unknown) => return false,
            // It panicked while it reported: the status of the pointer is unknown.
            Err(Panicked) => self.counters.panics.one_more(),
        }
        true
    }

    /// Counts a pointer that is no live block of this bridge. Returns the callbacks of the bridge whose live block it is, if it is one.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    #[cold]
    unsafe fn own_callbacks_of(
        &self,
        callback: Callback,
        payload: *mut u8,
    ) -> Option<RawCallbacks> {
        let payload = NonNull::new(payload)?;
        // SAFETY: forwarded.
        let (word0, word1) = unsafe { read_words(payload) };
        if self.cookie_key.judge(payload.addr().get(), word0, word1) == Mark::Freed {
            self.counters.freed_pointers.one_more();
            report_mistake(callback, CallMistakeKind::Pointer, payload.addr().get());
            return None;
        }
        let own = live_bridges::callbacks_of_block(payload, word0, word1);
        match own {
            Some(_) => self.counters.foreign_pointers.one_more(),
            None => self.unknown(callback, payload.as_ptr()),
        }
        own
    }

    #[cold]
    fn unknown(&self, callback: Callback, payload: *mut u8) {
        self.counters.unknown_pointers.one_more();
        report_mistake(callback, CallMistakeKind::Pointer, payload.addr());
    }

    #[cold]
    fn refuse_layout(
        &self,
        callback: Callback,
        refusal: HeaderError,
        size: usize,
        align: usize,
    ) -> *mut u8 {
        let value = match refusal {
            HeaderError::BadAlignment => align,
            HeaderError::TooLarge | HeaderError::BadScope => size,
        };
        self.refuse(callback, refusal, value)
    }

    #[cold]
    fn refuse(&self, callback: Callback, refusal: HeaderError, value: usize) -> *mut u8 {
        let (counter, kind) = match refusal {
            HeaderError::TooLarge => (&self.counters.too_large, CallMistakeKind::Size),
            HeaderError::BadAlignment => {
                (&self.counters.bad_alignments, CallMistakeKind::Alignment)
            }
            HeaderError::BadScope => (&self.counters.bad_scopes, CallMistakeKind::Scope),
        };
        counter.one_more();
        report_mistake(callback, kind, value);
        note_null_answer();
        ptr::null_mut()
    }

    #[cold]
    fn backing_refused(&self) -> *mut u8 {
        self.counters.backing_refusals.one_more();
        note_null_answer();
        ptr::null_mut()
    }

    #[cold]
    fn panicked(&self) -> *mut u8 {
        self.counters.panics.one_more();
        note_null_answer();
        ptr::null_mut()
    }

    fn count_ignored(&self, ignored: IgnoredArguments, align: usize) {
        if ignored.alignment {
            self.counters.alignment_changes.one_more();
            report_mistake(Callback::Reallocation, CallMistakeKind::Alignment, align);
        }
        if ignored.scope {
            self.counters.scope_changes.one_more();
        }
    }
}

/// Runs a call of the backing about a block of `plan`; a guard gets the size of the block's front, which C does not see.
#[inline(always)]
fn refusal_known<C: Care, R>(plan: &HeaderPlan, call: impl FnOnce() -> R) -> R {
    match plan.pad {
        Pad::Fixed(front) if C::GUARDED => with_front(front, call),
        _ => call(),
    }
}

/// One of Vulkan's five scopes.
#[inline]
pub(crate) fn scope_from(raw: RawScope) -> Option<Scope> {
    Scope::from_raw(raw.cast_unsigned())
}
