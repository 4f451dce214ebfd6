//! A hash table in 16 locked shards, in the checker's memory.
//!
//! ```text
//!   key --keyed hash--> hash   4 bits: the shard   bits 20..: the first slot to probe, then the next ones
//!   shard: lock, slots [entry | gone entry | empty ..], the number of used slots
//! ```
//!
//! Removal frees nothing: the entry stays as *gone* until its key comes again or the shard is rebuilt. Memory is allocated and freed
//! while no lock is held: a full shard is measured, unlocked, and moved into slots that were allocated meanwhile.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use alloc_core::support::StateMutex;

use crate::command::thread::enter_growth;
use crate::fence::fenced;
use crate::keyed_hash::HashKey;
use crate::pinned::{Memory, SCOPE};

const SHARDS: usize = 16;
const FIRST_SLOTS: usize = 32;

/// An entry of a table: plain data.
pub(crate) trait TableEntry: Copy {
    /// The hashed key.
    fn key(&self) -> u64;
    /// Whether both entries are the same; such entries have the same key.
    fn same(&self, other: &Self) -> bool;
    /// Whether the entry was removed.
    fn gone(&self) -> bool;
}

/// There is no memory for another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

pub(crate) struct ShardedTable<'h, E: TableEntry> {
    memory: Memory<'h>,
    /// Gone entries are kept when a shard is rebuilt.
    keeps_gone: bool,
    /// The maximum slots of a shard.
    max_slots: usize,
    /// Keys come from a driver or a file, which must not know their slots.
    hash_key: HashKey,
    /// The number of rebuilds: entries moved then, and an iteration may have missed some.
    layouts: AtomicUsize,
    shards: [Shard<E>; SHARDS],
}

/// A cache line of its own, against false sharing.
#[repr(align(64))]
struct Shard<E>(StateMutex<ShardSlots<E>>);

struct ShardSlots<E> {
    slots: NonNull<[Option<E>]>,
    /// Slots that are not empty.
    used: usize,
    promised: usize,
}

// SAFETY: entries are plain data, and slots are reached only under the shard's lock; the memory is `Sync`.
unsafe impl<E: TableEntry + Send> Send for ShardedTable<'_, E> {}
// SAFETY: as above.
unsafe impl<E: TableEntry + Send> Sync for ShardedTable<'_, E> {}

/// The position of [`ShardedTable::next`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    shard: usize,
    slot: usize,
}

/// The promise of one slot in every shard, [`ShardedTable::promise`].
pub(crate) struct Promised<'a, 'h, E: TableEntry>(&'a ShardedTable<'h, E>);

impl<'h, E: TableEntry> ShardedTable<'h, E> {
    pub(crate) fn new(memory: Memory<'h>, keeps_gone: bool, max_slots: usize) -> Self {
        let shards = core::array::from_fn(|_| {
            Shard(StateMutex::new(ShardSlots {
                slots: NonNull::from(&mut []),
                used: 0,
                promised: 0,
            }))
        });
        Self {
            memory,
            keeps_gone,
            max_slots,
            hash_key: HashKey::fresh(),
            layouts: AtomicUsize::new(0),
            shards,
        }
    }

    /// Shows `look` the entry that is the same as `like`, gone or not.
    #[inline]
    pub(crate) fn with<R>(&self, like: &E, look: impl FnOnce(&mut E) -> R) -> Option<R> {
        let hash = self.hash_key.hash(like.key());
        let shard = self.shard(hash)?;
        let mut slots = shard.0.lock();
        match slots.find(hash, like) {
            Probe::Occupied(entry) => Some(look(entry)),
            Probe::Empty(_) | Probe::Full => None,
        }
    }

