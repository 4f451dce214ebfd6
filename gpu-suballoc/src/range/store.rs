//! Where nodes live: in memory that the user donates, in chunks that never move.
//!
//! ```text
//!   table (one block; a longer one replaces it)                     chunks (4 KiB each)
//!   +------------------------+---------------------------+          +-----------------------+
//!   | heads: a node for each | slots: chunk, floor,      |   +----> | 128 nodes of 32 bytes |
//!   | bin, u32               | spare nodes of it, 32 B   | --+      +-----------------------+
//!   +------------------------+---------------------------+
//! ```
//!
//! Node `n` is number `n % 128` of the chunk in slot `n / 128`. A chunk that is given back leaves its *floor* in its slot: the lowest
//! generation that none of its ids ever carried, where the next chunk in that slot begins. Every number is checked before it is followed:
//! one that names no node leads to the edge of the range.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::node::{NIL, Node, State};
use super::types::MAX_GENERATION;

/// Nodes of a chunk.
pub(super) const CHUNK_NODES: u32 = 128;
const CHUNK: Layout = Layout::new::<[Node; CHUNK_NODES as usize]>();
/// The last node is [`NIL`].
const MOST_SLOTS: u32 = (NIL / CHUNK_NODES) - 1;
const FIRST_SLOTS: u32 = 4;

/// A chunk's place.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Slot {
    /// `None`: given back.
    chunk: Option<NonNull<Node>>,
    /// Where the generations of the next chunk begin.
    floor: u32,
    /// How many of its nodes are spare.
    spare: u16,
    /// How many have used up their generations.
    retired: u16,
    /// The first spare node.
    first: u32,
    back: u32,
    forth: u32,
}

const _: () = assert!(size_of::<Slot>() == 32);

/// A block that the store can do with: what [`RangeCore::lacks`](super::RangeCore::lacks) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    layout: Layout,
    /// Slots of the table; 0: a chunk.
    slots: u32,
}

impl Lack {
    /// What to allocate.
    pub(crate) const fn layout(self) -> Layout {
        self.layout
    }
}

/// A block to be given back to where it came from.
#[derive(Clone, Copy, Debug)]
#[must_use = "it is lost unless it is given back"]
pub(crate) struct Memory {
    pub(crate) block: NonNull<u8>,
    pub(crate) layout: Layout,
}

/// The lists that a slot can be on, by its spare nodes. None of them: no chunk and no floor left, or a chunk without spare nodes.
#[derive(Clone, Copy, Debug)]
struct Lists {
    /// Some nodes are spare.
    open: u32,
    /// All are, or are retired.
    whole: u32,
    /// All are retired.
    dead: u32,
    /// No chunk.
    absent: u32,
}

/// See the drawing above.
#[derive(Debug)]
pub(super) struct Store {
    slots: NonNull<Slot>,
    slot_count: u32,
    slot_room: u32,
    heads: NonNull<u32>,
    /// 0 while there is no table.
    head_count: u32,
    head_room: u32,
    spare: u32,
    lists: Lists,
    floor: u32,
    /// Before the first node and behind the last one.
    edge: Node,
}

// SAFETY: the pointers are to memory that the store owns alone since it was donated.
unsafe impl Send for Store {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Store {}

impl Store {
    /// Without memory. `bins` heads, a multiple of 8.
    pub(super) const fn new(bins: u32, floor: u32) -> Self {
        let lists = Lists { open: NIL, whole: NIL, dead: NIL, absent: NIL };
        let floor = if floor == 0 { 1 } else { floor };
        Self {
            slots: NonNull::dangling(),
            slot_count: 0,
            slot_room: 0,
            heads: NonNull::dangling(),
            head_count: 0,
            head_room: bins.next_multiple_of(8),
            spare: 0,
            lists,
            floor,
            edge: Node::spare(0, NIL),
        }
    }

    /// How many nodes can be had without memory.
    #[inline]
    pub(super) const fn spare_nodes(&self) -> u32 {
        self.spare
    }

    #[inline]
    fn slots(&self) -> &[Slot] {
        // SAFETY: the first `slot_count` slots are initialised, in the table that is the store's own; without one the count is 0.
        unsafe { core::slice::from_raw_parts(self.slots.as_ptr(), self.slot_count as usize) }
    }

