//! The state of a cache: one block, shared by every handle, owner and work reference, and freed with the last of them.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

use alloc_core::{ContextHandle, HostAllocator, HostError, Scope};

use super::block::{DetailedEntry, OwnerWithContext, ReservedBlock, StoredPayload};
use super::entry::{CacheEntry, ShaderHeader};
use super::in_flight_compile::InFlightCompile;
use super::owner::{self, OwnerSlot};
use super::ref_records::{self, RefRecords, RefSlot};
use super::segments::{NONE, ZeroedSegments};
use super::table::TableList;
use crate::sync::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Relaxed, StateMutex};

pub(super) struct CacheCore<P, E: Copy + Send + Sync> {
    pub(super) tables: TableList,
    pub(super) entries: ZeroedSegments<DetailedEntry>,
    pub(super) records: RefRecords,
    /// Incremented each time the clock hand has passed all entries.
    pub(super) epoch: AtomicU32,
    /// 1: referenced entries keep the cache above its limits, and the thread that releases the last reference evicts them. Next to `epoch`,
    /// which hits read as well.
    pub(super) is_over_limits: AtomicU32,
    pub(super) writer: StateMutex<WriterState>,
    pub(super) owners: ZeroedSegments<OwnerWithContext>,
    pub(super) compiles: ZeroedSegments<InFlightCompile<E>>,
    pub(super) memory: ContextHandle,
    /// Handles, owners and work references. 64 bits, as an entry's reference count.
    pub(super) keepers: AtomicU64,
    /// The block as it was allocated: a pointer from a reference to it must not be used to free it.
    pub(super) block: NonNull<Self>,
    /// One handle stores payloads and another may return them, so handles of `P` must not become handles of a shorter-lived `P`:
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

/// State that only the thread with the lock changes.
pub(super) struct WriterState {
    pub(super) free_entry: u32,
    pub(super) free_compile: u32,
    pub(super) free_owner: u32,
    /// First compile in flight.
    pub(super) running: u32,
    /// Entries in the table.
    pub(super) live: u64,
    /// Entries being compiled; the table has room reserved for them.
    pub(super) leads: u64,
    /// Bytes of all payloads, including dead ones.
    pub(super) bytes: u64,
    /// Dead entries that are not freed yet.
    pub(super) dead: u64,
    /// The first dead entry that is still referenced.
    pub(super) held: u32,
    pub(super) hand: u32,
    pub(super) max_bytes: u64,
    pub(super) max_entries: u64,
    pub(super) compiled: u64,
    pub(super) failed: u64,
    pub(super) joined: u64,
    pub(super) evicted: u64,
}

/// A referenced shader; the reference stands in `slot`, or is counted in the entry.
#[derive(Clone, Copy)]
pub(super) struct HeldShader {
    pub(super) block: NonNull<ShaderHeader>,
    pub(super) slot: Option<RefSlot>,
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    /// Creates a cache with one keeper.
    pub(super) fn new(
        memory: ContextHandle,
        most_bytes: u64,
        most_entries: u64,
    ) -> Result<NonNull<Self>, HostError> {
        let block = memory
            .try_allocate(Layout::new::<Self>(), Scope::Cache)?
            .cast::<Self>();
        let writer = WriterState {
            free_entry: NONE,
            free_compile: NONE,
            free_owner: NONE,
            running: NONE,
            live: 0,
            leads: 0,
            bytes: 0,
            dead: 0,
            held: NONE,
            hand: 0,
            max_bytes: most_bytes,
            max_entries: most_entries,
            compiled: 0,
            failed: 0,
            joined: 0,
            evicted: 0,
        };
        let core = Self {
            tables: TableList::new(),
            entries: ZeroedSegments::new(),
            records: RefRecords::new(),
            epoch: AtomicU32::new(1),
            is_over_limits: AtomicU32::new(0),
            writer: StateMutex::new(writer),
            owners: ZeroedSegments::new(),
            compiles: ZeroedSegments::new(),
            memory,
            keepers: AtomicU64::new(1),
            block,
            payloads: PhantomData,
        };
        // SAFETY: a block of this layout, which no other thread uses.
        unsafe { block.write(core) };
        Ok(block)
    }

    pub(super) fn add_keeper(&self) {
        self.keepers.fetch_add(1, Relaxed);
    }