    /// Shows `look` the entries of this key, and others between them, gone or not, until it returns true.
    pub(crate) fn among(&self, key: u64, mut look: impl FnMut(&mut E) -> bool) {
        let hash = self.hash_key.hash(key);
        let Some(shard) = self.shard(hash) else {
            return;
        };
        let mut slots = shard.0.lock();
        let all = slots.all();
        let first = (hash >> 20) as usize & all.len().wrapping_sub(1);
        let (before, behind) = all.split_at_mut(first.min(all.len()));
        for slot in behind.iter_mut().chain(before) {
            let Some(entry) = slot else { return };
            if look(entry) {
                return;
            }
        }
    }

    /// Adds an entry, or shows `merge` the same one in the table.
    #[inline]
    pub(crate) fn put(&self, entry: E, merge: impl FnOnce(&mut E)) -> Result<(), NoRoom> {
        self.put_with(entry, merge, false)
    }

    #[inline]
    fn put_with(&self, entry: E, merge: impl FnOnce(&mut E), promised: bool) -> Result<(), NoRoom> {
        let hash = self.hash_key.hash(entry.key());
        let shard = self.shard(hash).ok_or(NoRoom)?;
        let mut merge = Some(merge);
        let mut grow = Grow::Allowed;
        loop {
            {
                let mut slots = shard.0.lock();
                let roomy = promised || slots.has_room(grow);
                match slots.find(hash, &entry) {
                    Probe::Occupied(there) => {
                        if let Some(merge) = merge.take() {
                            merge(there);
                        }
                        return Ok(());
                    }
                    Probe::Empty(slot) if roomy => {
                        *slot = Some(entry);
                        slots.used = slots.used.saturating_add(1);
                        return Ok(());
                    }
                    Probe::Empty(_) | Probe::Full => {}
                }
            }
            if grow == Grow::Refused {
                return Err(NoRoom);
            }
            grow = self.make_room(shard);
        }
    }

    /// As [`put`](Self::put), in existing room: allocates nothing. The second result is false if the shard is nearly full:
    /// [`make_ready`](Self::make_ready) should be called soon.
    pub(crate) fn put_within(
        &self,
        entry: E,
        merge: impl FnOnce(&mut E),
    ) -> (Result<(), NoRoom>, bool) {
        let hash = self.hash_key.hash(entry.key());
        let Some(shard) = self.shard(hash) else {
            return (Err(NoRoom), true);
        };
        let mut slots = shard.0.lock();
        let roomy = slots.has_room(Grow::Refused);
        let put = match slots.find(hash, &entry) {
            Probe::Occupied(there) => {
                merge(there);
                Ok(())
            }
            Probe::Empty(slot) if roomy => {
                *slot = Some(entry);
                slots.used = slots.used.saturating_add(1);
                Ok(())
            }
            Probe::Empty(_) | Probe::Full => Err(NoRoom),
        };
        (put, slots.has_room(Grow::Allowed))
    }

    /// Allocates the first slots of each shard, a power of two. From here on the shard of an entry is the same in each process: how much
    /// room a run has must not depend on chance.
    pub(crate) fn reserve(&mut self, number: usize) -> Result<(), NoRoom> {
        self.hash_key = HashKey::FIXED;
        for shard in &mut self.shards {
            let fresh = allocate_slots(self.memory, number).ok_or(NoRoom)?;
            free_slots(self.memory, shard.replace(fresh));
        }
        Ok(())
    }

    /// Makes room in every shard that is nearly full, as far as memory allows.
    #[cold]
    pub(crate) fn make_ready(&self) {
        for shard in &self.shards {
            while !shard.is_roomy() {
                if self.make_room(shard) == Grow::Refused {
                    break;
                }
            }
        }
    }

    /// Promises one slot in each shard: for a reallocation, whose new address is not known in advance.
    pub(crate) fn promise(&self) -> Result<Promised<'_, 'h, E>, NoRoom> {
        for (done, shard) in self.shards.iter().enumerate() {
            let mut grow = Grow::Allowed;
            while !shard.promise(grow) {
                if grow == Grow::Refused {
                    self.shards.iter().take(done).for_each(Shard::release);
                    return Err(NoRoom);
                }
                grow = self.make_room(shard);
            }
        }
        Ok(Promised(self))
    }