    #[inline]
    fn slots_mut(&mut self) -> &mut [Slot] {
        // SAFETY: as in `slots`; borrowed uniquely with the store.
        unsafe { core::slice::from_raw_parts_mut(self.slots.as_ptr(), self.slot_count as usize) }
    }

    #[inline]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots_mut().get_mut(index as usize)
    }

    #[inline]
    fn place(&self, node: u32) -> Option<NonNull<Node>> {
        let chunk = self.slots().get((node / CHUNK_NODES) as usize)?.chunk?;
        // SAFETY: a chunk has 128 nodes.
        Some(unsafe { chunk.add((node % CHUNK_NODES) as usize) })
    }

    /// The node of that number; the edge where there is none.
    #[inline]
    pub(super) fn at(&self, node: u32) -> &Node {
        match self.place(node) {
            // SAFETY: a node of a chunk that is there is initialised, and borrowed with the store.
            Some(place) => unsafe { place.as_ref() },
            None => &self.edge,
        }
    }

    /// As [`at`](Self::at), to be changed.
    #[inline]
    pub(super) fn at_mut(&mut self, node: u32) -> &mut Node {
        match self.place(node) {
            // SAFETY: as in `at`; borrowed uniquely with the store.
            Some(mut place) => unsafe { place.as_mut() },
            None => &mut self.edge,
        }
    }

    fn heads(&self) -> &[u32] {
        // SAFETY: all `head_count` heads of the table are initialised; without a table the count is 0.
        unsafe { core::slice::from_raw_parts(self.heads.as_ptr(), self.head_count as usize) }
    }

    /// The first hole of a bin.
    #[inline]
    pub(super) fn head(&self, bin: u32) -> u32 {
        self.heads().get(bin as usize).copied().unwrap_or(NIL)
    }

    /// Changes the first hole of a bin.
    #[inline]
    pub(super) fn set_head(&mut self, bin: u32, node: u32) {
        // SAFETY: as in `heads`; borrowed uniquely with the store.
        let heads = unsafe { core::slice::from_raw_parts_mut(self.heads.as_ptr(), self.head_count as usize) };
        if let Some(head) = heads.get_mut(bin as usize) {
            *head = node;
        }
    }

    /// A node to be used, [`NIL`] where there is none. Whoever needs several asks [`spare_nodes`](Self::spare_nodes) first.
    #[inline]
    pub(super) fn take_node(&mut self) -> u32 {
        let from_open = self.lists.open != NIL;
        let index = if from_open { self.lists.open } else { self.lists.whole };
        let Some(slot) = self.slots().get(index as usize).copied() else { return NIL };
        let next = self.at(slot.first).link;
        if let Some(slot) = self.slot_mut(index) {
            slot.first = next;
            slot.spare -= 1;
        }
        self.spare -= 1;
        if !from_open {
            self.lists.whole = self.unlink(index, self.lists.whole);
            if slot.spare > 1 {
                self.lists.open = self.link(index, self.lists.open);
            }
        } else if slot.spare == 1 {
            self.lists.open = self.unlink(index, self.lists.open);
        }
        slot.first
    }

    /// A node that is no longer part of the range. One whose generations are used up never comes back.
    #[inline]
    pub(super) fn give_node(&mut self, node: u32) {
        let index = node / CHUNK_NODES;
        let Some(slot) = self.slots().get(index as usize).copied() else { return };
        let place = self.at_mut(node);
        place.set_state(State::Spare);
        if place.generation() > MAX_GENERATION {
            return self.retire(index);
        }
        place.link = slot.first;
        if let Some(slot) = self.slot_mut(index) {
            slot.first = node;
            slot.spare += 1;
        }
        self.spare += 1;
        if slot.spare == 0 {
            self.lists.open = self.link(index, self.lists.open);
        }
        if u32::from(slot.spare + slot.retired) == CHUNK_NODES - 1 {
            self.lists.open = self.unlink(index, self.lists.open);
            self.lists.whole = self.link(index, self.lists.whole);
        }
    }

    #[cold]
    fn retire(&mut self, index: u32) {
        let Some(slot) = self.slot_mut(index) else { return };
        slot.retired += 1;
        let spare = slot.spare;
        if u32::from(spare + slot.retired) == CHUNK_NODES {
            if spare == 0 {
                self.lists.dead = self.link(index, self.lists.dead);
            } else {
                self.lists.open = self.unlink(index, self.lists.open);
                self.lists.whole = self.link(index, self.lists.whole);
            }
        }
    }

