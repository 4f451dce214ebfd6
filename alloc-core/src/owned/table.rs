//! The values of one context, the oldest first: made when it owns its first value.
//!
//! ```text
//!   node.owned -> | list, sums |        list -> | number, block, type, holds | .. | hole | ..     32 bytes each
//! ```
//! Both are memory of the context itself, in its default scope. Numbers ascend and are never used again: an id is found by binary search
//! or not at all, and what was added after some moment has a higher number. A removed value leaves a hole, until it is the last entry or the
//! list is full. The list grows outside of its lock.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use crate::collections::TryVec;
use crate::context::{CLOSED, ContextNode};
use crate::error::HostError;
use crate::sync::{AtomicU64, Ordering, Relaxed as _, StateGuard, StateMutex, fence};

/// See the file's head.
struct ValueTable {
    entries: StateMutex<Entries>,
    /// What is freed with the context: values and the table itself. Changed under the lock.
    bytes: AtomicU64,
    blocks: AtomicU64,
}

struct Entries {
    list: EntryList,
    /// Values that go with the context.
    live: usize,
    next_number: u64,
}

type EntryList = TryVec<Entry, &'static ContextNode>;

/// See the file's head.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    number: u64,
    /// `None` = a hole.
    pub(super) value: Option<Value>,
    pub(super) holds: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Entry>() == 32);

/// In `holds`: the context has ended; the value goes with the last hold.
pub(super) const DOOMED: u32 = 1 << 31;
/// In `holds`: one holder, who may write.
pub(super) const EXCLUSIVE: u32 = 1 << 30;
/// As many readers as there may be.
pub(super) const MAX_HOLDS: u32 = EXCLUSIVE - 1;

/// A value in its block (dangling where the value has no size).
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) block: NonNull<u8>,
    pub(super) kind: &'static ValueType,
}

/// How values of one type are freed.
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

/// The table of the node, if it ever owned anything.
fn of(node: &ContextNode) -> Option<&ValueTable> {
    // SAFETY: a node's table is freed with the node.
    unsafe {
        node.owned
            .load(Ordering::Acquire)
            .cast::<ValueTable>()
            .as_ref()
    }
}

/// Bytes and blocks that go with the node: its values' blocks and the table's own. May be asked under the tree's lock.
pub(crate) fn bytes_freed_with(node: &ContextNode) -> (u64, u64) {
    of(node).map_or((0, 0), |table| (table.bytes.get(), table.blocks.get()))
}

impl ValueTable {
    fn count(&self, layout: Layout) {
        let (bytes, blocks) = parts(layout);
        self.bytes.set(self.bytes.get().wrapping_add(bytes));
        self.blocks.set(self.blocks.get().wrapping_add(blocks));
    }

    fn uncount(&self, layout: Layout) {
        let (bytes, blocks) = parts(layout);
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
        self.blocks.set(self.blocks.get().saturating_sub(blocks));
    }
}

/// Bytes and blocks of one allocation.
fn parts(layout: Layout) -> (u64, u64) {
    (layout.size() as u64, u64::from(layout.size() > 0))
}

/// The table of a node, locked.
pub(super) struct Locked<'n> {
    table: &'n ValueTable,
    entries: StateGuard<'n, Entries>,
}

