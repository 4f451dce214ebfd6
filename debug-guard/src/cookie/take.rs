//! Taking a block.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator, Scope};

use super::Cookies;
use super::keys::Stage;
use super::lane::Lane;
use super::memory::{FRESH, fill, write_header, write_pad, write_tail};
use super::plan::{HEADER, Plan, is_plain, plain, plan};
use super::words::Words;
use crate::block::Mark;

impl Cookies {
    /// Takes a block from `memory`: filled with CD, or zeros. A light one has a header alone: no tail, no fill, no quarantine. A block
    /// of 0 bytes is a real one.
    ///
    /// # Errors
    /// [`AllocError`] when `memory` refuses, or for more than 2^48 bytes; nothing was taken.
    #[inline(always)]
    pub(crate) fn take<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        layout: Layout,
        scope: Scope,
        light: bool,
        zeroed: bool,
        mark: Mark,
    ) -> Result<NonNull<u8>, AllocError> {
        if is_plain(layout.align(), light) {
            // Nearly all: what the compiler knows of these it need not compute.
            self.take_as(memory, plain(layout.size()).ok_or(AllocError)?, layout, scope, false, zeroed, mark)
        } else {
            self.take_other(memory, layout, scope, light, zeroed, mark)
        }
    }

    #[inline(never)]
    fn take_other<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        layout: Layout,
        scope: Scope,
        light: bool,
        zeroed: bool,
        mark: Mark,
    ) -> Result<NonNull<u8>, AllocError> {
        let plan = plan(layout.size(), layout.align(), light).ok_or(AllocError)?;
        self.take_as(memory, plan, layout, scope, light, zeroed, mark)
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "those of `take`, and the plan")]
    fn take_as<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        plan: Plan,
        layout: Layout,
        scope: Scope,
        light: bool,
        zeroed: bool,
        mark: Mark,
    ) -> Result<NonNull<u8>, AllocError> {
        let token = match self.lanes.own().and_then(Lane::pop) {
            Some(token) => token,
            None => self.token(memory)?,
        };
        let given = if zeroed { memory.allocate_zeroed(plan.whole, scope) } else { memory.allocate(plan.whole, scope) };
        let Ok(base) = given else {
            self.lanes.with(|lane| lane.push(token, &self.table));
            return Err(AllocError);
        };
        let words = Words::new(layout.size(), layout.align(), scope, light, mark, token);
        // SAFETY: a block of this plan, nobody else's yet.
        Ok(unsafe { self.dress(base, plan, words, zeroed) })
    }

    /// Writes what stands around an object, and lists it.
    ///
    /// # Safety
    /// `memory` has just given `base` for `plan`, which is of `words`.
    #[inline(always)]
    unsafe fn dress(&self, base: NonNull<u8>, plan: Plan, words: Words, zeroed: bool) -> NonNull<u8> {
        let start = base.as_ptr().expose_provenance().wrapping_add(plan.front);
        let (size, sum) = (words.size(), self.keys.sum(start, words, Stage::Live));
        // SAFETY: the caller; as for all that follows.
        unsafe { write_header(start, words, sum) };
        if !words.light() {
            // SAFETY: not a light one.
            unsafe { write_tail(start, size, sum) };
            if plan.front > HEADER {
                // SAFETY: `front` is the plan's.
                unsafe { write_pad(&self.keys, start, plan.front) };
            }
            if !zeroed {
                // SAFETY: `words` has the object's size.
                unsafe { fill(start, FRESH, size) };
            }
        }
        if let Some(record) = self.table.record(words.token()) {
            record.enter(start, words, sum);
        }
        // SAFETY: the block is larger than `front`.
        unsafe { base.add(plan.front) }
    }

    /// A token for a thread that has none left.
    #[cold]
    #[inline(never)]
    fn token<A: HostAllocator + ?Sized>(&self, memory: &A) -> Result<u32, AllocError> {
        self.lanes.attach(memory, self.quarantine.is_there());
        loop {
            if let Some(token) = self.lanes.with(|lane| lane.pop().or_else(|| lane.refill(&self.table))) {
                return Ok(token);
            }
            self.table.grow(memory)?;
        }
    }
}
