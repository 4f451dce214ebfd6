//! The slots of one context: made when it owns its first value, enlarged by segments, nothing of it ever moves.
//!
//! ```text
//!   node.owned -> | lock, lists, counts | 8 slots |   -> | older | 16 slots |   -> .. 256 slots, 256 slots, ..
//! ```
//! While the context ends, one thread has the list of live values for itself (`ender`): it takes them out without the lock, one by one;
//! others are answered that the context is closed, and what they still hold was put on a list of its own before. The destructors
//! that this thread runs may use the values that are left: in turns with it. Should they take holds, which could reach other threads,
//! the lock is taken again for each value.
//!
//! All of it is memory of the context itself, in its default scope. Slots that were never used lie at the end of the newest
//! segment; those given back are in a list. Freeing takes no memory.

use core::alloc::Layout;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::slot::{DOOMED, Kind, LAST_GENERATION, List, Slot};
use crate::context::{CLOSED, Node};
use crate::error::HostError;
use crate::sync::{AtomicU64, AtomicUsize, Held, Lock, Ordering, fence};
use crate::threads;

/// Slots of the first segment, which lies behind the table itself.
const FIRST: u32 = 8;
/// Slots of the largest segment.
const LARGEST: u32 = 256;

/// See the file's head. All but the atomics is used under the lock.
pub(crate) struct Table {
    lock: Lock,
    /// Slots that were never used, at `fresh`.
    fresh_left: Cell<u32>,
    fresh: Cell<*mut Slot>,
    free: List,
    /// Slots in `free`.
    free_len: Cell<usize>,
    pub(super) live: List,
    pub(super) live_len: Cell<usize>,
    /// Values of an ended context that somebody still holds.
    pub(super) doomed: List,
    /// Holds that are out.
    pub(super) holds: Cell<usize>,
    /// The thread that destroys the values, once the context has ended; 0 = none. Written under the lock, once.
    ender: AtomicUsize,
    /// Read and written by that thread alone: a destructor has taken a hold.
    held_at_end: Cell<bool>,
    segments: Cell<*mut Segment>,
    next_size: Cell<u32>,
    /// Blocks of the values that go with the context.
    bytes: AtomicU64,
    blocks: AtomicU64,
    /// Blocks of the table itself.
    own_bytes: AtomicU64,
    own_blocks: AtomicU64,
}

/// Followed by its slots.
struct Segment {
    older: *mut Segment,
    slots: u32,
}

/// A table and its first slots, in one block.
#[repr(C)]
struct First {
    table: Table,
    slots: [MaybeUninit<Slot>; FIRST as usize],
}

/// A value that was taken out of its slot, and the block that it lies in.
pub(super) struct Taken {
    pub(super) value: NonNull<u8>,
    pub(super) kind: &'static Kind,
}

/// A slot that got a value.
pub(super) struct Put {
    pub(super) slot: NonNull<Slot>,
    pub(super) generation: u32,
}

/// The table of a node, locked.
pub(super) struct Locked<'n> {
    table: &'n Table,
    _held: Held<'n>,
}

impl core::ops::Deref for Locked<'_> {
    type Target = Table;

    fn deref(&self) -> &Table {
        self.table
    }
}

/// The table of the node, if it ever owned anything.
pub(super) fn of(node: &Node) -> Option<&Table> {
    // SAFETY: a node's table is freed with the node.
    unsafe { node.owned.load(Ordering::Acquire).as_ref() }
}

/// The same, locked.
#[inline]
pub(super) fn lock(node: &Node) -> Option<Locked<'_>> {
    of(node).map(|table| Locked { table, _held: table.lock.lock() })
}

/// The tables of two contexts, locked in the order of the contexts' numbers.
pub(super) fn lock_both<'n>(one: &'n Node, other: &'n Node) -> (Option<Locked<'n>>, Option<Locked<'n>>) {
    if one.id() < other.id() {
        let first = lock(one);
        (first, lock(other))
    } else {
        let first = lock(other);
        (lock(one), first)
    }
}

/// Bytes and blocks that go with the node: its values' blocks and the table's own. May be asked under the tree's lock.
pub(crate) fn goes_with(node: &Node) -> (u64, u64) {
    of(node).map_or((0, 0), |table| {
        let read = |one: &AtomicU64, other: &AtomicU64| one.load(Ordering::Relaxed).saturating_add(other.load(Ordering::Relaxed));
        (read(&table.bytes, &table.own_bytes), read(&table.blocks, &table.own_blocks))
    })
}