    /// A number that changes when entries moved.
    pub(crate) fn layouts(&self) -> usize {
        self.layouts.load(Ordering::Acquire)
    }

    /// The next entry for which `pick` returns true; it may change the entry. Entries that are added or removed meanwhile may be missed. If
    /// [`layouts`](Self::layouts) changes, any entry may be missed or come twice.
    pub(crate) fn next(
        &self,
        cursor: &mut Cursor,
        mut pick: impl FnMut(&mut E) -> bool,
    ) -> Option<E> {
        while let Some(shard) = self.shards.get(cursor.shard) {
            let mut slots = shard.0.lock();
            for slot in slots.all().iter_mut().skip(cursor.slot) {
                cursor.slot = cursor.slot.saturating_add(1);
                if let Some(entry) = slot
                    && pick(entry)
                {
                    return Some(*entry);
                }
            }
            *cursor = Cursor {
                shard: cursor.shard.saturating_add(1),
                slot: 0,
            };
        }
        None
    }

    /// The number of entries that are not gone.
    pub(crate) fn count(&self) -> usize {
        let mut count = 0_usize;
        let _ = self.next(&mut Cursor::default(), |entry| {
            count = count.saturating_add(usize::from(!entry.gone()));
            false
        });
        count
    }

    fn shard(&self, hash: u64) -> Option<&Shard<E>> {
        self.shards.get((hash >> 60) as usize)
    }

    /// Rebuilds a shard with room for more. Holds no lock while it allocates and frees.
    #[cold]
    fn make_room(&self, shard: &Shard<E>) -> Grow {
        let wanted = shard.0.lock().wanted(self.keeps_gone);
        let Some(_nested) = enter_growth() else {
            return Grow::Refused;
        };
        let Some(fresh) = (wanted <= self.max_slots)
            .then(|| allocate_slots(self.memory, wanted))
            .flatten()
        else {
            return Grow::Refused;
        };
        let old = {
            let mut slots = shard.0.lock();
            // Another thread may have rebuilt the shard: then the fresh slots are too few, or not needed.
            if slots.has_room(Grow::Allowed) || slots.wanted(self.keeps_gone) > wanted {
                fresh
            } else {
                let old = slots.move_to(fresh, self.keeps_gone, self.hash_key);
                self.layouts.fetch_add(1, Ordering::Release);
                old
            }
        };
        free_slots(self.memory, old);
        Grow::Allowed
    }
}

/// Allocates `number` empty slots.
fn allocate_slots<E>(memory: Memory<'_>, number: usize) -> Option<NonNull<[Option<E>]>> {
    let layout = Layout::array::<Option<E>>(number).ok()?;
    // A panic of the memory must not reach the driver.
    let place = fenced(|| memory.allocate(layout, SCOPE))
        .ok()?
        .ok()?
        .cast::<Option<E>>();
    for index in 0..number {
        // SAFETY: below `number`, so within the block.
        let slot = unsafe { place.add(index) };
        // SAFETY: fresh memory of the layout of `number` slots.
        unsafe { slot.write(None) };
    }
    Some(NonNull::slice_from_raw_parts(place, number))
}

fn free_slots<E>(memory: Memory<'_>, slots: NonNull<[Option<E>]>) {
    let Ok(layout) = Layout::array::<Option<E>>(slots.len()) else {
        return;
    };
    if layout.size() > 0 {
        // SAFETY: allocated by `allocate_slots` with this layout, and in no shard.
        let _ = fenced(|| unsafe { memory.deallocate(slots.cast(), layout, SCOPE) });
    }
}

impl<E: TableEntry> Drop for ShardedTable<'_, E> {
    fn drop(&mut self) {
        for shard in &mut self.shards {
            free_slots(self.memory, shard.replace(NonNull::from(&mut [])));
        }
    }
}

impl<E: TableEntry> Promised<'_, '_, E> {
    /// Adds an entry to the promised slot.
    pub(crate) fn put(&self, entry: E, merge: impl FnOnce(&mut E)) -> Result<(), NoRoom> {
        self.0.put_with(entry, merge, true)
    }
}

