//! All that a cache is: one block, which every handle, owner and hold points at, and which goes with the last of them.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

use alloc_core::{Handle, HostAllocator, HostError, Scope};

use super::block::{Keeps, Kept, Room, Stored};
use super::entry::{Entry, Front};
use super::flight::Flight;
use super::holds::{self, At, Records};
use super::owner::{self, OwnerSlot};
use super::segments::{NONE, Segments, Zeroed};
use super::table::Tables;
use crate::sync::{AtomicU32, AtomicU64, Guarded, Ordering::AcqRel, Ordering::Relaxed};

pub(super) struct Core<P, E: Copy + Send + Sync> {
    pub(super) tables: Tables,
    pub(super) entries: Segments<Kept>,
    pub(super) records: Records,
    /// Counted on when the hand of the clock has gone round.
    pub(super) epoch: AtomicU32,
    pub(super) writer: Guarded<Writer>,
    pub(super) owners: Segments<OwnerSlot>,
    pub(super) flights: Segments<Flight<E>>,
    pub(super) memory: Handle,
    /// Who keeps it: handles, owners, holds that outlive a borrow. Of 64 bits, as an entry's count of holds is.
    keepers: AtomicU64,
    /// The block, as it was taken: what a reference leads to cannot be given back by it.
    pub(super) block: NonNull<Self>,
    /// Payloads go in by one handle and come out by another, so handles of `P` are no handles of a shorter-lived `P`:
    ///
    /// ```compile_fail
    /// use gpu_suballoc::ShaderCache;
    ///
    /// fn shorter<'s>(cache: ShaderCache<&'static str, ()>, _: &'s str) -> ShaderCache<&'s str, ()> {
    ///     cache
    /// }
    /// ```
    payloads: PhantomData<fn(P) -> P>,
}

/// What only one thread at a time changes.
pub(super) struct Writer {
    pub(super) free_entry: u32,
    pub(super) free_flight: u32,
    pub(super) free_owner: u32,
    /// The first flight that is under way.
    pub(super) flying: u32,
    /// Entries that can be found.
    pub(super) live: u64,
    /// Entries that are about to be made: their room in the table is theirs.
    pub(super) leads: u64,
    /// Bytes of all payloads that are there, dead ones too.
    pub(super) bytes: u64,
    /// Dead ones that are there.
    pub(super) dead: u64,
    /// The first of those that are dead and held.
    pub(super) held: u32,
    pub(super) hand: u32,
    pub(super) most_bytes: u64,
    pub(super) most_entries: u64,
    pub(super) compiled: u64,
    pub(super) failed: u64,
    pub(super) joined: u64,
    pub(super) evicted: u64,
}

/// A shader that is held: in its entry's count, or at a place.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) block: NonNull<Front>,
    pub(super) at: Option<At>,
}

// SAFETY: atomics; zeros are a slot that nobody has.
unsafe impl Zeroed for OwnerSlot {}

impl<P: Send + Sync, E: Copy + Send + Sync> Core<P, E> {
    /// With one keeper.
    pub(super) fn new(memory: Handle, most_bytes: u64, most_entries: u64) -> Result<NonNull<Self>, HostError> {
        let block = memory.try_allocate(Layout::new::<Self>(), Scope::Cache)?.cast::<Self>();
        let writer = Writer {
            free_entry: NONE,
            free_flight: NONE,
            free_owner: NONE,
            flying: NONE,
            live: 0,
            leads: 0,
            bytes: 0,
            dead: 0,
            held: NONE,
            hand: 0,
            most_bytes,
            most_entries,
            compiled: 0,
            failed: 0,
            joined: 0,
            evicted: 0,
        };
        let core = Self {
            tables: Tables::new(),
            entries: Segments::new(),
            records: Records::new(),
            epoch: AtomicU32::new(1),
            writer: Guarded::new(writer),
            owners: Segments::new(),
            flights: Segments::new(),
            memory,
            keepers: AtomicU64::new(1),
            block,
            payloads: PhantomData,
        };
        // SAFETY: a block of this layout, nobody else's.
        unsafe { block.write(core) };
        Ok(block)
    }

    pub(super) fn keep(&self) {
        self.keepers.fetch_add(1, Relaxed);
    }

    /// One keeper less; the last one ends it.
    ///
    /// # Safety
    /// `core` was made by [`new`](Self::new), and the caller is one of its keepers, which does not use it any more.
    pub(super) unsafe fn let_go(core: NonNull<Self>) {
        // SAFETY: it lives as long as the caller keeps it.
        if unsafe { core.as_ref() }.keepers.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        // SAFETY: nobody else is left, so it is moved out of its block, which nobody reads any more.
        let last = Last { core: unsafe { core.read() }, block: core };
        last.core.drop_payloads();
    }

    /// Destroys what is left. Nobody holds anything, and nobody will.
    fn drop_payloads(&self) {
        for number in 0..self.entries.count() {
            // SAFETY: nobody refers to what is there; what is there no more, or not yet, is not looked at.
            unsafe { self.drop_payload(number) };
        }
    }

    /// Gives all memory back but the block. Nothing is left in it.
    fn give_back(&mut self) {
        let memory = self.memory.clone();
        self.records.give_back(&memory);
        while let Some(table) = self.tables.take_all() {
            table.give_back(&memory);
        }
        while let Some(chunk) = self.entries.take_all() {
            chunk.give_back(&memory);
        }
        while let Some(chunk) = self.flights.take_all() {
            chunk.give_back(&memory);
        }
        while let Some(chunk) = self.owners.take_all() {
            chunk.give_back(&memory);
        }
    }

