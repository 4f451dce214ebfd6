//! Taking a block.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::Cookies;
use super::header_words::HeaderWords;
use super::keys::Stage;
use super::memory::{FRESH, fill, write_header, write_pad, write_tail};
use super::plan::{CookieLayout, HEADER, is_plain, plain, plan};
use super::record::CookieRecord;
use super::thread_cache::ThreadCache;
use crate::block::BlockMark;

/// A block that left quarantine and serves a request.
pub(crate) struct RecycledBlock<'c> {
    lane: &'c ThreadCache,
    record: &'c CookieRecord,
    base: NonNull<u8>,
    plan: CookieLayout,
}

impl Cookies {
    /// Takes a block from `memory`: filled with CD, or zeros. A light one has a header alone: no tail, no fill, no quarantine. A block
    /// of 0 bytes is a real one.
    ///
    /// # Errors
    /// [`AllocError`] when `memory` refuses, or for more than 2^48 bytes; nothing was taken.
    #[inline(always)]
    pub(crate) fn allocate<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        layout: Layout,
        scope: Scope,
        light: bool,
        zeroed: bool,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        if is_plain(layout.align(), light) {
            // Nearly all: what the compiler knows of these it need not compute.
            self.allocate_as(
                memory,
                plain(layout.size()).ok_or(AllocError)?,
                layout,
                scope,
                false,
                zeroed,
                mark,
            )
        } else {
            self.allocate_other(memory, layout, scope, light, zeroed, mark)
        }
    }

    #[inline(never)]
    fn allocate_other<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        layout: Layout,
        scope: Scope,
        light: bool,
        zeroed: bool,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        let plan = plan(layout.size(), layout.align(), light).ok_or(AllocError)?;
        self.allocate_as(memory, plan, layout, scope, light, zeroed, mark)
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "those of `take`, and the plan")]
    fn allocate_as<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        plan: CookieLayout,
        layout: Layout,
        scope: Scope,
        light: bool,
        zeroed: bool,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        let lane = self.lanes.own();
        if is_plain(layout.align(), light) {
            if let Some(again) = self.recycled_for(layout, scope) {
                // SAFETY: found for this request just now.
                return Ok(unsafe { self.recycle(again, layout, scope, zeroed, mark) });
            }
            if let Some(left) = lane.and_then(|lane| lane.pop_recycled(&self.table)) {
                // SAFETY: it left quarantine, and is this thread's.
                unsafe { self.release_mismatched(memory, left) };
            }
        }
        let record = match lane.and_then(|lane| lane.pop(&self.table)) {
            Some(record) => record,
            None => self.record(memory)?,
        };
        let given = if zeroed {
            memory.allocate_zeroed(plan.whole, scope)
        } else {
            memory.allocate(plan.whole, scope)
        };
        let Ok(base) = given else {
            self.lanes.with(|lane| lane.push(record, &self.table));
            return Err(AllocError);
        };
        base.as_ptr().expose_provenance();
        // SAFETY: a block of this plan, nobody else's yet; zeros are there.
        Ok(unsafe {
            self.write_cookie(
                base,
                plan,
                record,
                layout,
                scope,
                light,
                (!zeroed).then_some(FRESH),
                mark,
            )
        })
    }

    /// The block that left quarantine last, where it may serve this request.
    #[inline(always)]
    pub(crate) fn recycled_for(&self, layout: Layout, scope: Scope) -> Option<RecycledBlock<'_>> {
        let lane = self.lanes.own()?;
        let record = lane.last_recycled(&self.table)?;
        let (start, words, _) = record.own();
        let like = words.is_exactly(layout.size(), layout.align(), scope)
            || words.may_be(layout.size(), scope);
        if !like || !is_plain(layout.align(), false) {
            return None;
        }
        let plan = plain(layout.size())?;
        let base = NonNull::new(with_exposed_provenance_mut(start.wrapping_sub(plan.front)))?;
        Some(RecycledBlock {
            lane,
            record,
            base,
            plan,
        })
    }

    /// Takes it. Nobody is called.
    ///
    /// # Safety
    /// `again` was found by this thread just now, for this layout and scope.
    #[inline(always)]
    pub(crate) unsafe fn recycle(
        &self,
        again: RecycledBlock<'_>,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
        mark: BlockMark,
    ) -> NonNull<u8> {
        let RecycledBlock {
            lane,
            record,
            base,
            plan,
        } = again;
        lane.drop_recycled();
        let content = if zeroed { 0 } else { FRESH };
        // SAFETY: a block of this plan that left quarantine, this thread's.
        unsafe {
            self.write_cookie(
                base,
                plan,
                record,
                layout,
                scope,
                false,
                Some(content),
                mark,
            )
        }
    }

    /// A block that left quarantine, and is not like the next request.
    ///
    /// # Safety
    /// This thread's alone.
    #[inline(never)]
    unsafe fn release_mismatched<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        left: &CookieRecord,
    ) {
        // SAFETY: the caller.
        unsafe { self.release_block(memory, left) };
    }

    /// Writes what stands around an object, fills it with `content`, and lists it.
    ///
    /// # Safety
    /// `base` begins a block of `plan`, which is this thread's alone, as is `record`.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "those of `take`, the plan and the record"
    )]
    unsafe fn write_cookie(
        &self,
        base: NonNull<u8>,
        plan: CookieLayout,
        record: &CookieRecord,
        layout: Layout,
        scope: Scope,
        light: bool,
        content: Option<u8>,
        mark: BlockMark,
    ) -> NonNull<u8> {
        let words = HeaderWords::new(
            layout.size(),
            layout.align(),
            scope,
            light,
            mark,
            record.token(),
        );
        let start = base.as_ptr().addr().wrapping_add(plan.front);
        let (size, sum) = (words.size(), self.keys.sum(start, words, Stage::Live));
        // SAFETY: the caller; as for all that follows.
        unsafe { write_header(start, words, sum) };
        if !light {
            // SAFETY: not a light one.
            unsafe { write_tail(start, size, sum) };
            if plan.front > HEADER {
                // SAFETY: `front` is the plan's.
                unsafe { write_pad(&self.keys, start, plan.front) };
            }
            if let Some(content) = content {
                // SAFETY: `words` has the object's size.
                unsafe { fill(start, content, size) };
            }
        }
        record.enter(start, words, sum);
        // SAFETY: the block is larger than `front`.
        unsafe { base.add(plan.front) }
    }

    /// A record for a thread that has none left.
    #[cold]
    #[inline(never)]
    fn record<A: HostAllocator + ?Sized>(&self, memory: &A) -> Result<&CookieRecord, AllocError> {
        self.lanes.attach(memory, self.quarantine.is_there());
        loop {
            if let Some(record) = self
                .lanes
                .with(|lane| lane.pop(&self.table).or_else(|| lane.refill(&self.table)))
            {
                return Ok(record);
            }
            self.table.grow(memory)?;
        }
    }
}
