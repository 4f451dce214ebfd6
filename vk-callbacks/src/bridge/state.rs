//! What `pUserData` points at, and the three operations on it.
//!
//! No counter, no lock: the account behind (a context) counts, and the header in front of each block tells the rest.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use alloc_core::{HostAllocator, Scope, Vetted, with_front};

use super::notes::NoteCells;
use crate::command::note_null_answer;
use crate::fence::{Care, Panicked, fence, fenced};
use crate::header::{HEADER, Mark, Mode, Pad, Plan, Refusal, SMALL_ALIGN, Seal, Word0};
use crate::raw::RawScope;
use crate::realloc_rules::{Action, Block, Noted, Original, decide};

/// One bridge's state over the allocator `A`. Never moved while callbacks may come.
pub(crate) struct State<A> {
    pub(crate) backing: A,
    pub(crate) seal: Seal,
    mode: Mode,
    pub(crate) notes: NoteCells,
}

impl<A: HostAllocator + Sync> State<A> {
    pub(crate) fn new(backing: A, seal: Seal) -> Self {
        // Whoever wants to know who asks is told what stands in front of a block before the block is there: so it must not depend on where.
        let exact = backing.exact_alignment() || backing.wants_origin();
        let mode = if exact { Mode::Exact } else { Mode::Own };
        Self { backing, seal, mode, notes: NoteCells::default() }
    }

    /// True when the callbacks are to be those of [`Guarded`](crate::fence::Guarded).
    pub(crate) fn is_guarded(&self) -> bool {
        self.mode == Mode::Exact
    }

    /// `pfnAllocation`. NULL when refused.
    #[inline(always)]
    pub(crate) fn allocate<C: Care>(&self, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let Some(scope) = scope_from(scope) else { return self.refuse(Refusal::BadScope) };
        // A branch, and not a pad computed from the alignment: that would stand on the critical path of every request.
        if align > SMALL_ALIGN || C::GUARDED {
            return self.allocate_aligned::<C>(size, align, scope);
        }
        match Plan::small(size, align) {
            // The word is made before the call: one value to keep over it instead of three.
            Ok(layout) => self.take_small::<C>(layout, scope, Word0::small(size, align, scope)),
            Err(refusal) => self.refuse(refusal),
        }
    }

