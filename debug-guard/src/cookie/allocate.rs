//! Allocates a block: a recycled one, or one of the allocator behind.

use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::{AllocError, HostAllocator};

use super::Cookies;
use super::header_words::HeaderWords;
use super::keys::Stage;
use super::memory::{FRESH, fill, write_header, write_pad, write_tail};
use super::plan::{CookieLayout, HEADER, is_plain, plain, plan};
use super::record::CookieRecord;
use super::thread_cache::ThreadCache;
use crate::block::{BlockMark, BlockRequest};

/// A block that left quarantine and fits a request.
pub(crate) struct RecycledBlock<'c> {
    cache: &'c ThreadCache,
    record: &'c CookieRecord,
    base: NonNull<u8>,
    plan: CookieLayout,
}

impl Cookies {
    /// Allocates a block from `memory`, filled with CD or zeros. A header-only block has no tail, no fill and no quarantine. A block of
    /// 0 bytes is a real one.
    ///
    /// # Errors
    /// [`AllocError`] if `memory` refuses, and for more than 2^48 bytes; nothing was allocated.
    #[inline(always)]
    pub(crate) fn allocate<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        request: BlockRequest,
        header_only: bool,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        if is_plain(request.layout.align(), header_only) {
            // Nearly all blocks; the compiler drops what it knows of these.
            let plan = plain(request.layout.size()).ok_or(AllocError)?;
            self.allocate_as(memory, plan, request, false, mark)
        } else {
            self.allocate_other(memory, request, header_only, mark)
        }
    }

    #[inline(never)]
    fn allocate_other<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        request: BlockRequest,
        header_only: bool,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        let layout = request.layout;
        let plan = plan(layout.size(), layout.align(), header_only).ok_or(AllocError)?;
        self.allocate_as(memory, plan, request, header_only, mark)
    }

    #[inline(always)]
    fn allocate_as<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        plan: CookieLayout,
        request: BlockRequest,
        header_only: bool,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        let cache = self.caches.own();
        if is_plain(request.layout.align(), header_only) {
            if let Some(recycled) = self.recycled_for(request) {
                // SAFETY: found for this request just now.
                return Ok(unsafe { self.recycle(recycled, request, mark) });
            }
            if let Some(mismatch) = cache.and_then(|cache| cache.recycled.pop(&self.table)) {
                // SAFETY: it left quarantine, and is this thread's.
                unsafe { self.release_mismatched(memory, mismatch) };
            }
        }
        let record = match cache.and_then(|cache| cache.unused.pop(&self.table)) {
            Some(record) => record,
            None => self.record(memory)?,
        };
        let allocated = if request.zeroed {
            memory.allocate_zeroed(plan.whole, request.scope)
        } else {
            memory.allocate(plan.whole, request.scope)
        };
        let Ok(base) = allocated else {
            self.caches.with(|cache| cache.keep(record, &self.table));
            return Err(AllocError);
        };
        base.as_ptr().expose_provenance();
        let words = header_words(request, header_only, mark, record);
        let content = (!request.zeroed).then_some(FRESH);
        // SAFETY: a block of this plan, not shared yet; it has its zeros.
        Ok(unsafe { self.write_cookie(base, plan.front, record, words, header_only, content) })
    }

    /// The block that left quarantine last, if it fits this request.
    #[inline(always)]
    pub(crate) fn recycled_for(&self, request: BlockRequest) -> Option<RecycledBlock<'_>> {
        let (size, align) = (request.layout.size(), request.layout.align());
        let cache = self.caches.own()?;
        let record = cache.recycled.last(&self.table)?;
        let (start, words, _) = record.own();
        let fits =
            words.is_exactly(size, align, request.scope) || words.may_be(size, request.scope);
        if !fits || !is_plain(align, false) {
            return None;
        }
        let plan = plain(size)?;
        let base = NonNull::new(with_exposed_provenance_mut(start.wrapping_sub(plan.front)))?;
        Some(RecycledBlock {
            cache,
            record,
            base,
            plan,
        })
    }

    /// Uses a recycled block again. Calls no allocator.
    ///
    /// # Safety
    /// `recycled` was found by this thread just now, for this request.
    #[inline(always)]
    pub(crate) unsafe fn recycle(
        &self,
        recycled: RecycledBlock<'_>,
        request: BlockRequest,
        mark: BlockMark,
    ) -> NonNull<u8> {
        let RecycledBlock {
            cache,
            record,
            base,
            plan,
        } = recycled;
        cache.recycled.drop_last();
        let content = Some(if request.zeroed { 0 } else { FRESH });
        let words = header_words(request, false, mark, record);
        // SAFETY: a block of this plan that left quarantine, this thread's.
        unsafe { self.write_cookie(base, plan.front, record, words, false, content) }
    }

    /// Releases a recycled block that does not fit the request.
    ///
    /// # Safety
    /// This thread's alone.
    #[inline(never)]
    unsafe fn release_mismatched<A: HostAllocator + ?Sized>(
        &self,
        memory: &A,
        mismatch: &CookieRecord,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.release_block(memory, mismatch) };
    }

    /// Writes what stands around an object, fills it with `content`, and lists it.
    ///
    /// # Safety
    /// `base` begins a block with `front` bytes before the object; `words` and `header_only` agree. The block is this thread's alone, as is
    /// `record`.
    #[inline(always)]
    unsafe fn write_cookie(
        &self,
        base: NonNull<u8>,
        front: usize,
        record: &CookieRecord,
        words: HeaderWords,
        header_only: bool,
        content: Option<u8>,
    ) -> NonNull<u8> {
        let start = base.as_ptr().addr().wrapping_add(front);
        let (size, sum) = (words.size(), self.keys.sum(start, words, Stage::Live));
        // SAFETY: the caller; as for all that follows.
        unsafe { write_header(start, words, sum) };
        if !header_only {
            // SAFETY: not header-only.
            unsafe { write_tail(start, size, sum) };
            if front > HEADER {
                // SAFETY: `front` is the plan's.
                unsafe { write_pad(&self.keys, start, front) };
            }
            if let Some(content) = content {
                // SAFETY: `words` has the object's size.
                unsafe { fill(start, content, size) };
            }
        }
        record.enter(start, words, sum);
        // SAFETY: the block is larger than `front`.
        unsafe { base.add(front) }
    }

    /// A record for a thread that has none left.
    #[cold]
    #[inline(never)]
    fn record<A: HostAllocator + ?Sized>(&self, memory: &A) -> Result<&CookieRecord, AllocError> {
        self.caches.attach(memory, self.quarantine.is_there());
        loop {
            if let Some(record) = self.caches.with(|cache| cache.record(&self.table)) {
                return Ok(record);
            }
            self.table.grow(memory)?;
        }
    }
}

#[inline(always)]
fn header_words(
    BlockRequest { layout, scope, .. }: BlockRequest,
    header_only: bool,
    mark: BlockMark,
    record: &CookieRecord,
) -> HeaderWords {
    HeaderWords::new(
        layout.size(),
        layout.align(),
        scope,
        header_only,
        mark,
        record.token(),
    )
}