    /// Puts a slot in front of a list; the list's new head.
    fn link(&mut self, index: u32, head: u32) -> u32 {
        if let Some(first) = self.slot_mut(head) {
            first.back = index;
        }
        if let Some(slot) = self.slot_mut(index) {
            slot.back = NIL;
            slot.forth = head;
        }
        index
    }

    /// Takes a slot out of a list; the list's new head.
    fn unlink(&mut self, index: u32, head: u32) -> u32 {
        let Some(slot) = self.slots().get(index as usize).copied() else { return head };
        if let Some(forth) = self.slot_mut(slot.forth) {
            forth.back = slot.back;
        }
        match self.slot_mut(slot.back) {
            Some(back) => {
                back.forth = slot.forth;
                head
            }
            None => slot.forth,
        }
    }

    fn table_layout(&self, slots: u32) -> Option<(Layout, usize)> {
        let heads = Layout::array::<u32>(self.head_room as usize).ok()?;
        heads.extend(Layout::array::<Slot>(slots as usize).ok()?).ok()
    }

    /// What to allocate next so that `nodes` are spare. `None` too where there cannot be more.
    #[inline]
    pub(super) fn lacks(&self, nodes: u32) -> Option<Lack> {
        if self.spare >= nodes && self.head_count != 0 { None } else { self.next_lack() }
    }

    #[cold]
    fn next_lack(&self) -> Option<Lack> {
        let room = self.lists.absent != NIL || self.slot_count < self.slot_room;
        if self.head_count != 0 && room {
            return Some(Lack { layout: CHUNK, slots: 0 });
        }
        if self.slot_room >= MOST_SLOTS {
            return None;
        }
        let slots = self.slot_room.saturating_mul(2).clamp(FIRST_SLOTS, MOST_SLOTS);
        let (layout, _) = self.table_layout(slots)?;
        Some(Lack { layout, slots })
    }

    /// Takes a block over. What comes back is no longer needed: the table that was replaced, or `block` where it is not wanted.
    ///
    /// # Safety
    /// `block` was allocated with `lack.layout()` for this store, which said so, and nobody else uses it until the store gives it back.
    pub(super) unsafe fn supply(&mut self, lack: Lack, block: NonNull<u8>) -> Option<Memory> {
        let unwanted = Some(Memory { block, layout: lack.layout });
        if lack.slots == 0 {
            let index = self.fresh_slot();
            let Some(index) = index else { return unwanted };
            // SAFETY: the caller's promise, for the layout of a chunk; the slot has none.
            unsafe { self.add_chunk(index, block.cast()) };
            return None;
        }
        let Some((layout, slots_at)) = self.table_layout(lack.slots) else { return unwanted };
        if lack.slots <= self.slot_room || layout != lack.layout {
            return unwanted;
        }
        let old = self.table();
        let heads = block.cast::<u32>();
        for bin in 0..self.head_room {
            let head = self.head(bin);
            // SAFETY: the table has `head_room` heads.
            let place = unsafe { heads.add(bin as usize) };
            // SAFETY: in the donated block, which is aligned for a slot.
            unsafe { place.write(head) };
        }
        // SAFETY: `slots_at` is an offset within the layout of the block.
        let slots = unsafe { block.add(slots_at) }.cast::<Slot>();
        // SAFETY: more slots than there are of old; the two tables are different blocks.
        unsafe { slots.copy_from_nonoverlapping(self.slots, self.slot_count as usize) };
        self.heads = heads;
        self.head_count = self.head_room;
        self.slots = slots;
        self.slot_room = lack.slots;
        old
    }

    fn table(&self) -> Option<Memory> {
        if self.head_count == 0 {
            return None;
        }
        let (layout, _) = self.table_layout(self.slot_room)?;
        Some(Memory { block: self.heads.cast(), layout })
    }

    /// A slot without a chunk, on no list.
    fn fresh_slot(&mut self) -> Option<u32> {
        let absent = self.lists.absent;
        if absent != NIL {
            self.lists.absent = self.unlink(absent, absent);
            return Some(absent);
        }
        if self.slot_count == self.slot_room {
            return None;
        }
        let index = self.slot_count;
        let slot = Slot { chunk: None, floor: self.floor, spare: 0, retired: 0, first: NIL, back: NIL, forth: NIL };
        // SAFETY: `index` is below `slot_room`, the table's length.
        let place = unsafe { self.slots.add(index as usize) };
        // SAFETY: within the store's own table.
        unsafe { place.write(slot) };
        self.slot_count += 1;
        Some(index)
    }