/// Moves a value into its block and gives it a slot, where there is one; else gives the value back.
///
/// The value is written with the lock held: taking the lock waits for all writes before it, and those into a new block are the slow
/// ones. A large value would keep others waiting, so it is left to [`put`].
#[inline]
pub(super) fn put_here<T>(node: &Node, block: NonNull<u8>, value: T) -> Result<Put, T> {
    if size_of::<T>() <= 256
        && let Some(table) = lock(node)
        && node.flags() & CLOSED == 0
        && let Some(slot) = table.empty_slot()
    {
        // SAFETY: the caller's new block, as large and as aligned as a `T`.
        unsafe { block.cast::<T>().write(value) };
        return Ok(table.fill(slot, block, Kind::of::<T>()));
    }
    Err(value)
}

/// Gives a value its slot, making room where there is none.
pub(super) fn put(node: &Node, value: NonNull<u8>, kind: &'static Kind) -> Result<Put, HostError> {
    loop {
        if let Some(table) = lock(node) {
            if node.flags() & CLOSED != 0 {
                return Err(HostError::Closed { context: node.id() });
            }
            if let Some(put) = table.put(value, kind) {
                return Ok(put);
            }
        }
        grow(node)?;
    }
}

impl Table {
    /// `None`: there is no slot left.
    #[inline]
    pub(super) fn put(&self, value: NonNull<u8>, kind: &'static Kind) -> Option<Put> {
        self.empty_slot().map(|slot| self.fill(slot, value, kind))
    }

    /// A slot, which is to be filled under the same lock.
    #[inline]
    fn empty_slot(&self) -> Option<&Slot> {
        match self.free.pop_free() {
            Some(slot) => {
                self.free_len.set(self.free_len.get().wrapping_sub(1));
                Some(slot)
            }
            None => self.fresh(),
        }
    }

    #[inline]
    fn fill(&self, slot: &Slot, value: NonNull<u8>, kind: &'static Kind) -> Put {
        slot.value.set(value);
        slot.kind.set(Some(kind));
        slot.holds.set(0);
        self.live.push(slot);
        self.live_len.set(self.live_len.get().wrapping_add(1));
        self.count(kind);
        Put { slot: NonNull::from(slot), generation: slot.generation.get() }
    }

    /// The context ends, and this thread is to destroy its values. False: another one does.
    pub(super) fn begin_ending(&self, thread: usize) -> bool {
        let _held = self.lock.lock();
        let ender = self.ender.load(Ordering::Relaxed);
        if ender == 0 {
            self.ender.store(thread, Ordering::Relaxed);
            // From now on they are not what goes with the context, but what is going.
            self.bytes.store(0, Ordering::Relaxed);
            self.blocks.store(0, Ordering::Relaxed);
            let mut at = if self.holds.get() > 0 { self.live.newest() } else { None };
            while let Some(slot) = at {
                at = slot.older();
                if let Some(kind) = slot.kind.get().filter(|_| !slot.is_free_to_go()) {
                    self.doom(slot, kind);
                }
            }
        }
        ender == 0 || ender == thread
    }

    /// By the ending thread, without the lock: the newest value. `None`: there is none, or the lock is needed for it.
    pub(super) fn take_newest_alone(&self) -> Option<Taken> {
        if self.held_at_end.get() {
            return None;
        }
        let slot = self.live.newest()?;
        let kind = slot.kind.get()?;
        self.live.take_out(slot);
        self.live_len.set(self.live_len.get().wrapping_sub(1));
        slot.kind.set(None);
        // The slot is not used again, so this is enough for its old ids.
        Some(Taken { value: slot.value.get(), kind })
    }

    /// True when the values are another thread's to destroy, and not to be touched any more.
    #[inline]
    pub(super) fn is_ended_elsewhere(&self) -> bool {
        let ender = self.ender.load(Ordering::Relaxed);
        ender != 0 && ender != threads::id()
    }

    /// A hold is taken: the lock is held.
    #[inline]
    pub(super) fn note_hold(&self) {
        self.holds.set(self.holds.get().wrapping_add(1));
        if self.ender.load(Ordering::Relaxed) != 0 {
            self.held_at_end.set(true);
        }
    }

    /// How many values there is room for without growing.
    pub(super) fn room(&self) -> usize {
        self.free_len.get().saturating_add(self.fresh_left.get() as usize)
    }

    fn fresh(&self) -> Option<&Slot> {
        let left = self.fresh_left.get().checked_sub(1)?;
        let slot = self.fresh.get();
        self.fresh_left.set(left);
        self.fresh.set(slot.wrapping_add(1));
        // SAFETY: one of the newest segment's slots, which nobody has used yet.
        unsafe { slot.write(Slot::new()) };
        // SAFETY: as above, and written.
        unsafe { slot.as_ref() }
    }

