use core::ptr::{NonNull, with_exposed_provenance_mut};

use alloc_core::{AllocError, HostAllocator};

use super::Cookies;
use super::layout::{HEADER, HeaderWords, Stage, plan};
use super::memory::{FRESH, fill, write_header, write_pad, write_tail};
use super::quarantine::Quarantine;
use super::record::CookieRecord;
use super::table::NONE;
use crate::block::{BlockMark, BlockRequest};

enum BlockMemory<'c> {
    Spare(&'c CookieRecord, NonNull<u8>),
    Record(&'c CookieRecord),
}

impl Cookies {
    /// A header-only block has no tail, no fill and no quarantine.
    ///
    /// # Errors
    /// [`AllocError`] if `memory` refuses, and above 2^48 bytes; nothing was allocated.
    #[inline(always)]
    pub(crate) fn allocate<A: HostAllocator>(
        &self,
        memory: &A,
        request: BlockRequest,
        header_only: bool,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, AllocError> {
        let BlockRequest { layout, scope, zeroed } = request;
        let (size, align) = (layout.size(), layout.align());
        let plan = plan(size, align, header_only).ok_or(AllocError)?;
        let words = |record: &CookieRecord| HeaderWords::new(size, align, scope, header_only, mark, record.token());
        let (record, base, content) = match self.place(memory, words, mark.thread)? {
            BlockMemory::Spare(record, base) => (record, base, Some(if zeroed { 0 } else { FRESH })),
            BlockMemory::Record(record) => {
                let allocated =
                    if zeroed { memory.allocate_zeroed(plan.whole, scope) } else { memory.allocate(plan.whole, scope) };
                let Ok(base) = allocated else {
                    let number = Quarantine::number_of_thread(mark.thread);
                    self.quarantine.shard(number).lock().keep(record);
                    return Err(AllocError);
                };
                base.as_ptr().expose_provenance();
                (record, base, (!zeroed).then_some(FRESH))
            }
        };
        let start = base.as_ptr().addr().wrapping_add(plan.front);
        let words = words(record);
        let sum = self.keys.sum(start, words, Stage::Live);
        // SAFETY: the block rule (`memory.rs`): this thread's alone.
        unsafe { write_header(start, words, sum) };
        if !header_only {
            // SAFETY: the block rule; not header-only.
            unsafe { write_tail(start, size, sum) };
            if plan.front > HEADER {
                // SAFETY: the block rule; `front` is the plan's.
                unsafe { write_pad(&self.keys, start, plan.front) };
            }
            if let Some(content) = content {
                // SAFETY: the block rule.
                unsafe { fill(start, content, size) };
            }
        }
        record.enter(start, words, sum);
        // SAFETY: the block is larger than `front`.
        Ok(unsafe { base.add(plan.front) })
    }

    #[inline(always)]
    fn place<A: HostAllocator>(
        &self,
        memory: &A,
        words: impl Fn(&CookieRecord) -> HeaderWords,
        thread: u32,
    ) -> Result<BlockMemory<'_>, AllocError> {
        let shard = self.quarantine.shard(Quarantine::number_of_thread(thread));
        loop {
            let mut shard = shard.lock();
            let spare = self.table.record(shard.spare).filter(|_| shard.spare != NONE);
            if let Some(spare) = spare {
                let (start, former, _) = spare.own();
                if former.serves(words(spare))
                    && let Some(base) = NonNull::new(with_exposed_provenance_mut(start - HEADER))
                {
                    shard.spare = NONE;
                    return Ok(BlockMemory::Spare(spare, base));
                }
            }
            let unused = shard.unused(&self.table);
            drop(shard);
            match unused {
                Ok(record) => return Ok(BlockMemory::Record(record)),
                Err(seen) => self.table.records.grow(seen, memory)?,
            }
        }
    }
}