    /// # Safety
    /// `chunk` is a block of the layout of a chunk that nobody else uses; the slot is there, has none, and is on no list.
    unsafe fn add_chunk(&mut self, index: u32, chunk: NonNull<Node>) {
        let first = index * CHUNK_NODES;
        let floor = self.slots().get(index as usize).map_or(self.floor, |slot| slot.floor);
        for number in 0..CHUNK_NODES {
            let next = if number + 1 < CHUNK_NODES { first + number + 1 } else { NIL };
            // SAFETY: a chunk has 128 nodes.
            let place = unsafe { chunk.add(number as usize) };
            // SAFETY: within the chunk, by the caller's promise.
            unsafe { place.write(Node::spare(floor, next)) };
        }
        if let Some(slot) = self.slot_mut(index) {
            *slot = Slot { chunk: Some(chunk), floor, spare: CHUNK_NODES as u16, retired: 0, first, back: NIL, forth: NIL };
        }
        self.spare += CHUNK_NODES;
        self.lists.whole = self.link(index, self.lists.whole);
    }

    /// A chunk that nobody needs: none of its nodes is in use, and as many are spare elsewhere.
    #[inline]
    pub(super) fn spare_chunk(&mut self) -> Option<Memory> {
        if (self.lists.whole != NIL && self.spare >= 2 * CHUNK_NODES) || self.lists.dead != NIL {
            return self.take_chunk_out();
        }
        None
    }

    #[cold]
    fn take_chunk_out(&mut self) -> Option<Memory> {
        let index = if self.lists.dead != NIL {
            let index = self.lists.dead;
            self.lists.dead = self.unlink(index, index);
            index
        } else {
            let index = self.lists.whole;
            self.lists.whole = self.unlink(index, index);
            index
        };
        let memory = self.remove_chunk(index)?;
        if self.slots().get(index as usize).is_some_and(|slot| slot.floor <= MAX_GENERATION) {
            self.lists.absent = self.link(index, self.lists.absent);
        }
        Some(memory)
    }

    /// Takes the chunk out of its slot and leaves its floor there.
    fn remove_chunk(&mut self, index: u32) -> Option<Memory> {
        let floor = self.ceiling_of(index);
        let slot = self.slot_mut(index)?;
        let chunk = slot.chunk.take()?;
        slot.floor = floor;
        let spare = u32::from(core::mem::take(&mut slot.spare));
        self.spare -= spare;
        Some(Memory { block: chunk.cast(), layout: CHUNK })
    }

    /// The lowest generation that no id of this slot ever carried.
    fn ceiling_of(&self, index: u32) -> u32 {
        let Some(slot) = self.slots().get(index as usize).copied() else { return self.floor };
        if slot.chunk.is_none() {
            return slot.floor;
        }
        (0..CHUNK_NODES).fold(slot.floor, |most, number| {
            let node = self.at(index * CHUNK_NODES + number);
            most.max(node.generation() + u32::from(node.state() == State::Used))
        })
    }

    /// The lowest generation that no id ever carried.
    pub(super) fn ceiling(&self) -> u32 {
        (0..self.slot_count).fold(self.floor, |most, index| most.max(self.ceiling_of(index)))
    }

    /// A block of what the store has, until there is none: then it is as new, with a higher floor.
    pub(super) fn dismantle(&mut self) -> Option<Memory> {
        while let Some(last) = self.slot_count.checked_sub(1) {
            self.floor = self.floor.max(self.ceiling_of(last));
            let memory = self.remove_chunk(last);
            self.slot_count = last;
            if memory.is_some() {
                return memory;
            }
        }
        let table = self.table();
        *self = Self::new(self.head_room, self.floor);
        table
    }

    /// How many bytes were donated.
    pub(super) fn bytes(&self) -> u64 {
        let chunks = self.slots().iter().filter(|slot| slot.chunk.is_some()).count();
        let table = self.table().map_or(0, |memory| memory.layout.size());
        (chunks * CHUNK.size() + table) as u64
    }
}
