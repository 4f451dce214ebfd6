//! The slots of one context are enlarged by segments, never moved.
//!
//! ```text
//!   node.owned -> | lock, lists, counts | 8 slots |   -> | older | 16 slots |   -> .. 256 slots, 256 slots, ..
//! ```
//! All is memory of the context, in its default scope. A slot:
//!
//! ```text
//!   0 value       the value's block (dangling where it has no size)        8 kind   layout and destructor; none = no value
//!  16 newer, 24 older    neighbours in the order of becoming owned; on the free list, `older` is the next free slot
//!  32 generation  counts the values that were here                        36 holds  who is using the value
//! ```
//! All is read and written under the table's lock. The *slot rule* of the SAFETY comments: slots lie in segments, which
//! live as long as the context's record, so an id may be looked up however old it is.

use core::alloc::Layout;
use core::cell::Cell;
use core::iter::successors;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{self, NonNull};

use crate::context::{CLOSED, ContextNode};
use crate::error::HostError;
use crate::sync::{AtomicU64, Held, Lock, Ordering, Relaxed as _, fence};

/// All but the atomics is used under the lock.
pub(crate) struct ValueTable {
    pub(super) lock: Lock,
    pub(super) free: List,
    pub(super) live: List,
    /// What was in `live` when a clear began.
    clearing: List,
    segments: Cell<*mut Segment>,
    next_size: Cell<u32>,
    /// Includes the table itself.
    bytes: AtomicU64,
    blocks: AtomicU64,
}

/// Does not include values that go with their last hold.
#[derive(Default)]
pub(super) struct LiveValues {
    pub(super) count: usize,
    pub(super) size: (u64, u64),
    pub(super) are_held: bool,
}

struct Segment {
    pub(super) older: *mut Segment,
    slots: u32,
}

pub(super) struct RemovedValue {
    pub(super) value: NonNull<u8>,
    pub(super) kind: &'static ValueType,
}

pub(super) struct Put {
    pub(super) slot: NonNull<ValueSlot>,
    pub(super) generation: u32,
}

pub(super) struct Locked<'n> {
    table: &'n ValueTable,
    _held: Held<'n>,
}

impl core::ops::Deref for Locked<'_> {
    type Target = ValueTable;

    fn deref(&self) -> &ValueTable {
        self.table
    }
}

pub(super) fn of(node: &ContextNode) -> Option<&ValueTable> {
    // SAFETY: a node's table is freed with the node.
    unsafe { node.owned.load(Ordering::Acquire).cast::<ValueTable>().as_ref() }
}

#[inline]
pub(super) fn lock(node: &ContextNode) -> Option<Locked<'_>> {
    of(node).map(|table| Locked { table, _held: table.lock.lock() })
}

/// The context with the lower number is locked first.
pub(super) fn lock_both<'n>(one: &'n ContextNode, other: &'n ContextNode) -> (Option<Locked<'n>>, Option<Locked<'n>>) {
    if one.id() < other.id() {
        let first = lock(one);
        (first, lock(other))
    } else {
        let first = lock(other);
        (lock(one), first)
    }
}

/// May be called under the tree's lock.
pub(crate) fn bytes_freed_with(node: &ContextNode) -> (u64, u64) {
    of(node).map_or((0, 0), |table| (table.bytes.get(), table.blocks.get()))
}

impl ValueTable {
    #[inline]
    pub(super) fn put(&self, value: NonNull<u8>, kind: &'static ValueType) -> Option<Put> {
        let slot = self.free.pop_free()?;
        slot.value.set(value);
        slot.kind.set(Some(kind));
        slot.holds.set(0);
        self.live.push(slot);
        self.count(kind.layout);
        Some(Put { slot: NonNull::from(slot), generation: slot.generation.get() })
    }

    pub(super) fn room(&self) -> usize {
        self.free.iter().count()
    }

    pub(super) fn live_values(&self) -> LiveValues {
        let mut all = LiveValues::default();
        let stays = |slot: &&ValueSlot| slot.holds.get() & DOOMED == 0;
        for slot in self.live.iter().filter(stays) {
            let bytes = slot.kind.get().map_or(0, |kind| kind.layout.size() as u64);
            all.count = all.count.saturating_add(1);
            all.size.0 = all.size.0.saturating_add(bytes);
            all.size.1 = all.size.1.saturating_add(u64::from(bytes > 0));
            all.are_held |= !slot.is_free_to_go();
        }
        all
    }

