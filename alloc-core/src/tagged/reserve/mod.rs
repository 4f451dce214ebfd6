//! A block of a context, reserved in time, as an allocator of its own that serves requests which the context refuses.
//!
//! ```text
//!   | block | block | free ---+ block | free | not used yet           |
//!                    ^--------+ of one size class      ^ used    layout.size()
//! ```
//!
//! Freed blocks wait in lists by size class and serve requests of the same class. Neighbours are not joined: a reserve serves one compile
//! until that gives up, and is whole again when the last of its blocks is freed while the domain lives.

mod classes;

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use self::classes::{CLASSES, class_of, place};
use crate::context::ContextHandle;
use crate::error::HostError;
use crate::host::AllocatorTraits;
use crate::host::{HostAllocator, dangling, move_block};
use crate::scope::Scope;
use crate::sync::StateMutex;

/// Alignment of every block.
const MAX_ALIGN: usize = 16;
/// Blocks that stay: the node of the root over a reserve, and the record of the domain over that.
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
    /// `used` after the first [`RECORDS`] blocks; `None` once one of them is freed, because then the remaining blocks may be any.
    records: Option<usize>,
    /// By class, the block freed last.
    free: [Option<NonNull<FreeBlock>>; CLASSES],
}

/// The link in a free block.
struct FreeBlock {
    next: Option<NonNull<FreeBlock>>,
}

// SAFETY: a reserve owns its memory; the state is reached under a lock.
unsafe impl Send for Reserve {}
// SAFETY: the state is reached under a lock, and the rest never changes.
unsafe impl Sync for Reserve {}

impl Reserve {
    /// Reserves `bytes` in a context.
    pub(super) fn new(context: &ContextHandle, bytes: usize) -> Result<Self, HostError> {
        let layout = Layout::from_size_align(bytes, MAX_ALIGN).map_err(|_| HostError::TooLarge)?;
        let scope = context.scope();
        let memory = context.try_allocate(layout, scope)?;
        Ok(Self {
            context: context.clone(),
            memory,
            layout,
            scope,
            state: StateMutex::new(ReserveState::new()),
        })
    }
}

impl ReserveState {
    const fn new() -> Self {
        Self {
            used: 0,
            blocks: 0,
            records: Some(0),
            free: [None; CLASSES],
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: allocated there with this layout and scope; live blocks of it would have kept the reserve.
        unsafe { self.context.free(self.memory, self.layout, self.scope) };
    }
}

// SAFETY: blocks lie apart in memory that is the reserve's until it is dropped, aligned, and as large as their class, which is no smaller
// than what was asked for. A free block is used again for its class alone.
unsafe impl HostAllocator for Reserve {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        let (class, bytes) = class_of(layout.size()).ok_or(AllocError)?;
        let mut state = self.state.lock();
        if layout.align() <= MAX_ALIGN
            && let Some(list) = state.free.get_mut(class)
            && let Some(block) = *list
        {
            // SAFETY: a free block of this reserve, whose link was written when it was freed.
            *list = unsafe { block.as_ref() }.next;
            state.blocks += 1;
            return Ok(block.cast());
        }
        let first = self.memory.as_ptr().addr();
        let placed = place(first, state.used, self.layout.size(), bytes, layout.align());
        let (offset, used) = placed.ok_or(AllocError)?;
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
            // SAFETY: the caller's block, used no more: at least 32 bytes, aligned to 16.
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
        let is_roomy = old.size() != 0
            && old.align() == new.align()
            && class_of(old.size()) == class_of(new.size());
        if is_roomy {
            return Ok(block);
        }
        // SAFETY: this function's contract, which is the same.
        unsafe { move_block(self, block, old, new, scope) }
    }
}