    /// Makes a live entry dead: nobody finds it from now on. True where nobody holds it: it is the caller's to [`destroy`](Self::destroy)
    /// then, without the lock.
    pub(super) fn kill(&self, writer: &mut Writer, number: u32) -> bool {
        let Some(entry) = self.entries.get(number) else { return false };
        self.take_out(writer, entry);
        let mine = holds::condemn(&self.records, entry);
        if !mine {
            self.keep_dead(writer, entry, number);
        }
        mine
    }

    /// Takes a live entry out of table and list, and counts it among the dead ones; its state is the caller's to change.
    pub(super) fn take_out(&self, writer: &mut Writer, entry: &Entry) {
        if let Some(block) = entry.block() {
            // SAFETY: live, and the lock is held.
            let key = unsafe { block.as_ref() }.key;
            self.tables.take(key.hash(), block);
        }
        writer.live = writer.live.wrapping_sub(1);
        writer.dead = writer.dead.wrapping_add(1);
        if let Some(slot) = self.owners.get(entry.owner.load(Relaxed)) {
            slot.first.store(self.pull(slot.first.load(Relaxed), entry), Relaxed);
            owner::take(&slot.entries, 1);
            owner::add(&slot.zombies, 1);
        }
    }

    /// A dead entry that is held.
    pub(super) fn keep_dead(&self, writer: &mut Writer, entry: &Entry, number: u32) {
        self.push(writer.held, entry, number);
        writer.held = number;
    }

    /// Destroys a dead entry that nobody holds, and makes it free, even if the payload's destructor unwinds. The caller set `dying`, and has
    /// no lock.
    pub(super) fn destroy(&self, number: u32) {
        let _afterwards = Emptied { core: self, number };
        // SAFETY: dead, held by nobody, and this thread alone was told to.
        unsafe { self.drop_payload(number) };
    }

    fn make_free(&self, number: u32) {
        let Some(entry) = self.entries.get(number) else { return };
        let owner = entry.owner.load(Relaxed);
        let bytes = entry.bytes.load(Relaxed);
        let mut writer = self.writer.lock();
        writer.bytes = writer.bytes.wrapping_sub(bytes);
        writer.dead = writer.dead.wrapping_sub(1);
        if let Some(slot) = self.owners.get(owner) {
            owner::take(&slot.bytes, bytes);
            owner::take(&slot.zombies, 1);
        }
        entry.free();
        self.push_entry(&mut writer, number);
        self.unbind(&mut writer, owner);
    }

    /// Does nothing where there is none.
    ///
    /// # Safety
    /// Nobody holds the entry or will.
    unsafe fn drop_payload(&self, number: u32) {
        let Some(entry) = self.entries.get(number) else { return };
        let Some(block) = entry.take_block().map(NonNull::cast::<Stored<P>>) else { return };
        // SAFETY: it had a block, and nobody reads it any more.
        let Keeps { memory, content } = unsafe { entry.take() };
        // SAFETY: written when the entry was made; moved out once, here.
        let Stored { value, .. } = unsafe { block.read() };
        // Goes last, even if a destructor unwinds.
        let _room = Room { block, memory: &memory };
        drop(value);
        drop(content);
    }

    pub(super) fn push_entry(&self, writer: &mut Writer, number: u32) {
        if let Some(entry) = self.entries.get(number) {
            entry.link.store(writer.free_entry, Relaxed);
            writer.free_entry = number;
        }
    }

    /// Puts an entry in front of the first of a list.
    pub(super) fn push(&self, first: u32, entry: &Entry, number: u32) {
        entry.next.store(first, Relaxed);
        entry.previous.store(NONE, Relaxed);
        if let Some(next) = self.entries.get(first) {
            next.previous.store(number, Relaxed);
        }
    }

    /// Takes an entry out of a list; answers what is first in it now.
    pub(super) fn pull(&self, first: u32, entry: &Entry) -> u32 {
        let (next, previous) = (entry.next.load(Relaxed), entry.previous.load(Relaxed));
        if let Some(next) = self.entries.get(next) {
            next.previous.store(previous, Relaxed);
        }
        match self.entries.get(previous) {
            Some(previous) => {
                previous.next.store(next, Relaxed);
                first
            }
            None => next,
        }
    }

    /// One entry less, or none to come: an owner that has gone leaves its slot with the last.
    pub(super) fn unbind(&self, writer: &mut Writer, owner: u32) {
        let Some(slot) = self.owners.get(owner) else { return };
        slot.bound.store(slot.bound.load(Relaxed).wrapping_sub(1), Relaxed);
        self.free_owner(writer, owner);
    }

    pub(super) fn free_owner(&self, writer: &mut Writer, owner: u32) {
        let Some(slot) = self.owners.get(owner) else { return };
        if slot.state.load(Relaxed) == owner::LEAVING && slot.bound.load(Relaxed) == 0 {
            slot.state.store(0, Relaxed);
            slot.link.store(writer.free_owner, Relaxed);
            writer.free_owner = owner;
        }
    }
}

/// An entry whose payload is destroyed, or being destroyed.
struct Emptied<'c, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c Core<P, E>,
    number: u32,
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for Emptied<'_, P, E> {
    fn drop(&mut self) {
        self.core.make_free(self.number);
    }
}

/// A core that nobody keeps any more, out of its block.
struct Last<P: Send + Sync, E: Copy + Send + Sync> {
    core: Core<P, E>,
    block: NonNull<Core<P, E>>,
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for Last<P, E> {
    fn drop(&mut self) {
        // None are left, unless a destructor unwound.
        self.core.drop_payloads();
        self.core.give_back();
        // SAFETY: taken in `Core::new` with this layout and scope, read by nobody any more.
        unsafe { self.core.memory.deallocate(self.block.cast(), Layout::new::<Core<P, E>>(), Scope::Cache) };
    }
}