    /// Takes the value out of a slot that has one, and gives the slot back.
    #[inline]
    pub(super) fn take(&self, slot: &Slot, kind: &'static Kind) -> Taken {
        if slot.holds.get() & DOOMED == 0 {
            self.live.take_out(slot);
            self.live_len.set(self.live_len.get().wrapping_sub(1));
            self.uncount(kind);
        } else {
            self.doomed.take_out(slot);
        }
        slot.kind.set(None);
        let generation = slot.generation.get().saturating_add(1);
        slot.generation.set(generation);
        if generation != LAST_GENERATION {
            self.free.push_free(slot);
            self.free_len.set(self.free_len.get().wrapping_add(1));
        }
        Taken { value: slot.value.get(), kind }
    }

    /// The context has ended, and somebody holds the value: it goes with the last hold.
    pub(super) fn doom(&self, slot: &Slot, kind: &'static Kind) {
        self.live.take_out(slot);
        self.live_len.set(self.live_len.get().wrapping_sub(1));
        self.uncount(kind);
        slot.holds.set(slot.holds.get() | DOOMED);
        self.doomed.push(slot);
    }

    /// True when somebody holds one of the values.
    pub(super) fn is_held(&self) -> bool {
        core::iter::successors(self.live.newest(), |slot| slot.older()).any(|slot| !slot.is_free_to_go())
    }

    /// Bytes of all values that go with the context, and blocks.
    pub(super) fn values(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.blocks.load(Ordering::Relaxed))
    }

    #[inline]
    fn count(&self, kind: &'static Kind) {
        let size = kind.layout.size() as u64;
        self.bytes.store(self.bytes.load(Ordering::Relaxed).wrapping_add(size), Ordering::Relaxed);
        self.blocks.store(self.blocks.load(Ordering::Relaxed).wrapping_add(u64::from(size > 0)), Ordering::Relaxed);
    }

    #[inline]
    fn uncount(&self, kind: &'static Kind) {
        let size = kind.layout.size() as u64;
        // Nothing is counted any more when the context is ending.
        self.bytes.store(self.bytes.load(Ordering::Relaxed).saturating_sub(size), Ordering::Relaxed);
        self.blocks.store(self.blocks.load(Ordering::Relaxed).saturating_sub(u64::from(size > 0)), Ordering::Relaxed);
    }
}

/// Makes a table, or a segment more.
#[cold]
fn grow(node: &Node) -> Result<(), HostError> {
    grow_by(node, 1)
}

/// Makes room for `missing` values more: all of it, or nothing.
pub(super) fn grow_by(node: &Node, missing: usize) -> Result<(), HostError> {
    let Some(size) = segment_size(node, missing)? else { return begin(node) };
    let (layout, slots) = segment(size).ok_or(HostError::TooLarge)?;
    let block = node.allocate(layout, node.scope).map_err(|_| node.refusal(layout, node.scope))?.cast::<Segment>();
    let unused = Unused { node, block: block.cast(), layout };
    if of(node).is_none() {
        begin(node)?;
    }
    core::mem::forget(unused);
    // SAFETY: the slots lie behind the segment's head in the new block.
    let first = unsafe { block.byte_add(slots) }.cast::<Slot>();
    if let Some(table) = lock(node) {
        // What is left of the last segment is not lost.
        while let Some(slot) = table.fresh() {
            table.free.push_free(slot);
            table.free_len.set(table.free_len.get().wrapping_add(1));
        }
        // SAFETY: new, and nobody else's yet.
        unsafe { block.write(Segment { older: table.segments.get(), slots: size }) };
        table.segments.set(block.as_ptr());
        table.fresh.set(first.as_ptr());
        table.fresh_left.set(size);
        table.next_size.set(size.saturating_mul(2).min(LARGEST));
        table.own(layout);
    }
    Ok(())
}

/// A block that goes back where nothing comes of it.
struct Unused<'n> {
    node: &'n Node,
    block: NonNull<u8>,
    layout: Layout,
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        // SAFETY: just taken from the node, with this layout.
        unsafe { self.node.deallocate(self.block, self.layout, self.node.scope) };
    }
}

/// Bytes that [`grow_by`] will ask for.
pub(super) fn growth(node: &Node, missing: usize) -> u64 {
    let table = if of(node).is_none() { size_of::<First>() } else { 0 };
    let segment = segment_size(node, missing).ok().flatten().and_then(segment).map_or(0, |(layout, _)| layout.size());
    (table as u64).saturating_add(segment as u64)
}

/// How large the next segment is to be; `None` when the table's own first slots will do.
fn segment_size(node: &Node, missing: usize) -> Result<Option<u32>, HostError> {
    let wanted = u32::try_from(missing).map_err(|_| HostError::TooLarge)?;
    Ok(match lock(node) {
        None if wanted <= FIRST => None,
        None => Some(wanted),
        Some(table) => Some(table.next_size.get().max(wanted)),
    })
}

