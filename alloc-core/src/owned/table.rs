//! The slots of one context: made when it owns its first value, enlarged by segments, nothing of it ever moves.
//!
//! ```text
//!   node.owned -> | lock, lists, counts | 8 slots |   -> | older | 16 slots |   -> .. 256 slots, 256 slots, ..
//! ```
//! All of it is memory of the context itself, in its default scope. Slots that were never used lie at the end of the newest
//! segment; those given back are in a list. Freeing takes no memory.
//!
//! What is known of one owned value, and the lists that slots are in.
//!
//! ```text
//!   0 value       the value's block (dangling where it has no size)        8 kind   layout and destructor; none = nothing here
//!  16 newer, 24 older    neighbours in the order of becoming owned; on the free list, `older` is the next free slot
//!  32 generation  counts the values that were here                        36 holds  who is using the value
//! ```
//! Everything is read and written under the table's lock. A slot is never given back while its context's record lives, so an id
//! whose context is known to be right may be looked up, however old it is.
//!
//! A mark in the order of a context's values, which divides values added later from older ones.
//!
//! ```text
//!   live list:   newest | added later .. | marker | older .. | oldest
//! ```
//! A marker is a slot without a value on the stack of the thread that clears the context: it allocates nothing and uses no slot of the table.
//! Other walks skip it. It is unlinked with its [`PlacedMarker`].

use core::alloc::Layout;
use core::cell::Cell;
use core::iter::successors;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use crate::context::{CLOSED, ContextNode};
use crate::error::HostError;
use crate::sync::{AtomicU64, Held, Lock, Ordering, Relaxed as _, fence};

/// See the file's head. All but the atomics is used under the lock.
pub(crate) struct ValueTable {
    pub(super) lock: Lock,
    /// Slots that were never used, at `fresh`.
    fresh_left: Cell<u32>,
    fresh: Cell<*mut ValueSlot>,
    pub(super) free: List,
    /// Slots in `free`.
    free_len: Cell<usize>,
    pub(super) live: List,
    pub(super) live_len: Cell<usize>,
    /// Values of an ended context that somebody still holds.
    pub(super) doomed: List,
    /// Holds that are out.
    pub(super) holds: Cell<usize>,
    segments: Cell<*mut Segment>,
    next_size: Cell<u32>,
    /// Blocks of the values that go with the context.
    bytes: AtomicU64,
    blocks: AtomicU64,
    /// Blocks of the table itself.
    own_bytes: AtomicU64,
    own_blocks: AtomicU64,
}

/// A segment's head, followed by its slots.
struct Segment {
    pub(super) older: *mut Segment,
    slots: u32,
}

/// A value that was taken out of its slot, and the block that it lies in.
pub(super) struct RemovedValue {
    pub(super) value: NonNull<u8>,
    pub(super) kind: &'static ValueType,
}

/// A slot that got a value.
pub(super) struct Put {
    pub(super) slot: NonNull<ValueSlot>,
    pub(super) generation: u32,
}

/// The table of a node, locked.
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

/// The table of the node, if it ever owned anything.
pub(super) fn of(node: &ContextNode) -> Option<&ValueTable> {
    // SAFETY: a node's table is freed with the node.
    unsafe {
        node.owned
            .load(Ordering::Acquire)
            .cast::<ValueTable>()
            .as_ref()
    }
}

/// The same, locked.
#[inline]
pub(super) fn lock(node: &ContextNode) -> Option<Locked<'_>> {
    of(node).map(|table| Locked {
        table,
        _held: table.lock.lock(),
    })
}

/// The tables of two contexts, locked in the order of the contexts' numbers.
pub(super) fn lock_both<'n>(
    one: &'n ContextNode,
    other: &'n ContextNode,
) -> (Option<Locked<'n>>, Option<Locked<'n>>) {
    if one.id() < other.id() {
        let first = lock(one);
        (first, lock(other))
    } else {
        let first = lock(other);
        (lock(one), first)
    }
}

/// Bytes and blocks that go with the node: its values' blocks and the table's own. May be asked under the tree's lock.
pub(crate) fn bytes_freed_with(node: &ContextNode) -> (u64, u64) {
    of(node).map_or((0, 0), |table| {
        let read = |one: &AtomicU64, other: &AtomicU64| one.get().saturating_add(other.get());
        (
            read(&table.bytes, &table.own_bytes),
            read(&table.blocks, &table.own_blocks),
        )
    })
}

impl ValueTable {
    /// `None`: there is no slot left.
    #[inline]
    pub(super) fn put(&self, value: NonNull<u8>, kind: &'static ValueType) -> Option<Put> {
        self.empty_slot().map(|slot| self.fill(slot, value, kind))
    }

