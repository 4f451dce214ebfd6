//! A block of a context that serves requests which the context refuses.
//!
//! ```text
//!   | block | block | free ---+ block | free | not used yet           |
//!                    ^--------+ of one size class      ^ used    layout.size()
//! ```
//!
//! Neighbours are not joined: a reserve serves one compile until that gives up, and is whole again when the last of its
//! blocks is freed.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use crate::context::ContextHandle;
use crate::error::HostError;
use crate::host::{AllocatorTraits, HostAllocator, dangling, move_block};
use crate::scope::Scope;
use crate::sync::StateMutex;

const MAX_ALIGN: usize = 16;
/// The link of a free block fits.
const SMALLEST: usize = 32;
/// Two a power of two, from [`SMALLEST`] to 2 GiB. Larger blocks are not used again.
const CLASSES: usize = 53;
/// The node of the root over a reserve, and the record of the domain over that, stay.
const RECORDS: usize = 2;

pub(super) struct Reserve {
    context: ContextHandle,
    memory: NonNull<u8>,
    layout: Layout,
    scope: Scope,
    state: StateMutex<ReserveState>,
}

struct ReserveState {
    used: usize,
    blocks: usize,
    /// `used` after the first [`RECORDS`] blocks; `None` once one of them is freed.
    records: Option<usize>,
    free: [Option<NonNull<FreeBlock>>; CLASSES],
}

struct FreeBlock {
    next: Option<NonNull<FreeBlock>>,
}

// SAFETY: the state is reached under a lock.
unsafe impl Send for Reserve {}
// SAFETY: the state is reached under a lock.
unsafe impl Sync for Reserve {}

impl Reserve {
    pub(super) fn new(context: &ContextHandle, bytes: usize) -> Result<Self, HostError> {
        let layout = Layout::from_size_align(bytes, MAX_ALIGN).map_err(|_| HostError::TooLarge)?;
        let scope = context.scope();
        let memory = context.try_allocate(layout, scope)?;
        Ok(Self { context: context.clone(), memory, layout, scope, state: StateMutex::new(ReserveState::new()) })
    }
}

impl ReserveState {
    const fn new() -> Self {
        Self { used: 0, blocks: 0, records: Some(0), free: [None; CLASSES] }
    }
}

/// The class of a request, and the bytes of its blocks; `None` on overflow.
fn class_of(size: usize) -> Option<(usize, usize)> {
    let size = size.max(SMALLEST);
    let power = size.checked_next_power_of_two()?;
    let number = 2 * (power.ilog2() - SMALLEST.ilog2()) as usize;
    let between = power / 4 * 3;
    if size <= between { Some((number - 1, between)) } else { Some((number, power)) }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: allocated there with this layout and scope; no block is live.
        unsafe { self.context.free(self.memory, self.layout, self.scope) };
    }
}

// SAFETY: blocks lie apart in memory that is the reserve's until it is dropped, at multiples of 16, no smaller than
// requested.
unsafe impl HostAllocator for Reserve {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let (class, bytes) = class_of(layout.size()).filter(|_| layout.align() <= MAX_ALIGN).ok_or(AllocError)?;
        let mut state = self.state.lock();
        if let Some(list) = state.free.get_mut(class)
            && let Some(block) = *list
        {
            // SAFETY: the link was written when the block was freed.
            *list = unsafe { block.as_ref() }.next;
            state.blocks += 1;
            return Ok(block.cast());
        }
        let offset = state.used;
        let used = offset.checked_add(bytes);
        let used = used.filter(|used| *used <= self.layout.size());
        let used = used.ok_or(AllocError)?;
        state.used = used;
        state.blocks += 1;
        if state.blocks <= RECORDS {
            state.records = state.records.map(|records| records.max(used));
        }
        // SAFETY: the block ends within the memory.
        Ok(unsafe { self.memory.add(offset) })
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, _: Scope) {
        let Some((class, _)) = class_of(layout.size()).filter(|_| layout.size() != 0) else {
            return;
        };
        let mut state = self.state.lock();
        state.blocks = state.blocks.saturating_sub(1);
        let offset = block.addr().get().wrapping_sub(self.memory.addr().get());
        state.records = state.records.filter(|records| offset >= *records);
        if let Some(records) = state.records.filter(|_| state.blocks == RECORDS) {
            state.used = records;
            state.free = [None; CLASSES];
        } else if let Some(list) = state.free.get_mut(class) {
            let free = block.cast::<FreeBlock>();
            // SAFETY: this function's contract: the block is used no more; it has at least 32 bytes, aligned to 16.
            unsafe { free.write(FreeBlock { next: *list }) };
            *list = Some(free);
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let is_roomy = old.size() != 0 && old.align() == new.align() && class_of(old.size()) == class_of(new.size());
        if is_roomy {
            return Ok(block);
        }
        // SAFETY: this function's contract.
        unsafe { move_block(self, block, old, new, scope) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class_that_wastes_less_than_a_third() {
        let mut former = 0;
        for size in (0..5000).chain([1 << 20, (1 << 31) - 1, 1 << 31]) {
            let (number, bytes) = class_of(size).expect("no overflow");
            assert!(number < CLASSES && number >= former, "{size}: {number}");
            assert!(bytes >= size && bytes % MAX_ALIGN == 0, "{size} in {bytes} bytes");
            let (size_of, bytes_of) = (size as u64, bytes as u64);
            assert!(bytes <= SMALLEST || 3 * bytes_of <= 4 * size_of + 3 * 16 * 2 || 2 * bytes_of < 3 * size_of);
            assert_eq!(class_of(bytes), Some((number, bytes)));
            former = number;
        }
        let not_used_again = class_of((1 << 31) + 1).is_none_or(|(number, _)| number >= CLASSES);
        assert!(not_used_again);
        assert_eq!(class_of(usize::MAX), None);
    }
}