    /// Includes what other clears have not come to yet.
    pub(super) fn begin_clear(&self) {
        self.clearing.newest.set(self.live.newest.get());
    }

    /// Held values stay, or go with their last hold where the context `has_ended`; the next call does not return to
    /// them.
    pub(super) fn next_to_clear(&self, has_ended: bool) -> Option<RemovedValue> {
        loop {
            let slot = self.clearing.newest()?;
            let kind = slot.kind.get()?;
            if slot.is_free_to_go() {
                return Some(self.remove(slot, kind));
            }
            if has_ended {
                self.doom(slot, kind);
            }
            self.clearing.newest.set(slot.older.get());
        }
    }

    /// # Safety
    /// Written by [`init_slots`], at least one, in a segment that lives as long as the table.
    unsafe fn add_slots(&self, first: NonNull<ValueSlot>, count: u32) {
        // SAFETY: this function's contract.
        let oldest = unsafe { first.add((count as usize).saturating_sub(1)) };
        // SAFETY: this function's contract.
        let oldest = unsafe { oldest.as_ref() };
        oldest.older.set(self.free.newest.replace(first.as_ptr()));
    }

    #[inline]
    pub(super) fn remove(&self, slot: &ValueSlot, kind: &'static ValueType) -> RemovedValue {
        if ptr::eq(self.clearing.newest.get(), slot) {
            self.clearing.newest.set(slot.older.get());
        }
        self.live.unlink(slot);
        self.uncount(slot, kind);
        slot.kind.set(None);
        let generation = slot.generation.get().saturating_add(1);
        slot.generation.set(generation);
        if generation != LAST_GENERATION {
            self.free.push_free(slot);
        }
        RemovedValue { value: slot.value.get(), kind }
    }

    /// The context has ended, and the value is held.
    fn doom(&self, slot: &ValueSlot, kind: &'static ValueType) {
        self.uncount(slot, kind);
        slot.holds.set(slot.holds.get() | DOOMED);
    }

    #[inline]
    fn uncount(&self, slot: &ValueSlot, kind: &'static ValueType) {
        if slot.holds.get() & DOOMED == 0 {
            let size = kind.layout.size() as u64;
            self.bytes.set(self.bytes.get().saturating_sub(size));
            self.blocks.set(self.blocks.get().saturating_sub(u64::from(size > 0)));
        }
    }

    #[inline]
    fn count(&self, layout: Layout) {
        let size = layout.size() as u64;
        self.bytes.set(self.bytes.get().wrapping_add(size));
        self.blocks.set(self.blocks.get().wrapping_add(u64::from(size > 0)));
    }
}

/// The slots are linked in their order. No lock is held.
///
/// # Safety
/// There is room for `count` slots at `first`, which has no other use.
unsafe fn init_slots(first: NonNull<ValueSlot>, count: u32) {
    let mut older = ptr::null_mut();
    for number in (0..count as usize).rev() {
        // SAFETY: this function's contract.
        let slot = unsafe { first.add(number) };
        let new = ValueSlot::new();
        new.older.set(older);
        // SAFETY: this function's contract.
        unsafe { slot.write(new) };
        older = slot.as_ptr();
    }
}

pub(super) struct ValueType {
    pub(super) layout: Layout,
    pub(super) destroy: Option<unsafe fn(NonNull<u8>)>,
}

impl ValueType {
    pub(super) const fn of<T>() -> &'static Self {
        struct Of<T>(T);
        impl<T> Of<T> {
            const VALUE_TYPE: ValueType = ValueType {
                layout: Layout::new::<T>(),
                destroy: if core::mem::needs_drop::<T>() { Some(Self::destroy) } else { None },
            };

            /// # Safety
            /// A `T` that nobody uses any more.
            unsafe fn destroy(value: NonNull<u8>) {
                // SAFETY: this function's contract.
                unsafe { value.cast::<T>().drop_in_place() }
            }
        }
        &Of::<T>::VALUE_TYPE
    }
}

pub(super) struct ValueSlot {
    pub(super) value: Cell<NonNull<u8>>,
    pub(super) kind: Cell<Option<&'static ValueType>>,
    newer: Cell<*const ValueSlot>,
    older: Cell<*const ValueSlot>,
    pub(super) generation: Cell<u32>,
    pub(super) holds: Cell<u32>,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ValueSlot>() == 40);