    /// Releases one keeper; the last one destroys the cache.
    ///
    /// # Safety
    /// `core` must come from [`new`](Self::new), and the caller must be one of its keepers and not use it afterwards.
    pub(super) unsafe fn release_keeper(core: NonNull<Self>) {
        // SAFETY: it lives as long as the caller keeps it.
        if unsafe { core.as_ref() }.keepers.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        let last = LastCore {
            // SAFETY: no other keeper is left, so it is moved out of its block, which no thread reads any more.
            core: unsafe { core.read() },
            block: core,
        };
        last.core.drop_payloads();
    }

    /// Destroys all remaining entries. No reference exists or can be created.
    fn drop_payloads(&self) {
        for number in 0..self.entries.count() {
            if let Some(entry) = self.entries.get(number) {
                // SAFETY: nothing references an entry with a block; entries without one are skipped.
                unsafe { self.drop_payload(entry) };
            }
        }
    }

    /// Frees all memory except the block. No payload is left.
    fn free_all(&mut self) {
        let memory = self.memory.clone();
        self.records.free_all(&memory);
        while let Some(table) = self.tables.pop_table() {
            table.free(&memory);
        }
        while let Some(chunk) = self.entries.pop_chunk() {
            chunk.free(&memory);
        }
        while let Some(chunk) = self.compiles.pop_chunk() {
            chunk.free(&memory);
        }
        // Leaked references kept their entries, and these kept their owner's slot.
        for slot in (0..self.owners.count()).filter_map(|number| self.owners.get(number)) {
            if slot.state.swap(0, Relaxed) != 0 {
                // SAFETY: the slot had an owner until now, whose blocks are gone; no other thread reads it.
                drop(unsafe { slot.remove_memory() });
            }
        }
        while let Some(chunk) = self.owners.pop_chunk() {
            chunk.free(&memory);
        }
    }

    /// Makes a live entry dead: lookups no longer find it. True if nothing references it: then the caller must [`destroy`](Self::destroy)
    /// it, without the lock.
    pub(super) fn kill(&self, writer: &mut WriterState, entry: &CacheEntry, number: u32) -> bool {
        if let Some(block) = entry.block() {
            // SAFETY: live, and the lock is held.
            let key = unsafe { block.as_ref() }.key;
            self.tables.remove(key.hash(), block);
        }
        self.count_dead(writer, entry);
        let mine = ref_records::condemn(&self.records, entry);
        if !mine {
            self.list_dead(writer, entry, number);
        }
        mine
    }

    /// Counts a live entry that left the table as dead; the caller changes its state.
    pub(super) fn count_dead(&self, writer: &mut WriterState, entry: &CacheEntry) {
        writer.dead = writer.dead.wrapping_add(1);
        if let Some(slot) = self.owners.get(entry.owner.load(Relaxed)) {
            self.unlist(writer, slot, entry);
            owner::add(&slot.zombies, 1);
        }
    }

    /// Removes a live entry from the list of its owner, `slot`. Requires the lock.
    #[inline]
    pub(super) fn unlist(&self, writer: &mut WriterState, slot: &OwnerSlot, entry: &CacheEntry) {
        writer.live = writer.live.wrapping_sub(1);
        owner::subtract(&slot.entries, 1);
        let first = slot.first.load(Relaxed);
        slot.first.store(self.unlink(first, entry), Relaxed);
    }

    /// Adds an entry to the list of dead, referenced entries.
    pub(super) fn list_dead(&self, writer: &mut WriterState, entry: &CacheEntry, number: u32) {
        self.link(writer.held, entry, number);
        writer.held = number;
    }

    /// Destroys a dead entry without references and frees it, even if the payload's destructor unwinds. The caller has set
    /// `is_being_destroyed` and does not hold the lock.
    pub(super) fn destroy(&self, entry: &DetailedEntry, number: u32) {
        let _afterwards = FreeEntryGuard {
            core: self,
            entry,
            number,
        };
        // SAFETY: dead, without references, and only this thread was chosen to destroy it.
        unsafe { self.drop_payload(entry) };
    }

