//! Creating, growing and freeing a table of values.

use core::alloc::Layout;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::slot::{List, ValueSlot, ValueType};
use super::table::{Put, Segment, ValueTable, lock, of};
use crate::context::{CLOSED, ContextNode};
use crate::error::HostError;
use crate::sync::{AtomicU64, Lock, Ordering, Relaxed as _, fence};

/// Slots of the first segment, which lies behind the table itself.
const MIN_SEGMENT: u32 = 8;
/// Slots of the largest segment.
const MAX_SEGMENT: u32 = 256;

/// A table and its first slots, in one block.
#[repr(C)]
struct First {
    table: ValueTable,
    slots: [MaybeUninit<ValueSlot>; MIN_SEGMENT as usize],
}

/// Gives a value its slot, making room where there is none.
pub(super) fn put(
    node: &ContextNode,
    value: NonNull<u8>,
    kind: &'static ValueType,
) -> Result<Put, HostError> {
    loop {
        if let Some(table) = lock(node) {
            if node.flags() & CLOSED != 0 {
                return Err(HostError::Closed { context: node.id() });
            }
            if let Some(put) = table.put(value, kind) {
                return Ok(put);
            }
        }
        grow_by(node, 1)?;
    }
}

/// Makes room for `missing` more values, or for none.
#[cold]
pub(super) fn grow_by(node: &ContextNode, missing: usize) -> Result<(), HostError> {
    let Some(size) = segment_size(node, missing)? else {
        return begin(node);
    };
    let (layout, slots) = segment(size).ok_or(HostError::TooLarge)?;
    let block = node
        .allocate(layout, node.scope)
        .map_err(|_| node.refusal(layout, node.scope))?
        .cast::<Segment>();
    let unused = Unused {
        node,
        block: block.cast(),
        layout,
    };
    if of(node).is_none() {
        begin(node)?;
    }
    core::mem::forget(unused);
    // SAFETY: the slots lie behind the segment's head in the new block.
    let first = unsafe { block.byte_add(slots) }.cast::<ValueSlot>();
    if let Some(table) = lock(node) {
        // The unused slots of the last segment go to the free list.
        while let Some(slot) = table.fresh() {
            table.free.push_free(slot);
            table.free_len.set(table.free_len.get().wrapping_add(1));
        }
        // SAFETY: the block is new.
        unsafe {
            block.write(Segment {
                older: table.segments.get(),
                slots: size,
            })
        };
        table.segments.set(block.as_ptr());
        table.fresh.set(first.as_ptr());
        table.fresh_left.set(size);
        table.next_size.set(size.saturating_mul(2).min(MAX_SEGMENT));
        table.own(layout);
    }
    Ok(())
}

/// A new block, freed when dropped.
struct Unused<'n> {
    node: &'n ContextNode,
    block: NonNull<u8>,
    layout: Layout,
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        // SAFETY: just taken from the node, with this layout.
        unsafe {
            self.node
                .deallocate(self.block, self.layout, self.node.scope)
        };
    }
}

/// Bytes that [`grow_by`] will allocate.
pub(super) fn growth(node: &ContextNode, missing: usize) -> u64 {
    let table = if of(node).is_none() {
        size_of::<First>()
    } else {
        0
    };
    let segment = segment_size(node, missing)
        .ok()
        .flatten()
        .and_then(segment)
        .map_or(0, |(layout, _)| layout.size());
    (table as u64).saturating_add(segment as u64)
}

/// Slots of the next segment; `None` when the table's own first slots suffice.
fn segment_size(node: &ContextNode, missing: usize) -> Result<Option<u32>, HostError> {
    let wanted = u32::try_from(missing).map_err(|_| HostError::TooLarge)?;
    Ok(match lock(node) {
        None if wanted <= MIN_SEGMENT => None,
        None => Some(wanted),
        Some(table) => Some(table.next_size.get().max(wanted)),
    })
}

impl ValueTable {
    fn own(&self, layout: Layout) {
        self.own_bytes
            .set(self.own_bytes.get().wrapping_add(layout.size() as u64));
        self.own_blocks.set(self.own_blocks.get().wrapping_add(1));
    }
}