    /// A slot, which is to be filled under the same lock.
    #[inline]
    fn empty_slot(&self) -> Option<&ValueSlot> {
        match self.free.pop_free() {
            Some(slot) => {
                self.free_len.set(self.free_len.get().wrapping_sub(1));
                Some(slot)
            }
            None => self.fresh(),
        }
    }

    #[inline]
    fn fill(&self, slot: &ValueSlot, value: NonNull<u8>, kind: &'static ValueType) -> Put {
        slot.value.set(value);
        slot.kind.set(Some(kind));
        slot.holds.set(0);
        self.live.push(slot);
        self.live_len.set(self.live_len.get().wrapping_add(1));
        self.count(kind);
        Put {
            slot: NonNull::from(slot),
            generation: slot.generation.get(),
        }
    }

    /// How many values there is room for without growing.
    pub(super) fn room(&self) -> usize {
        self.free_len
            .get()
            .saturating_add(self.fresh_left.get() as usize)
    }

    fn fresh(&self) -> Option<&ValueSlot> {
        let left = self.fresh_left.get().checked_sub(1)?;
        let slot = self.fresh.get();
        self.fresh_left.set(left);
        self.fresh.set(slot.wrapping_add(1));
        // SAFETY: one of the newest segment's slots, which nobody has used yet.
        unsafe { slot.write(ValueSlot::new()) };
        // SAFETY: one of the newest segment's slots, just written.
        unsafe { slot.as_ref() }
    }

    /// Takes the value out of a slot that has one, and gives the slot back.
    #[inline]
    pub(super) fn remove(&self, slot: &ValueSlot, kind: &'static ValueType) -> RemovedValue {
        if slot.holds.get() & DOOMED == 0 {
            self.live.unlink(slot);
            self.live_len.set(self.live_len.get().wrapping_sub(1));
            self.uncount(kind);
        } else {
            self.doomed.unlink(slot);
        }
        slot.kind.set(None);
        let generation = slot.generation.get().saturating_add(1);
        slot.generation.set(generation);
        if generation != LAST_GENERATION {
            self.free.push_free(slot);
            self.free_len.set(self.free_len.get().wrapping_add(1));
        }
        RemovedValue {
            value: slot.value.get(),
            kind,
        }
    }

    /// The context has ended, and somebody holds the value: it goes with the last hold.
    pub(super) fn doom(&self, slot: &ValueSlot, kind: &'static ValueType) {
        self.live.unlink(slot);
        self.live_len.set(self.live_len.get().wrapping_sub(1));
        self.uncount(kind);
        slot.holds.set(slot.holds.get() | DOOMED);
        self.doomed.push(slot);
    }

    /// True when somebody holds one of the values.
    pub(super) fn is_held(&self) -> bool {
        self.holds.get() > 0
    }

    /// Bytes of all values that go with the context, and blocks.
    pub(super) fn values(&self) -> (u64, u64) {
        (self.bytes.get(), self.blocks.get())
    }

    #[inline]
    fn count(&self, kind: &'static ValueType) {
        let size = kind.layout.size() as u64;
        self.bytes.set(self.bytes.get().wrapping_add(size));
        self.blocks
            .set(self.blocks.get().wrapping_add(u64::from(size > 0)));
    }

    #[inline]
    fn uncount(&self, kind: &'static ValueType) {
        let size = kind.layout.size() as u64;
        self.bytes.set(self.bytes.get().saturating_sub(size));
        self.blocks
            .set(self.blocks.get().saturating_sub(u64::from(size > 0)));
    }
}

/// How values of one type are given back.
pub(super) struct ValueType {
    pub(super) layout: Layout,
    /// `None` = nothing happens when such a value goes.
    pub(super) destroy: Option<unsafe fn(NonNull<u8>)>,
}

impl ValueType {
    pub(super) const fn of<T>() -> &'static Self {
        struct Of<T>(T);
        impl<T> Of<T> {
            const VALUE_TYPE: ValueType = ValueType {
                layout: Layout::new::<T>(),
                destroy: if core::mem::needs_drop::<T>() {
                    Some(Self::destroy)
                } else {
                    None
                },
            };

            /// # Safety
            /// `value` is a `T` that nobody uses any more.
            unsafe fn destroy(value: NonNull<u8>) {
                // SAFETY: this function's contract.
                unsafe { value.cast::<T>().drop_in_place() }
            }
        }
        &Of::<T>::VALUE_TYPE
    }
}

/// See the file's head.
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