#[inline]
pub(super) fn lock(node: &ContextNode) -> Option<Locked<'_>> {
    of(node).map(|table| Locked {
        table,
        entries: table.entries.lock(),
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

impl Locked<'_> {
    /// The number of values that go with the context.
    pub(super) fn live(&self) -> usize {
        self.entries.live
    }

    /// The number of values that the list has room for.
    pub(super) fn room(&self) -> usize {
        let list = &self.entries.list;
        list.capacity().saturating_sub(list.len())
    }

    /// The number of the next value.
    pub(super) fn next_number(&self) -> u64 {
        self.entries.next_number
    }

    /// Values that go with the context, with their numbers, the oldest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let is_live = |entry: &&Entry| entry.value.is_some() && entry.holds & DOOMED == 0;
        self.entries.list.iter().filter(is_live)
    }

    /// Bytes and blocks of the values that go with the context.
    pub(super) fn sums(&self) -> (u64, u64) {
        self.entries()
            .filter_map(|entry| entry.value)
            .fold((0, 0), |sum, value| {
                let (bytes, blocks) = parts(value.kind.layout);
                (sum.0.saturating_add(bytes), sum.1.saturating_add(blocks))
            })
    }

    /// Adds a value as the newest, and returns its number; `None` without room.
    #[inline]
    pub(super) fn push(&mut self, value: Value) -> Option<u64> {
        if self.room() == 0 {
            return None;
        }
        let Entries {
            list,
            live,
            next_number,
        } = &mut *self.entries;
        let number = *next_number;
        let entry = Entry {
            number,
            value: Some(value),
            holds: 0,
        };
        list.try_push(entry).ok()?;
        *next_number = number.wrapping_add(1);
        *live = live.wrapping_add(1);
        self.table.count(value.kind.layout);
        Some(number)
    }

    /// The entry with that number; a hole, if it is still there.
    #[inline]
    pub(super) fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        let list = &mut self.entries.list;
        let at = list.binary_search_by_key(&number, |entry| entry.number);
        list.get_mut(at.ok()?)
    }

    /// Removes the value with that number.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) -> Option<Value> {
        let entry = self.entry(number)?;
        let is_doomed = entry.holds & DOOMED != 0;
        let value = entry.value.take()?;
        let Entries { list, live, .. } = &mut *self.entries;
        if !is_doomed {
            *live = live.wrapping_sub(1);
            self.table.uncount(value.kind.layout);
        }
        while list.last().is_some_and(|entry| entry.value.is_none()) {
            list.pop();
        }
        Some(value)
    }

    /// Removes the newest value with a number below `before` that is not held; the next call goes on below it. When the context `is_ending`,
    /// those held are doomed on the way: they go with their last hold.
    pub(super) fn remove_newest(&mut self, before: &mut u64, is_ending: bool) -> Option<Value> {
        let Entries { list, live, .. } = &mut *self.entries;
        let end = list.partition_point(|entry| entry.number < *before);
        for entry in list.get_mut(..end)?.iter_mut().rev() {
            *before = entry.number;
            let Some(value) = entry.value else { continue };
            if entry.holds == 0 {
                return self.remove(*before);
            }
            if is_ending && entry.holds & DOOMED == 0 {
                entry.holds |= DOOMED;
                *live = live.wrapping_sub(1);
                self.table.uncount(value.kind.layout);
            }
        }
        None
    }

    /// Removes all values, the oldest first. None is held.
    pub(super) fn drain(&mut self, mut act: impl FnMut(Value)) {
        let Entries { list, live, .. } = &mut *self.entries;
        *live = 0;
        for value in list.iter_mut().filter_map(|entry| entry.value.take()) {
            self.table.uncount(value.kind.layout);
            act(value);
        }
        list.clear();
    }

    /// Removes the newest value, held or not.
    pub(super) fn remove_any(&mut self) -> Option<Value> {
        let number = self.entries.list.last()?.number;
        self.remove(number)
    }
}

/// Gives a value its number, making room where there is none.
pub(super) fn put(node: &ContextNode, value: Value) -> Result<u64, HostError> {
    loop {
        if let Some(mut table) = lock(node) {
            if node.flags() & CLOSED != 0 {
                return Err(HostError::Closed { context: node.id() });
            }
            if let Some(number) = table.push(value) {
                return Ok(number);
            }
        }
        grow_by(node, 1)?;
    }
}

const MIN_ENTRIES: usize = 8;
const TABLE: Layout = Layout::new::<ValueTable>();

