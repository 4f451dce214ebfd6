//! The context counts, and the header stores the rest, so there is no lock. Two promises have names below:
//!
//! - a pointer is *readable* if the 16 bytes before it can be read, as of every pointer that Vulkan's rules allow here;
//! - a *live block* of this bridge was allocated by it and not freed: its header is intact.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostAllocator, PointerStatus, Scope, with_front};

use super::block_header::{read_words, write_word1};
use super::counters::{Count, CounterCells};
use super::live_bridges;
use crate::command::note_null_answer;
use crate::fence::{Care, CareKind, Panicked, fence, fenced};
use crate::header::{CookieKey, HEADER, HeaderError, HeaderPlan, Mark, Mode, Pad, SMALL_ALIGN, Word0};
use crate::raw::{RawCallbacks, RawRequest, RawScope};
use crate::sink::{CallMistakeKind, Callback, CallbackSink as _, is_no_memory, report_mistake};

/// A bridge's state over the allocator `A`. Never moved while callbacks may come.
pub(crate) struct BridgeState<A> {
    mark: AtomicUsize,
    pub(crate) backing: A,
    pub(crate) cookie_key: CookieKey,
    mode: Mode,
    pub(crate) counters: CounterCells,
}

const MARK: usize = 0x6b1d_9e37_c2a5_40f3_u64 as usize;

impl<A> BridgeState<A> {
    /// # Safety
    /// `state` is aligned, and can be read.
    #[inline]
    pub(super) unsafe fn is_marked(state: *const Self) -> bool {
        // SAFETY: aligned memory that can be read.
        let mark = unsafe { &raw const (*state).mark };
        // SAFETY: within that memory: a number, whatever it is.
        unsafe { &*mark }.load(Relaxed) == MARK
    }

    /// Later calls are answered with NULL, as long as the memory can be read and is no other's.
    pub(super) fn end(&self) {
        self.mark.store(0, Relaxed);
    }
}

impl<A: HostAllocator + Sync> BridgeState<A> {
    pub(crate) fn new(backing: A, cookie_key: CookieKey) -> Self {
        // A backing that tracks requesters needs the size of the front before the block exists: it must not depend on
        // the address.
        let traits = backing.traits();
        let exact = traits.exact_alignment || traits.tracks_requester;
        let mode = if exact { Mode::Exact } else { Mode::Own };
        Self { mark: AtomicUsize::new(MARK), backing, cookie_key, mode, counters: CounterCells::default() }
    }

    pub(crate) fn care(&self) -> CareKind {
        match self.mode {
            Mode::Exact => CareKind::Guarded,
            Mode::Own if self.backing.traits().may_unwind => CareKind::Fenced,
            Mode::Own => CareKind::Plain,
        }
    }