/// In `holds`: the context has ended; the value goes with the last hold.
pub(super) const DOOMED: u32 = 1 << 31;
/// In `holds`: one holder, who may write.
pub(super) const EXCLUSIVE: u32 = 1 << 30;
/// As many readers as there may be.
pub(super) const MAX_HOLDS: u32 = EXCLUSIVE - 1;
/// A slot that has had as many values as this has no more: no id is ever right twice.
const LAST_GENERATION: u32 = u32::MAX;

impl ValueSlot {
    /// One that never had a value.
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

    /// True when nobody is using the value.
    pub(super) fn is_free_to_go(&self) -> bool {
        self.holds.get() & !DOOMED == 0
    }
}

/// A doubly linked list of slots, newest first.
pub(super) struct List {
    newest: Cell<*const ValueSlot>,
}

impl List {
    pub(super) const fn new() -> Self {
        Self {
            newest: Cell::new(ptr::null()),
        }
    }

    pub(super) fn newest(&self) -> Option<&ValueSlot> {
        // SAFETY: slots in a list lie in segments, which live as long as the table that the list is in, or are markers, which leave
        // the list before they go.
        unsafe { self.newest.get().as_ref() }
    }

    pub(super) fn oldest(&self) -> Option<&ValueSlot> {
        let mut at = self.newest()?;
        while let Some(older) = at.older() {
            at = older;
        }
        Some(at)
    }

    fn push(&self, slot: &ValueSlot) {
        let next = self.newest.get();
        slot.newer.set(ptr::null());
        slot.older.set(next);
        // SAFETY: as in `newest`.
        if let Some(next) = unsafe { next.as_ref() } {
            next.newer.set(slot);
        }
        self.newest.set(slot);
    }

    /// Takes out a slot that is in this list.
    fn unlink(&self, slot: &ValueSlot) {
        match slot.newer() {
            Some(newer) => newer.older.set(slot.older.get()),
            None => self.newest.set(slot.older.get()),
        }
        if let Some(older) = slot.older() {
            older.newer.set(slot.newer.get());
        }
    }

    /// As a stack of free slots, whose `newer` is not kept.
    fn pop_free(&self) -> Option<&ValueSlot> {
        let slot = self.newest()?;
        self.newest.set(slot.older.get());
        Some(slot)
    }

    /// See [`pop_free`](List::pop_free).
    fn push_free(&self, slot: &ValueSlot) {
        slot.older.set(self.newest.get());
        self.newest.set(slot);
    }
}

impl ValueSlot {
    pub(super) fn newer(&self) -> Option<&ValueSlot> {
        // SAFETY: as in `List::newest`.
        unsafe { self.newer.get().as_ref() }
    }

    pub(super) fn older(&self) -> Option<&ValueSlot> {
        // SAFETY: as in `List::newest`.
        unsafe { self.older.get().as_ref() }
    }
}

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
        .compare_exchange(
            ptr::null_mut(),
            at.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        )
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
    let Some(first) = NonNull::new(first.cast::<ValueTable>()) else {
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

/// See the file's head.
pub(crate) struct Marker(ValueSlot);

impl Marker {
    pub(crate) const fn new() -> Self {
        Self(ValueSlot::new())
    }

    /// Links the marker before the newest value of the node, if the node has values.
    pub(crate) fn mark<'m>(&'m self, node: &'m ContextNode) -> PlacedMarker<'m> {
        let marked = PlacedMarker {
            node,
            slot: &self.0,
            linked: Cell::new(false),
        };
        if let Some(table) = lock(node) {
            table.live.push(marked.slot);
            marked.linked.set(true);
        }
        marked
    }
}

/// A marker in a node's list, unlinked when dropped.
pub(crate) struct PlacedMarker<'m> {
    node: &'m ContextNode,
    slot: &'m ValueSlot,
    linked: Cell<bool>,
}

impl PlacedMarker<'_> {
    /// Destroys the values older than the marker, newest first, except held ones.
    pub(crate) fn destroy_older(&self) {
        while let Some(taken) = self.next() {
            taken.destroy(self.node);
        }
    }

    fn next(&self) -> Option<RemovedValue> {
        let table = lock(self.node)?;
        let newest = self.slot.older().filter(|_| self.linked.get());
        let (slot, kind) = successors(newest, |slot| slot.older())
            .find_map(|slot| Some((slot, slot.kind.get().filter(|_| slot.is_free_to_go())?)))?;
        Some(table.remove(slot, kind))
    }
}

impl Drop for PlacedMarker<'_> {
    fn drop(&mut self) {
        if self.linked.get()
            && let Some(table) = lock(self.node)
        {
            table.live.unlink(self.slot);
        }
    }
}

#[cfg(test)]
mod tests;