/// A bit of `holds`: the value goes with the last hold.
pub(super) const DOOMED: u32 = 1 << 31;
/// A bit of `holds`: one holder, who may write.
pub(super) const EXCLUSIVE: u32 = 1 << 30;
pub(super) const MAX_HOLDS: u32 = EXCLUSIVE - 1;
/// A slot with this generation gets no further value: no id is ever right twice.
const LAST_GENERATION: u32 = u32::MAX;

impl ValueSlot {
    pub(super) const fn new() -> Self {
        Self {
            value: Cell::new(NonNull::dangling()),
            kind: Cell::new(None),
            newer: Cell::new(ptr::null()),
            older: Cell::new(ptr::null()),
            generation: Cell::new(0),
            holds: Cell::new(0),
        }
    }

    pub(super) fn is_free_to_go(&self) -> bool {
        self.holds.get() & !DOOMED == 0
    }
}

pub(super) struct List {
    newest: Cell<*const ValueSlot>,
}

impl List {
    pub(super) const fn new() -> Self {
        Self { newest: Cell::new(ptr::null()) }
    }

    pub(super) fn newest(&self) -> Option<&ValueSlot> {
        // SAFETY: the slot rule.
        unsafe { self.newest.get().as_ref() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ValueSlot> {
        successors(self.newest(), |slot| slot.older())
    }

    fn push(&self, slot: &ValueSlot) {
        let next = self.newest.get();
        slot.newer.set(ptr::null());
        slot.older.set(next);
        // SAFETY: the slot rule.
        if let Some(next) = unsafe { next.as_ref() } {
            next.newer.set(slot);
        }
        self.newest.set(slot);
    }

    fn unlink(&self, slot: &ValueSlot) {
        match slot.newer() {
            Some(newer) => newer.older.set(slot.older.get()),
            None => self.newest.set(slot.older.get()),
        }
        if let Some(older) = slot.older() {
            older.newer.set(slot.newer.get());
        }
    }

    /// A free slot's `newer` is not kept.
    fn pop_free(&self) -> Option<&ValueSlot> {
        let slot = self.newest()?;
        self.newest.set(slot.older.get());
        Some(slot)
    }

    fn push_free(&self, slot: &ValueSlot) {
        slot.older.set(self.newest.get());
        self.newest.set(slot);
    }
}

impl ValueSlot {
    pub(super) fn newer(&self) -> Option<&ValueSlot> {
        // SAFETY: the slot rule.
        unsafe { self.newer.get().as_ref() }
    }

    pub(super) fn older(&self) -> Option<&ValueSlot> {
        // SAFETY: the slot rule.
        unsafe { self.older.get().as_ref() }
    }
}

const MIN_SEGMENT: u32 = 8;
const MAX_SEGMENT: u32 = 256;

#[repr(C)]
struct First {
    table: ValueTable,
    slots: [MaybeUninit<ValueSlot>; MIN_SEGMENT as usize],
}

pub(super) fn put(node: &ContextNode, value: NonNull<u8>, kind: &'static ValueType) -> Result<Put, HostError> {
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

/// All or nothing.
#[cold]
pub(super) fn grow_by(node: &ContextNode, missing: usize) -> Result<(), HostError> {
    let Some(size) = segment_size(node, missing)? else {
        return begin(node);
    };
    let (layout, slots) = segment(size).ok_or(HostError::TooLarge)?;
    let block = node.allocate(layout, node.scope).map_err(|_| node.refusal(layout, node.scope))?.cast::<Segment>();
    let unused = NodeBlock { node, block: block.cast(), layout };
    if of(node).is_none() {
        begin(node)?;
    }
    core::mem::forget(unused);
    // SAFETY: behind the segment's head in the new block.
    let first = unsafe { block.byte_add(slots) }.cast();
    // SAFETY: the new block's slots.
    unsafe { init_slots(first, size) };
    if let Some(table) = lock(node) {
        // SAFETY: the block is new.
        unsafe { block.write(Segment { older: table.segments.get(), slots: size }) };
        table.segments.set(block.as_ptr());
        // SAFETY: just written; at least one was missing.
        unsafe { table.add_slots(first, size) };
        table.next_size.set(size.saturating_mul(2).min(MAX_SEGMENT));
        table.count(layout);
    }
    Ok(())
}

/// Freed also where what comes before unwinds.
pub(crate) struct NodeBlock<'n> {
    pub(crate) node: &'n ContextNode,
    pub(crate) block: NonNull<u8>,
    pub(crate) layout: Layout,
}

impl Drop for NodeBlock<'_> {
    fn drop(&mut self) {
        // SAFETY: the node's block, in its default scope with this layout.
        unsafe { self.node.deallocate(self.block, self.layout, self.node.scope) };
    }
}

pub(super) fn growth(node: &ContextNode, missing: usize) -> u64 {
    let table = if of(node).is_none() { size_of::<First>() } else { 0 };
    let segment = segment_size(node, missing).ok().flatten().and_then(segment).map_or(0, |(layout, _)| layout.size());
    (table as u64).saturating_add(segment as u64)
}

/// `None` when the table's own first slots suffice.
fn segment_size(node: &ContextNode, missing: usize) -> Result<Option<u32>, HostError> {
    let wanted = u32::try_from(missing).map_err(|_| HostError::TooLarge)?;
    Ok(match lock(node) {
        None if wanted <= MIN_SEGMENT => None,
        None => Some(wanted),
        Some(table) => Some(table.next_size.get().max(wanted)),
    })
}

fn begin(node: &ContextNode) -> Result<(), HostError> {
    let layout = Layout::new::<First>();
    let block = node.allocate(layout, node.scope).map_err(|_| node.refusal(layout, node.scope))?.cast::<First>();
    let table = ValueTable {
        lock: Lock::new(),
        free: List::new(),
        live: List::new(),
        clearing: List::new(),
        segments: Cell::new(ptr::null_mut()),
        next_size: Cell::new(MIN_SEGMENT * 2),
        bytes: AtomicU64::new(0),
        blocks: AtomicU64::new(0),
    };
    table.count(layout);
    let at = block.cast::<ValueTable>();
    // SAFETY: the block is new, and begins with the table.
    unsafe { at.write(table) };
    // SAFETY: within the new block.
    let slots = unsafe { block.byte_add(offset_of!(First, slots)) }.cast();
    // SAFETY: the new block's slots.
    unsafe { init_slots(slots, MIN_SEGMENT) };
    // SAFETY: just written.
    let table = unsafe { at.as_ref() };
    // SAFETY: written above, behind the table.
    unsafe { table.add_slots(slots, MIN_SEGMENT) };
    if node.owned.compare_exchange(ptr::null_mut(), at.as_ptr().cast(), Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: this block was never published.
        unsafe { node.deallocate(block.cast(), layout, node.scope) };
    }
    // Pairs with the fence in `context::tree`: the closing thread sees this table, or `put` sees that the context is
    // closed.
    fence(Ordering::SeqCst);
    Ok(())
}

/// The result has the offset of the slots.
fn segment(size: u32) -> Option<(Layout, usize)> {
    let slots = Layout::array::<ValueSlot>(size as usize).ok()?;
    let (layout, at) = Layout::new::<Segment>().extend(slots).ok()?;
    Some((layout.pad_to_align(), at))
}

/// The node has no reference and owns no value.
pub(crate) fn free_table(node: &ContextNode) {
    if node.owned.get().is_null() {
        return;
    }
    let first = {
        // `bytes_freed_with` reads the table's sums under this lock.
        let _held = node.root().tree_lock.lock();
        node.owned.swap(ptr::null_mut(), Ordering::Relaxed)
    };
    let Some(first) = NonNull::new(first.cast::<ValueTable>()) else {
        return;
    };
    // SAFETY: the node's own table.
    let mut next = unsafe { first.as_ref() }.segments.get();
    while let Some(block) = NonNull::new(next) {
        // SAFETY: live until freed here.
        let Segment { older, slots: size } = unsafe { block.read() };
        next = older;
        if let Some((layout, _)) = segment(size) {
            // SAFETY: allocated from this node with this layout.
            unsafe { node.deallocate(block.cast(), layout, node.scope) };
        }
    }
    // SAFETY: the table begins its block.
    unsafe { node.deallocate(first.cast(), Layout::new::<First>(), node.scope) };
}

#[cfg(test)]
mod tests;