/// Creates the table of a context that gets its first value.
fn begin(node: &ContextNode) -> Result<(), HostError> {
    let layout = Layout::new::<First>();
    let block = node
        .allocate(layout, node.scope)
        .map_err(|_| node.refusal(layout, node.scope))?
        .cast::<First>();
    // SAFETY: within the new block.
    let slots = unsafe { &raw mut (*block.as_ptr()).slots }.cast::<ValueSlot>();
    let table = ValueTable {
        lock: Lock::new(),
        fresh_left: Cell::new(MIN_SEGMENT),
        fresh: Cell::new(slots),
        free: List::new(),
        free_len: Cell::new(0),
        live: List::new(),
        live_len: Cell::new(0),
        doomed: List::new(),
        holds: Cell::new(0),
        segments: Cell::new(ptr::null_mut()),
        next_size: Cell::new(MIN_SEGMENT * 2),
        bytes: AtomicU64::new(0),
        blocks: AtomicU64::new(0),
        own_bytes: AtomicU64::new(0),
        own_blocks: AtomicU64::new(0),
    };
    table.own(layout);
    // SAFETY: within the new block.
    let at = unsafe { &raw mut (*block.as_ptr()).table };
    // SAFETY: the block is new.
    unsafe { at.write(table) };
    if node
        .owned
        .compare_exchange(ptr::null_mut(), at, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        // SAFETY: another thread was first; this block was never published.
        unsafe { node.deallocate(block.cast(), layout, node.scope) };
    }
    // Pairs with the fence in `context::tree`: either the closing thread sees this table, or `put` sees that the context is closed.
    fence(Ordering::SeqCst);
    Ok(())
}

/// Layout of a segment of `size` slots, and where they begin.
fn segment(size: u32) -> Option<(Layout, usize)> {
    let slots = Layout::array::<ValueSlot>(size as usize).ok()?;
    let (layout, at) = Layout::new::<Segment>().extend(slots).ok()?;
    Some((layout.pad_to_align(), at))
}

/// Frees the table's memory. The node has no reference and owns no value.
pub(crate) fn free_table(node: &ContextNode) {
    if node.owned.get().is_null() {
        return;
    }
    let first = {
        // A thread that walks the tree may be reading the table's sums (`bytes_freed_with`).
        let _held = node.root().tree_lock.lock();
        node.owned.swap(ptr::null_mut(), Ordering::Relaxed)
    };
    let Some(first) = NonNull::new(first) else {
        return;
    };
    // SAFETY: the node's own table.
    let mut next = unsafe { first.as_ref() }.segments.get();
    while let Some(block) = NonNull::new(next) {
        // SAFETY: segments are live until they are freed here.
        let Segment { older, slots: size } = unsafe { block.read() };
        next = older;
        if let Some((layout, _)) = segment(size) {
            // SAFETY: taken from this node with this layout, and not used any more.
            unsafe { node.deallocate(block.cast(), layout, node.scope) };
        }
    }
    // SAFETY: the node's own table, used no more; it stands at the block's beginning.
    unsafe { node.deallocate(first.cast(), Layout::new::<First>(), node.scope) };
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::alloc::System;

    use super::super::slot::LAST_GENERATION;
    use super::super::table::bytes_freed_with;
    use super::*;
    use crate::{Context, ContextOptions, FromGlobalAlloc, Misuse};

    static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

    /// Four thousand million values in one slot are too many for a test; the last ones are not.
    #[test]
    fn a_slot_that_has_had_all_its_values_is_retired() {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).unwrap();
        let first = root.own(1).unwrap();
        root.destroy(first).unwrap();
        let table = lock(root.node()).unwrap();
        let room = table.room();
        table
            .free
            .newest()
            .unwrap()
            .generation
            .set(LAST_GENERATION - 2);
        drop(table);
        let next_to_last = root.own(2).unwrap();
        assert_eq!(next_to_last.slot(), first.slot());
        root.destroy(next_to_last).unwrap();
        let last = root.own(3).unwrap();
        assert_eq!(
            (last.slot(), last.generation()),
            (first.slot(), LAST_GENERATION - 1)
        );
        root.destroy(last).unwrap();
        assert_eq!(lock(root.node()).unwrap().room(), room - 1);
        for n in 0..100 {
            assert_ne!(root.own(n).unwrap().slot(), first.slot());
        }
        for id in [first, next_to_last, last] {
            assert_eq!(root.remove(id), Err(HostError::Misuse(Misuse::NotOwned)));
        }
    }

    #[test]
    fn segments_double_up_to_the_largest() {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).unwrap();
        let mut sizes = std::vec::Vec::new();
        let all = [8, 16, 32, 64, 128, 256, 256, 256];
        let expected = if cfg!(miri) { &all[..3] } else { &all };
        for n in 0..if cfg!(miri) { 50 } else { 1000_u32 } {
            let before = lock(root.node()).map_or(0, |table| table.live_len.get() + table.room());
            root.own(n).unwrap();
            let after = lock(root.node()).map_or(0, |table| table.live_len.get() + table.room());
            if after != before {
                sizes.push(after - before);
            }
        }
        assert_eq!(sizes, expected);
        let (bytes, blocks) = bytes_freed_with(root.node());
        let own = root.usage().total();
        assert_eq!(
            (own.live_bytes - bytes, own.live_blocks - blocks),
            (ContextNode::LAYOUT.size() as u64, 1)
        );
    }
}