/// Makes room for `wanted` values, or for none.
#[cold]
pub(super) fn grow_by(node: &ContextNode, wanted: usize) -> Result<(), HostError> {
    let Some(capacity) = new_capacity(node, wanted) else {
        return Ok(());
    };
    let mut list = TryVec::try_with_capacity_in(capacity, lasting(node))?;
    if of(node).is_none() {
        return begin(node, list);
    }
    // The old block is freed when the lock is released.
    let _old = lock(node).and_then(|mut locked| {
        let table = locked.table;
        let old = &mut locked.entries.list;
        if list.capacity() <= old.capacity() {
            return Some(list); // another thread was first
        }
        let kept = old.iter().filter(|entry| entry.value.is_some());
        list.try_extend(kept.copied()).ok()?;
        core::mem::swap(old, &mut list);
        table.count(memory(old));
        table.uncount(memory(&list));
        Some(list)
    });
    Ok(())
}

/// The layout of a list's block.
fn memory(list: &EntryList) -> Layout {
    Layout::array::<Entry>(list.capacity()).unwrap_or(Layout::new::<()>())
}

/// The length of the list that [`grow_by`] will allocate; `None` when closing holes is enough.
fn new_capacity(node: &ContextNode, wanted: usize) -> Option<usize> {
    let Some(mut table) = lock(node) else {
        return Some(wanted.max(MIN_ENTRIES));
    };
    let list = &mut table.entries.list;
    list.retain(|entry| entry.value.is_some());
    let needed = list.len().saturating_add(wanted);
    // A quarter of it: closing holes is paid for by what is added afterwards.
    if needed.saturating_add(list.capacity() / 4) <= list.capacity() {
        return None;
    }
    Some(
        needed
            .max(list.capacity().saturating_mul(2))
            .max(MIN_ENTRIES),
    )
}

/// Bytes that [`grow_by`] will allocate.
pub(super) fn growth(node: &ContextNode, wanted: usize) -> u64 {
    let table = if of(node).is_none() { TABLE.size() } else { 0 };
    let list =
        new_capacity(node, wanted).map_or(0, |length| length.saturating_mul(size_of::<Entry>()));
    (table as u64).saturating_add(list as u64)
}

/// The node as the allocator of its own table.
fn lasting(node: &ContextNode) -> &'static ContextNode {
    // SAFETY: only the node's table and its list have the result, and both are freed before the node.
    unsafe { &*ptr::from_ref(node) }
}

/// Creates the table of a context that gets its first value. Does nothing if another thread has done so.
fn begin(node: &ContextNode, list: EntryList) -> Result<(), HostError> {
    let block = node
        .allocate(TABLE, node.scope)
        .map_err(|_| node.refusal(TABLE, node.scope))?
        .cast::<ValueTable>();
    let table = ValueTable {
        bytes: AtomicU64::new(0),
        blocks: AtomicU64::new(0),
        entries: StateMutex::new(Entries {
            list,
            live: 0,
            next_number: 0,
        }),
    };
    table.count(TABLE);
    table.count(memory(&table.entries.lock().list));
    // SAFETY: the block is new, and has the table's layout.
    unsafe { block.write(table) };
    let published = node.owned.compare_exchange(
        ptr::null_mut(),
        block.as_ptr().cast(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if published.is_err() {
        // SAFETY: this table was never published.
        unsafe { free(node, block) };
    }
    // Pairs with the fence in `context::tree`: either the closing thread sees this table, or `put` sees that the context is closed.
    fence(Ordering::SeqCst);
    Ok(())
}

/// Frees the table's memory. The node has no reference and owns no value.
pub(crate) fn free_table(node: &ContextNode) {
    if node.owned.get().is_null() {
        return;
    }
    let table = {
        // A thread that walks the tree may be reading the table's sums (`bytes_freed_with`).
        let _held = node.root().tree_lock.lock();
        node.owned.swap(ptr::null_mut(), Ordering::Relaxed)
    };
    let Some(block) = NonNull::new(table) else {
        return;
    };
    // SAFETY: the node's own table, which nobody reaches any more.
    unsafe { free(node, block.cast()) };
}

/// # Safety
/// A table of this node, which is not used any more.
unsafe fn free(node: &ContextNode, table: NonNull<ValueTable>) {
    // SAFETY: this function's contract: its list is freed here.
    unsafe { table.drop_in_place() };
    // SAFETY: allocated from this node with this layout.
    unsafe { node.deallocate(table.cast(), TABLE, node.scope) };
}