impl Table {
    fn own(&self, layout: Layout) {
        self.own_bytes.store(self.own_bytes.load(Ordering::Relaxed).wrapping_add(layout.size() as u64), Ordering::Relaxed);
        self.own_blocks.store(self.own_blocks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// The first value of a context.
fn begin(node: &Node) -> Result<(), HostError> {
    let layout = Layout::new::<First>();
    let block = node.allocate(layout, node.scope).map_err(|_| node.refusal(layout, node.scope))?.cast::<First>();
    // SAFETY: within the new block.
    let slots = unsafe { &raw mut (*block.as_ptr()).slots }.cast::<Slot>();
    let table = Table {
        lock: Lock::new(),
        fresh_left: Cell::new(FIRST),
        fresh: Cell::new(slots),
        free: List::new(),
        free_len: Cell::new(0),
        live: List::new(),
        live_len: Cell::new(0),
        doomed: List::new(),
        holds: Cell::new(0),
        ender: AtomicUsize::new(0),
        held_at_end: Cell::new(false),
        segments: Cell::new(ptr::null_mut()),
        next_size: Cell::new(FIRST * 2),
        bytes: AtomicU64::new(0),
        blocks: AtomicU64::new(0),
        own_bytes: AtomicU64::new(0),
        own_blocks: AtomicU64::new(0),
    };
    table.own(layout);
    // SAFETY: within the new block.
    let at = unsafe { &raw mut (*block.as_ptr()).table };
    // SAFETY: new, and nobody else's yet.
    unsafe { at.write(table) };
    if node.owned.compare_exchange(ptr::null_mut(), at, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: another thread was first; this block was never shown to anybody.
        unsafe { node.deallocate(block.cast(), layout, node.scope) };
    }
    // Pairs with the one in `context::tree`: either that one's owner sees this table, or `put` sees that the context is closed.
    fence(Ordering::SeqCst);
    Ok(())
}

/// Layout of a segment of `size` slots, and where they begin.
fn segment(size: u32) -> Option<(Layout, usize)> {
    let slots = Layout::array::<Slot>(size as usize).ok()?;
    let (layout, at) = Layout::new::<Segment>().extend(slots).ok()?;
    Some((layout.pad_to_align(), at))
}

/// Gives the table's memory back. Nobody refers to the node any more, and it owns nothing.
pub(crate) fn free_table(node: &Node) {
    let Some(first) = NonNull::new(node.owned.swap(ptr::null_mut(), Ordering::Relaxed)) else { return };
    // SAFETY: the node's own table.
    let mut next = unsafe { first.as_ref() }.segments.get();
    while let Some(block) = NonNull::new(next) {
        // SAFETY: segments are live until freed here.
        let Segment { older, slots: size } = unsafe { block.read() };
        next = older;
        if let Some((layout, _)) = segment(size) {
            // SAFETY: taken from this node with this layout, and not used any more.
            unsafe { node.deallocate(block.cast(), layout, node.scope) };
        }
    }
    // SAFETY: as above; the table stands at the block's beginning.
    unsafe { node.deallocate(first.cast(), Layout::new::<First>(), node.scope) };
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::alloc::System;

    use super::super::slot::LAST_GENERATION;
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
        table.free.newest().unwrap().generation.set(LAST_GENERATION - 2);
        drop(table);
        let next_to_last = root.own(2).unwrap();
        assert_eq!(next_to_last.slot(), first.slot());
        root.destroy(next_to_last).unwrap();
        let last = root.own(3).unwrap();
        assert_eq!((last.slot(), last.generation()), (first.slot(), LAST_GENERATION - 1));
        root.destroy(last).unwrap();
        assert_eq!(lock(root.node()).unwrap().room(), room - 1);
        for n in 0..100 {
            assert_ne!(root.own(n).unwrap().slot(), first.slot());
        }
        for id in [first, next_to_last, last] {
            assert_eq!(root.take(id), Err(HostError::Misuse(Misuse::NotOwned)));
        }
    }

    #[test]
    fn segments_double_up_to_the_largest() {
        let root = Context::root_static(&SYSTEM, ContextOptions::new("root")).unwrap();
        let mut sizes = std::vec::Vec::new();
        for n in 0..1000_u32 {
            let before = lock(root.node()).map_or(0, |table| table.live_len.get() + table.room());
            root.own(n).unwrap();
            let after = lock(root.node()).map_or(0, |table| table.live_len.get() + table.room());
            if after != before {
                sizes.push(after - before);
            }
        }
        assert_eq!(sizes, [8, 16, 32, 64, 128, 256, 256, 256]);
        let (bytes, blocks) = goes_with(root.node());
        let own = root.usage().total();
        assert_eq!((own.live_bytes - bytes, own.live_blocks - blocks), (Node::LAYOUT.size() as u64, 1));
    }
}