    #[inline(always)]
    pub(crate) fn allocate<C: Care>(&self, callback: Callback, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let Some(known) = scope_from(scope) else {
            let scope = (scope as isize).cast_unsigned();
            let counter = &self.counters.bad_scopes;
            return self.refuse(counter, (callback, CallMistakeKind::Scope, scope));
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
            Ok(Err(_)) => self.answer_null(&self.counters.backing_refusals),
            Err(Panicked) => self.answer_null(&self.counters.panics),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_aligned<C: Care>(&self, callback: Callback, size: usize, align: usize, scope: Scope) -> *mut u8 {
        let plan = match HeaderPlan::new(size, align, self.mode) {
            Ok(plan) => plan,
            Err(refusal) => return self.refuse_layout(callback, refusal, size, align),
        };
        let allocate = || self.backing.allocate(plan.layout, scope);
        match fence::<C, _>(|| with_front_of::<C, _>(&plan, allocate)) {
            Ok(Ok(base)) => {
                let pad = plan.pad_at(base.addr().get());
                let word0 = Word0::new(size, align, scope, &plan, pad);
                // SAFETY: `base` was just given with `plan.layout`, and `pad` is the plan's for it.
                unsafe { self.write_header(base, pad, word0) }
            }
            Ok(Err(_)) => self.answer_null(&self.counters.backing_refusals),
            Err(Panicked) => self.answer_null(&self.counters.panics),
        }
    }

    /// `pfnReallocation` (V11 to V17). A block keeps its alignment and its scope, whatever the call names.
    ///
    /// # Safety
    /// `payload` is NULL or *readable*; if it is a *live block*, nothing else uses it (see the module).
    #[inline(never)]
    pub(crate) unsafe fn reallocate<C: Care>(
        &self,
        payload: *mut u8,
        size: usize,
        align: usize,
        scope: RawScope,
    ) -> *mut u8 {
        const THROUGH: Callback = Callback::Reallocation;
        let Some(live) = NonNull::new(payload) else {
            return match size {
                0 => ptr::null_mut(),
                _ => self.allocate::<C>(THROUGH, size, align, scope),
            };
        };
        if self.is_refused::<C>(THROUGH, live) {
            return ptr::null_mut();
        }
        // SAFETY: a readable pointer.
        let Some((word0, own_scope)) = (unsafe { self.read(live) }) else {
            // SAFETY: a readable pointer.
            let Some(own) = (unsafe { self.own_callbacks_of(THROUGH, live) }) else {
                return ptr::null_mut();
            };
            let request = RawRequest { size, align, scope };
            // SAFETY: the block is theirs and live.
            return unsafe { own.reallocation(payload.cast(), request) }.cast();
        };
        if size == 0 {
            // SAFETY: a live block of this bridge with this header, which nothing else uses.
            unsafe { self.free_live::<C>(live, word0, own_scope) };
            return ptr::null_mut();
        }
        // The plan was valid when the block was allocated, and the header is intact.
        let Ok(old) = HeaderPlan::new(word0.size(), word0.align(), self.mode) else {
            return ptr::null_mut();
        };
        let new = match HeaderPlan::new(size, word0.align(), self.mode) {
            Ok(new) => new,
            Err(refusal) => return self.refuse_layout(THROUGH, refusal, size, align),
        };
        if align != word0.align() {
            self.counters.alignment_changes.one_more();
            report_mistake(THROUGH, CallMistakeKind::Alignment, align);
        }
        if scope != own_scope.as_raw().cast_signed() {
            self.counters.scope_changes.one_more();
        }
        if old.layout == new.layout {
            return payload;
        }
        // SAFETY: a live block of this bridge, with its header and its plans.
        unsafe { self.resize::<C>(live, (word0, own_scope), (&old, &new), size) }
    }

    /// # Safety
    /// As [`reallocate`](Self::reallocate).
    #[inline(always)]
    pub(crate) unsafe fn free<C: Care>(&self, payload: *mut u8) {
        let Some(live) = NonNull::new(payload) else {
            return;
        };
        if self.is_refused::<C>(Callback::Free, live) {
            return;
        }
        // SAFETY: a readable pointer.
        if let Some((word0, scope)) = unsafe { self.read(live) } {
            // SAFETY: a live block of this bridge with this header, which nothing else uses.
            return unsafe { self.free_live::<C>(live, word0, scope) };
        }
        // SAFETY: a readable pointer.
        if let Some(own) = unsafe { self.own_callbacks_of(Callback::Free, live) } {
            // SAFETY: the block is theirs and live.
            unsafe { own.free(payload.cast()) };
        }
    }

    /// # Safety
    /// `payload` is a *live block* of this bridge that nothing else uses; `word0` and `scope` are its header.
    #[inline(always)]
    unsafe fn free_live<C: Care>(&self, payload: NonNull<u8>, word0: Word0, scope: Scope) {
        let align = word0.align();
        if align > SMALL_ALIGN || C::GUARDED {
            // SAFETY: a live block with this header.
            return unsafe { self.free_aligned::<C>(payload, word0, scope) };
        }
        let Ok(layout) = HeaderPlan::small(word0.size(), align) else {
            return;
        };
        let plan = HeaderPlan { layout, pad: Pad::Fixed(HEADER) };
        // SAFETY: a live block with this header, and its plan.
        unsafe { self.free_block::<C>(payload, word0, scope, &plan) }
    }

    /// # Safety
    /// As [`free_live`](Self::free_live).
    #[cold]
    #[inline(never)]
    unsafe fn free_aligned<C: Care>(&self, payload: NonNull<u8>, word0: Word0, scope: Scope) {
        let Ok(plan) = HeaderPlan::new(word0.size(), word0.align(), self.mode) else {
            return;
        };
        // SAFETY: a live block with this header, and its plan.
        unsafe { self.free_block::<C>(payload, word0, scope, &plan) }
    }

    /// # Safety
    /// As [`free_live`](Self::free_live); `plan` is the block's.
    #[inline(always)]
    unsafe fn free_block<C: Care>(&self, payload: NonNull<u8>, word0: Word0, scope: Scope, plan: &HeaderPlan) {
        // SAFETY: the header of a live block is writable.
        unsafe { write_word1(payload, self.cookie_key.freed(payload.addr().get(), word0)) };
        // SAFETY: `write_header` put the payload this far behind the block's start.
        let base = unsafe { payload.sub(word0.pad(plan)) };
        // SAFETY: `base` was given by this backing with this layout and scope and is live; it goes out of use here.
        let free = || unsafe { self.backing.deallocate(base, plan.layout, scope) };
        if fence::<C, _>(|| with_front_of::<C, _>(plan, free)).is_err() {
            self.counters.panics.one_more();
        }
    }

    /// After a panic it is unknown whether the backing still has the block: it stays marked as freed, and is leaked if
    /// it was not.
    ///
    /// # Safety
    /// As [`free_live`](Self::free_live); `old` is the block's plan, `new` the plan of `size` with the same alignment.
    unsafe fn resize<C: Care>(
        &self,
        payload: NonNull<u8>,
        (word0, scope): (Word0, Scope),
        (old, new): (&HeaderPlan, &HeaderPlan),
        size: usize,
    ) -> *mut u8 {
        let address = payload.addr().get();
        let old_pad = word0.pad(old);
        // SAFETY: `write_header` put the payload this far behind the block's start.
        let base = unsafe { payload.sub(old_pad) };
        // If the block moves, the old header must not look live.
        // SAFETY: the header of a live block is writable.
        unsafe { write_word1(payload, self.cookie_key.freed(address, word0)) };
        // SAFETY: `base` is live in this backing with `old.layout` and `scope`.
        let resize = || unsafe { self.backing.resize(base, old.layout, new.layout, scope) };
        let moved = match fence::<C, _>(|| with_front_of::<C, _>(new, resize)) {
            Ok(Ok(moved)) => moved,
            Ok(Err(_)) => {
                // SAFETY: a refused resize left the block as it was.
                unsafe { write_word1(payload, self.cookie_key.live(address, word0)) };
                return self.answer_null(&self.counters.backing_refusals);
            }
            Err(Panicked) => return self.answer_null(&self.counters.panics),
        };
        let pad = new.pad_at(moved.addr().get());
        let kept = word0.size().min(size);
        if pad != old_pad {
            // SAFETY: both layouts hold `old_pad + kept` bytes.
            let from = unsafe { moved.add(old_pad) };
            // SAFETY: `pad + size` fits `new.layout`, see `HeaderPlan`.
            let to = unsafe { moved.add(pad) };
            // SAFETY: both ranges lie within the block; they may overlap, so this is a memmove.
            unsafe { ptr::copy(from.as_ptr(), to.as_ptr(), kept) };
        }
        let word0 = Word0::new(size, word0.align(), scope, new, pad);
        // SAFETY: `moved` was just given with `new.layout`, and `pad` is the plan's for it.
        unsafe { self.write_header(moved, pad, word0) }
    }

    #[inline(always)]
    fn is_refused<C: Care>(&self, callback: Callback, payload: NonNull<u8>) -> bool {
        if C::GUARDED && self.refuses(payload) {
            return true;
        }
        let is_nowhere = is_no_memory(payload.addr().get());
        if is_nowhere {
            self.unknown(callback, payload);
        }
        is_nowhere
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

    /// # Safety
    /// `payload` is *readable*.
    #[cold]
    unsafe fn own_callbacks_of(&self, callback: Callback, payload: NonNull<u8>) -> Option<RawCallbacks> {
        // SAFETY: a readable pointer.
        let (word0, word1) = unsafe { read_words(payload) };
        if self.cookie_key.judge(payload.addr().get(), word0, word1) == Mark::Freed {
            self.counters.freed_pointers.one_more();
            report_mistake(callback, CallMistakeKind::Pointer, payload.addr().get());
            return None;
        }
        let own = live_bridges::callbacks_of_block(payload, word0, word1);
        match own {
            Some(_) => self.counters.foreign_pointers.one_more(),
            None => self.unknown(callback, payload),
        }
        own
    }

    #[cold]
    fn unknown(&self, callback: Callback, payload: NonNull<u8>) {
        self.counters.unknown_pointers.one_more();
        report_mistake(callback, CallMistakeKind::Pointer, payload.addr().get());
    }

    #[cold]
    fn refuse_layout(&self, callback: Callback, refusal: HeaderError, size: usize, align: usize) -> *mut u8 {
        let (counter, kind, value) = match refusal {
            HeaderError::TooLarge => (&self.counters.too_large, CallMistakeKind::Size, size),
            HeaderError::BadAlignment => (&self.counters.bad_alignments, CallMistakeKind::Alignment, align),
        };
        self.refuse(counter, (callback, kind, value))
    }

    #[cold]
    fn refuse(&self, counter: &Count, (callback, kind, value): (Callback, CallMistakeKind, usize)) -> *mut u8 {
        counter.one_more();
        report_mistake(callback, kind, value);
        note_null_answer();
        ptr::null_mut()
    }

    #[cold]
    fn answer_null(&self, counter: &Count) -> *mut u8 {
        counter.one_more();
        note_null_answer();
        ptr::null_mut()
    }
}

/// A guard gets the size of the block's front, which C does not see.
#[inline(always)]
fn with_front_of<C: Care, R>(plan: &HeaderPlan, call: impl FnOnce() -> R) -> R {
    match plan.pad {
        Pad::Fixed(front) if C::GUARDED => with_front(front, call),
        _ => call(),
    }
}

#[inline]
pub(crate) fn scope_from(raw: RawScope) -> Option<Scope> {
    Scope::from_raw(raw.cast_unsigned())
}