    #[inline(always)]
    fn take_small<C: Care>(&self, layout: Layout, scope: Scope, word0: Word0) -> *mut u8 {
        match fence::<C, _>(|| self.backing.allocate(layout, scope)) {
            // SAFETY: `base` was just given with `layout`, and the pad of small plans is the header.
            Ok(Ok(base)) => unsafe { self.head(base, HEADER, word0) },
            Ok(Err(_)) => self.backing_refused(),
            Err(Panicked) => self.panicked(),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_aligned<C: Care>(&self, size: usize, align: usize, scope: Scope) -> *mut u8 {
        match Plan::new(size, align, self.mode) {
            Ok(plan) => self.take::<C>(&plan, Block { size, align, scope }),
            Err(refusal) => self.refuse(refusal),
        }
    }

    #[inline(always)]
    fn take<C: Care>(&self, plan: &Plan, block: Block) -> *mut u8 {
        match fence::<C, _>(|| told::<C, _>(plan, || self.backing.allocate(plan.layout, block.scope))) {
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
    /// `payload` is NULL, or the 16 bytes before it can be read; if it is a live block of this bridge, nobody else uses it.
    #[inline(never)]
    pub(crate) unsafe fn reallocate<C: Care>(&self, payload: *mut u8, size: usize, align: usize, scope: RawScope) -> *mut u8 {
        let original = match NonNull::new(payload) {
            None => Original::Null,
            Some(payload) if self.is_refused::<C>(payload) => return ptr::null_mut(),
            // SAFETY: forwarded from this function's contract.
            Some(payload) => match unsafe { self.read(payload) } {
                Some((word0, scope)) => Original::Ours(Block { size: word0.size(), align: word0.align(), scope }),
                None => Original::NotOurs,
            },
        };
        match decide(original, size, align, scope, self.mode) {
            Action::Nothing => ptr::null_mut(),
            Action::Allocate => self.allocate::<C>(size, align, scope),
            Action::Free => {
                // SAFETY: forwarded; the header was just found to be that of a live block.
                unsafe { self.free_believed::<C>(payload) };
                ptr::null_mut()
            }
            Action::Refuse(refusal) => self.refuse(refusal),
            // SAFETY: forwarded.
            Action::RefuseNotOurs => unsafe { self.not_ours(payload) },
            Action::Resize { old, new, size, noted } => {
                self.note(noted);
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

    /// Of a pointer that a guard has nothing against.
    ///
    /// # Safety
    /// As [`reallocate`](Self::reallocate).
    #[inline(always)]
    unsafe fn free_believed<C: Care>(&self, payload: *mut u8) {
        let Some(live) = NonNull::new(payload) else { return };
        // SAFETY: forwarded.
        let Some((word0, scope)) = (unsafe { self.read(live) }) else {
            // SAFETY: forwarded.
            unsafe { self.not_ours(payload) };
            return;
        };
        let align = word0.align();
        if align > SMALL_ALIGN || C::GUARDED {
            // SAFETY: forwarded; the header is that of a live block.
            return unsafe { self.give_back_aligned::<C>(live, word0, scope) };
        }
        // The plan was good when the block was made; the header is intact, so it is now.
        let Ok(layout) = Plan::small(word0.size(), align) else { return };
        // SAFETY: as above; this is the block's plan.
        unsafe { self.give_back::<C>(live, word0, scope, &Plan { layout, pad: Pad::Fixed(HEADER) }) }
    }

    /// # Safety
    /// As [`give_back`](Self::give_back).
    #[cold]
    #[inline(never)]
    unsafe fn give_back_aligned<C: Care>(&self, payload: NonNull<u8>, word0: Word0, scope: Scope) {
        // As in `free`.
        let Ok(plan) = Plan::new(word0.size(), word0.align(), self.mode) else { return };
        // SAFETY: forwarded.
        unsafe { self.give_back::<C>(payload, word0, scope, &plan) }
    }

    /// # Safety
    /// `payload` is a live block of this bridge, `word0` and `scope` its header, `plan` what it was made as.
    #[inline(always)]
    unsafe fn give_back<C: Care>(&self, payload: NonNull<u8>, word0: Word0, scope: Scope, plan: &Plan) {
        // SAFETY: the header of a live block is writable.
        unsafe { write_word1(payload, self.seal.freed(payload.addr().get(), word0)) };
        // SAFETY: `place` put the payload this far behind the block's start.
        let base = unsafe { payload.sub(word0.pad(plan)) };
        // SAFETY: `base` was given by this backing with this layout and scope and is live; it goes out of use here.
        let free = || unsafe { self.backing.deallocate(base, plan.layout, scope) };
        if fence::<C, _>(|| told::<C, _>(plan, free)).is_err() {
            self.notes.panics.one_more();
        }
    }

    /// A refusal of the backing leaves the block as it was. After a panic nobody knows whether the backing still has it, so
    /// it is not touched again: it stays marked as freed, and is leaked if it was not.
    ///
    /// # Safety
    /// `payload` is a live block of this bridge, made as `old`; `new` is the plan of `size` with the same alignment.
    unsafe fn resize<C: Care>(&self, payload: *mut u8, old: &Plan, new: &Plan, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise: a live block, so not NULL and with a header.
        let Some((payload, (word0, scope))) = NonNull::new(payload).and_then(|p| Some((p, unsafe { self.read(p) }?))) else {
            return ptr::null_mut();
        };
        if old.layout == new.layout {
            return payload.as_ptr();
        }
        let address = payload.addr().get();
        let old_pad = word0.pad(old);
        // SAFETY: `place` put the payload this far behind the block's start.
        let base = unsafe { payload.sub(old_pad) };
        // If the block moves, what it leaves behind must not look live.
        // SAFETY: the header of a live block is writable.
        unsafe { write_word1(payload, self.seal.freed(address, word0)) };
        let resize = || {
            if new.layout.size() >= old.layout.size() {
                // SAFETY: `base` is live in this backing with `old.layout` and `scope`; the new size is not smaller.
                unsafe { self.backing.grow(base, old.layout, new.layout, scope) }
            } else {
                // SAFETY: as above; the new size is smaller.
                unsafe { self.backing.shrink(base, old.layout, new.layout, scope) }
            }
        };
        let answer = fence::<C, _>(|| told::<C, _>(new, resize));
        let moved = match answer {
            Ok(Ok(moved)) => moved,
            Ok(Err(_)) => {
                // SAFETY: a refused grow or shrink left the block as it was.
                unsafe { write_word1(payload, self.seal.live(address, word0)) };
                return self.backing_refused();
            }
            Err(Panicked) => return self.panicked(),
        };
        let pad = new.pad_at(moved.addr().get());
        let kept = word0.size().min(size);
        if pad != old_pad {
            // SAFETY: the payload was kept at `old_pad`: `old_pad + kept` is at most align + kept, which both layouts hold.
            let from = unsafe { moved.add(old_pad) };
            // SAFETY: `pad + size` fits `new.layout`, see `Plan`.
            let to = unsafe { moved.add(pad) };
            // SAFETY: both ranges lie within the block; they may overlap, so this is a memmove.
            unsafe { ptr::copy(from.as_ptr(), to.as_ptr(), kept) };
        }
        // SAFETY: `moved` was just given with `new.layout`, and `pad` is the plan's for it.
        unsafe { self.place(moved, pad, Block { size, align: word0.align(), scope }, new) }
    }

    /// Asks a guard, which has reported what it refuses. Nothing is read through the pointer.
    #[inline(always)]
    fn is_refused<C: Care>(&self, payload: NonNull<u8>) -> bool {
        C::GUARDED && self.refuses(payload)
    }

    #[inline(never)]
    fn refuses(&self, payload: NonNull<u8>) -> bool {
        match fenced(|| self.backing.vet(payload, HEADER)) {
            Ok(Vetted::Refused) => self.notes.guard_refusals.one_more(),
            Ok(Vetted::Live | Vetted::Unknown) => return false,
            // It was reporting, and nobody knows what it thinks of the pointer.
            Err(Panicked) => self.notes.panics.one_more(),
        }
        true
    }

    /// Writes the header and answers with the payload.
    ///
    /// # Safety
    /// `base` is a live block of `plan.layout`, `pad` is `plan.pad_at` of it.
    #[inline]
    unsafe fn place(&self, base: NonNull<u8>, pad: usize, block: Block, plan: &Plan) -> *mut u8 {
        let word0 = Word0::new(block.size, block.align, block.scope, plan, pad);
        // SAFETY: forwarded.
        unsafe { self.head(base, pad, word0) }
    }

    /// As [`place`](Self::place), with the word ready.
    ///
    /// # Safety
    /// `base` is a live block, `pad` the one of its plan, `word0` says what it is.
    #[inline(always)]
    unsafe fn head(&self, base: NonNull<u8>, pad: usize, word0: Word0) -> *mut u8 {
        // SAFETY: `pad` is at most the layout's size.
        let payload = unsafe { base.add(pad) };
        // SAFETY: `pad >= 16`, so the header lies within the block.
        let first = unsafe { payload.sub(16) };
        // SAFETY: the place is ours. For small alignments a guard's block is not aligned to 8.
        unsafe { first.cast::<u64>().write_unaligned(word0.0) };
        // SAFETY: as above, with the header of the same block.
        unsafe { write_word1(payload, self.seal.live(payload.addr().get(), word0)) };
        payload.as_ptr()
    }

    /// The header before `payload`, if it is that of a live block of this bridge.
    ///
    /// # Safety
    /// The 16 bytes before `payload` can be read.
    #[inline]
    unsafe fn read(&self, payload: NonNull<u8>) -> Option<(Word0, Scope)> {
        // SAFETY: the caller's promise.
        let (word0, word1) = unsafe { read_words(payload) };
        if word1 != self.seal.live(payload.addr().get(), word0) {
            return None;
        }
        Some((word0, word0.scope()?))
    }

    /// Notes whose fault a pointer is that is not a live block. Nothing is freed.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    #[cold]
    unsafe fn not_ours(&self, payload: *mut u8) -> *mut u8 {
        let mark = match NonNull::new(payload) {
            Some(payload) => {
                // SAFETY: forwarded.
                let (word0, word1) = unsafe { read_words(payload) };
                self.seal.judge(payload.addr().get(), word0, word1)
            }
            None => Mark::Unknown,
        };
        match mark {
            Mark::Freed => self.notes.freed_pointers.one_more(),
            Mark::Live | Mark::Unknown => self.notes.unknown_pointers.one_more(),
        }
        ptr::null_mut()
    }

    #[cold]
    fn refuse(&self, refusal: Refusal) -> *mut u8 {
        match refusal {
            Refusal::TooLarge => self.notes.too_large.one_more(),
            Refusal::BadAlignment => self.notes.bad_alignments.one_more(),
            Refusal::BadScope => self.notes.bad_scopes.one_more(),
        }
        note_null_answer();
        ptr::null_mut()
    }

    #[cold]
    fn backing_refused(&self) -> *mut u8 {
        self.notes.backing_refusals.one_more();
        note_null_answer();
        ptr::null_mut()
    }

    #[cold]
    fn panicked(&self) -> *mut u8 {
        self.notes.panics.one_more();
        note_null_answer();
        ptr::null_mut()
    }

    fn note(&self, noted: Noted) {
        if noted.alignment {
            self.notes.alignment_changes.one_more();
        }
        if noted.scope {
            self.notes.scope_changes.one_more();
        }
    }
}

/// Runs a call of the backing about a block of `plan`; a guard is told how many bytes of it C does not see.
#[inline(always)]
fn told<C: Care, R>(plan: &Plan, call: impl FnOnce() -> R) -> R {
    match plan.pad {
        Pad::Fixed(front) if C::GUARDED => with_front(front, call),
        _ => call(),
    }
}

/// The five scopes Vulkan knows.
#[inline]
pub(crate) fn scope_from(raw: RawScope) -> Option<Scope> {
    Scope::from_raw(raw.cast_unsigned())
}

/// # Safety
/// The 16 bytes before `payload` can be read.
#[inline]
unsafe fn read_words(payload: NonNull<u8>) -> (Word0, u64) {
    // Addressed without claiming that both lie in one allocation, and read unaligned: the pointer may be anybody's.
    let first = payload.as_ptr().wrapping_sub(16).cast::<u64>();
    // SAFETY: the caller's promise.
    let word0 = unsafe { first.read_unaligned() };
    // SAFETY: the caller's promise.
    let word1 = unsafe { first.wrapping_add(1).read_unaligned() };
    (Word0(word0), word1)
}

/// # Safety
/// `payload` lies 8 or more bytes behind the start of a writable block.
#[inline]
unsafe fn write_word1(payload: NonNull<u8>, word1: u64) {
    // SAFETY: the caller's promise.
    let second = unsafe { payload.sub(8) };
    // SAFETY: as above.
    unsafe { second.cast::<u64>().write_unaligned(word1) };
}