    fn make_free(&self, entry: &CacheEntry, number: u32) {
        let owner = entry.owner.load(Relaxed);
        let mut writer = self.writer.lock();
        writer.dead = writer.dead.wrapping_sub(1);
        if let Some(slot) = self.owners.get(owner) {
            owner::subtract(&slot.zombies, 1);
            self.forget(&mut writer, slot, (entry, number));
        }
        self.note_limits(&writer, 0);
        let unused = self.free_owner(&mut writer, owner);
        drop(writer);
        drop(unused);
    }

    /// Frees an entry and detaches it from its owner, `slot`. Requires the lock.
    #[inline]
    pub(super) fn forget(
        &self,
        writer: &mut WriterState,
        slot: &OwnerSlot,
        (entry, number): (&CacheEntry, u32),
    ) {
        let bytes = entry.bytes.load(Relaxed);
        writer.bytes = writer.bytes.wrapping_sub(bytes);
        owner::subtract(&slot.bytes, bytes);
        slot.unbind();
        entry.free();
        entry.link.store(writer.free_entry, Relaxed);
        writer.free_entry = number;
    }

    /// Destroys the entry's payload and frees its block, if it has a block.
    ///
    /// # Safety
    /// No reference to the entry exists or will exist.
    unsafe fn drop_payload(&self, entry: &DetailedEntry) {
        let Some(slot) = self.owners.get(entry.owner.load(Relaxed)) else {
            return;
        };
        let Some(block) = entry.detach_block().map(NonNull::cast::<StoredPayload<P>>) else {
            return;
        };
        // SAFETY: the entry had a block, and no thread reads it any more.
        let content = unsafe { entry.remove_content() };
        // SAFETY: written when the entry was filled; moved out once, here.
        let StoredPayload { value, .. } = unsafe { block.read() };
        // Freed last, even if a destructor unwinds.
        let _room = ReservedBlock {
            block,
            // SAFETY: the slot's owner has this block.
            memory: unsafe { slot.memory() },
        };
        drop(value);
        drop(content);
    }

    pub(super) fn push_entry(&self, writer: &mut WriterState, number: u32) {
        if let Some(entry) = self.entries.get(number) {
            entry.link.store(writer.free_entry, Relaxed);
            writer.free_entry = number;
        }
    }

    /// Puts an entry in front of a list.
    pub(super) fn link(&self, first: u32, entry: &CacheEntry, number: u32) {
        entry.next.store(first, Relaxed);
        entry.previous.store(NONE, Relaxed);
        if let Some(next) = self.entries.get(first) {
            next.previous.store(number, Relaxed);
        }
    }

    /// Removes an entry from a list; returns the list's first entry.
    pub(super) fn unlink(&self, first: u32, entry: &CacheEntry) -> u32 {
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

    /// Frees the slot of a released owner after its last entry. The caller drops the result without the lock.
    #[must_use]
    pub(super) fn free_owner(&self, writer: &mut WriterState, owner: u32) -> Option<ContextHandle> {
        let slot = self.owners.get(owner)?;
        if slot.state.load(Relaxed) != owner::OWNER_LEAVING || slot.bound.load(Relaxed) != 0 {
            return None;
        }
        slot.state.store(0, Relaxed);
        slot.link.store(writer.free_owner, Relaxed);
        writer.free_owner = owner;
        // SAFETY: the slot had an owner until now, and no block is left.
        Some(unsafe { slot.remove_memory() })
    }
}

/// Frees an entry after its payload's destructor returned or unwound.
struct FreeEntryGuard<'c, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c CacheCore<P, E>,
    entry: &'c CacheEntry,
    number: u32,
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for FreeEntryGuard<'_, P, E> {
    fn drop(&mut self) {
        self.core.make_free(self.entry, self.number);
    }
}

/// A core without references, moved out of its block.
struct LastCore<P: Send + Sync, E: Copy + Send + Sync> {
    core: CacheCore<P, E>,
    block: NonNull<CacheCore<P, E>>,
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for LastCore<P, E> {
    fn drop(&mut self) {
        // No payload is left, unless a destructor unwound.
        self.core.drop_payloads();
        self.core.free_all();
        // SAFETY: allocated in `CacheCore::new` with this layout and scope; no thread reads it any more.
        unsafe {
            self.core.memory.deallocate(
                self.block.cast(),
                Layout::new::<CacheCore<P, E>>(),
                Scope::Cache,
            )
        };
    }
}