impl<E: TableEntry> Drop for Promised<'_, '_, E> {
    fn drop(&mut self) {
        self.0.shards.iter().for_each(Shard::release);
    }
}

impl<E: TableEntry> Shard<E> {
    fn replace(&mut self, slots: NonNull<[Option<E>]>) -> NonNull<[Option<E>]> {
        core::mem::replace(&mut self.0.get_mut().slots, slots)
    }

    fn is_roomy(&self) -> bool {
        self.0.lock().has_room(Grow::Allowed)
    }

    fn promise(&self, grow: Grow) -> bool {
        let mut slots = self.0.lock();
        let room = slots.has_room(grow);
        slots.promised = slots.promised.saturating_add(usize::from(room));
        room
    }

    fn release(&self) {
        let mut slots = self.0.lock();
        slots.promised = slots.promised.saturating_sub(1);
    }
}

/// Whether the shard may grow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grow {
    /// A quarter of the slots stays empty.
    Allowed,
    /// All slots but one may be used.
    Refused,
}

enum Probe<'a, E> {
    Occupied(&'a mut E),
    Empty(&'a mut Option<E>),
    Full,
}

impl<E: TableEntry> ShardSlots<E> {
    fn all(&mut self) -> &mut [Option<E>] {
        // SAFETY: the shard's own slots, all written, reached under its lock only.
        unsafe { self.slots.as_mut() }
    }

    /// The slot of the entry, or the empty slot for it.
    #[inline]
    fn find(&mut self, hash: u64, like: &E) -> Probe<'_, E> {
        let number = self.slots.len();
        let mask = number.wrapping_sub(1);
        let first = self.slots.cast::<Option<E>>();
        let mut index = (hash >> 20) as usize;
        for _ in 0..number {
            index &= mask;
            // SAFETY: `number` is a power of two, so the index is below it.
            let slot = unsafe { first.add(index) };
            // SAFETY: a written slot, which is exclusive while `self` is borrowed.
            let slot = unsafe { &mut *slot.as_ptr() };
            match slot {
                None => return Probe::Empty(slot),
                Some(entry) if entry.same(like) => return Probe::Occupied(entry),
                Some(_) => index = index.wrapping_add(1),
            }
        }
        Probe::Full
    }

    fn has_room(&self, grow: Grow) -> bool {
        let (number, needed) = (
            self.slots.len(),
            self.used.saturating_add(self.promised).saturating_add(1),
        );
        match grow {
            Grow::Allowed => needed <= number / 4 * 3,
            Grow::Refused => needed < number,
        }
    }

    /// The number of slots after a rebuild.
    fn wanted(&mut self, keeps_gone: bool) -> usize {
        let promised = self.promised;
        let kept = self
            .all()
            .iter()
            .flatten()
            .filter(|entry| keeps_gone || !entry.gone())
            .count();
        let needed = kept.saturating_add(promised).saturating_add(1);
        needed
            .saturating_mul(2)
            .checked_next_power_of_two()
            .map_or(usize::MAX, |number| number.max(FIRST_SLOTS))
    }

    /// Moves to enough empty slots; returns the old ones.
    fn move_to(
        &mut self,
        fresh: NonNull<[Option<E>]>,
        keeps_gone: bool,
        hash_key: HashKey,
    ) -> NonNull<[Option<E>]> {
        let mut new = Self {
            slots: fresh,
            used: 0,
            promised: self.promised,
        };
        for entry in self
            .all()
            .iter()
            .flatten()
            .filter(|entry| keeps_gone || !entry.gone())
        {
            if let Probe::Empty(slot) = new.find(hash_key.hash(entry.key()), entry) {
                *slot = Some(*entry);
                new.used = new.used.saturating_add(1);
            }
        }
        core::mem::replace(self, new).slots
    }
}

#[cfg(test)]
mod tests;
