//! A hash table in 16 locked shards, in memory that is given; what the checker knows lies in three of them.
//!
//! ```text
//!   key --keyed hash--> hash   4 bits: the shard   bits 20..: the first slot to look at, then the next ones
//!   shard: lock, slots [entry | gone entry | empty ..], how many are not empty
//! ```
//!
//! Removal frees nothing: the entry stays as *gone* until its key comes again or the shard is laid out anew. Memory is taken and
//! given back with no lock held (law 5): a shard that is full is measured, let go, and moved into slots that are ready by then.

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

/// What lies in a table: plain data.
pub(crate) trait TableEntry: Copy {
    /// What is hashed.
    fn key(&self) -> u64;
    /// The same thing; entries that are the same have the same key.
    fn same(&self, other: &Self) -> bool;
    /// May be forgotten.
    fn gone(&self) -> bool;
}

/// There is no memory for another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

pub(crate) struct ShardedTable<'h, E: TableEntry> {
    memory: Memory<'h>,
    /// Gone entries are kept when a shard is laid out anew.
    keeps_gone: bool,
    /// No shard gets more slots.
    most: usize,
    /// Keys are a driver's addresses, or what a file says: who chooses them must not know where they go.
    hash_key: HashKey,
    /// How often some shard was laid out anew: entries moved then, and who was walking through them may have missed some.
    layouts: AtomicUsize,
    shards: [Shard<E>; SHARDS],
}

/// A line of its own: threads that use different shards do not disturb each other.
#[repr(align(64))]
struct Shard<E>(StateMutex<ShardSlots<E>>);

struct ShardSlots<E> {
    at: NonNull<[Option<E>]>,
    /// Slots that are not empty.
    used: usize,
    /// Slots that somebody was promised.
    promised: usize,
}

// SAFETY: entries are plain data, and slots are reached only under the shard's lock; the memory is `Sync`.
unsafe impl<E: TableEntry + Send> Send for ShardedTable<'_, E> {}
// SAFETY: as above.
unsafe impl<E: TableEntry + Send> Sync for ShardedTable<'_, E> {}

/// Where [`ShardedTable::next`] goes on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    shard: usize,
    slot: usize,
}

/// A promise of one slot in every shard; see [`ShardedTable::promise`].
pub(crate) struct Promised<'a, 'h, E: TableEntry>(&'a ShardedTable<'h, E>);

impl<'h, E: TableEntry> ShardedTable<'h, E> {
    pub(crate) fn new(memory: Memory<'h>, keeps_gone: bool, most: usize) -> Self {
        let shards = core::array::from_fn(|_| {
            Shard(StateMutex::new(ShardSlots {
                at: NonNull::from(&mut []),
                used: 0,
                promised: 0,
            }))
        });
        Self {
            memory,
            keeps_gone,
            most,
            hash_key: HashKey::fresh(),
            layouts: AtomicUsize::new(0),
            shards,
        }
    }

    /// Looks at the entry that is the same as `like`, gone or not.
    #[inline]
    pub(crate) fn with<R>(&self, like: &E, look: impl FnOnce(&mut E) -> R) -> Option<R> {
        let hash = self.hash_key.hash(like.key());
        let shard = self.shard(hash)?;
        let mut slots = shard.0.lock();
        match slots.find(hash, like) {
            Probe::Taken(entry) => Some(look(entry)),
            Probe::Empty(_) | Probe::Full => None,
        }
    }

    /// Shows the entries with this key to `look`, gone or not, until that has seen what it wanted, and others that lie in between.
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

    /// Puts an entry, or lets `merge` see the same one that is there.
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
                    Probe::Taken(there) => {
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

    /// Puts an entry, or lets `merge` see the same one, where there is room now: takes no memory. The second answer is whether there
    /// is room for more; if not, [`make_ready`](Self::make_ready) should be called before long.
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
            Probe::Taken(there) => {
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

    /// Gives each shard its first slots, a power of two. Before anybody else knows the table. Which shard an entry goes to is the same in
    /// each process from here on: where room is short, that of a run must not be a matter of luck.
    pub(crate) fn reserve(&mut self, number: usize) -> Result<(), NoRoom> {
        self.hash_key = HashKey::FIXED;
        for index in 0..SHARDS {
            let fresh = self.allocate_slots(number).ok_or(NoRoom)?;
            if let Some(shard) = self.shards.get_mut(index) {
                let old = core::mem::replace(&mut shard.0.get_mut().at, fresh);
                self.free_slots(old);
            }
        }
        Ok(())
    }

    /// Makes room in every shard that is nearly full, as far as memory goes.
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

    /// One slot in each shard: what a reallocation needs, whose new address nobody knows before it is there.
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

    /// Changes whenever entries have moved.
    pub(crate) fn layouts(&self) -> usize {
        self.layouts.load(Ordering::Acquire)
    }

    /// The next entry that `pick` wants; it may change it. Entries that come or go meanwhile may be missed, and where
    /// [`layouts`](Self::layouts) changes any others, or come twice.
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

    /// How many entries are not gone.
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

    /// Lays a shard out anew, with room for more; with no lock held while memory is taken and given back.
    #[cold]
    fn make_room(&self, shard: &Shard<E>) -> Grow {
        let wanted = shard.0.lock().wanted(self.keeps_gone);
        let Some(_nested) = enter_growth() else {
            return Grow::Refused;
        };
        let Some(fresh) = (wanted <= self.most)
            .then(|| self.allocate_slots(wanted))
            .flatten()
        else {
            return Grow::Refused;
        };
        let old = {
            let mut slots = shard.0.lock();
            // Another thread may have been here: then what was taken is too small, or not needed.
            if slots.has_room(Grow::Allowed) || slots.wanted(self.keeps_gone) > wanted {
                fresh
            } else {
                let old = slots.move_to(fresh, self.keeps_gone, self.hash_key);
                self.layouts.fetch_add(1, Ordering::Release);
                old
            }
        };
        self.free_slots(old);
        Grow::Allowed
    }

    /// So many empty slots.
    fn allocate_slots(&self, number: usize) -> Option<NonNull<[Option<E>]>> {
        let layout = Layout::array::<Option<E>>(number).ok()?;
        // A panic of the memory must not reach the driver.
        let place = fenced(|| self.memory.allocate(layout, SCOPE))
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

    fn free_slots(&self, slots: NonNull<[Option<E>]>) {
        let Ok(layout) = Layout::array::<Option<E>>(slots.len()) else {
            return;
        };
        if layout.size() > 0 {
            // SAFETY: taken by `take` with this layout, and taken out of its shard or never put into one.
            let _ = fenced(|| unsafe { self.memory.deallocate(slots.cast(), layout, SCOPE) });
        }
    }
}

impl<E: TableEntry> Drop for ShardedTable<'_, E> {
    fn drop(&mut self) {
        for index in 0..SHARDS {
            let Some(shard) = self.shards.get_mut(index) else {
                return;
            };
            let slots = core::mem::replace(&mut shard.0.get_mut().at, NonNull::from(&mut []));
            self.free_slots(slots);
        }
    }
}

impl<E: TableEntry> Promised<'_, '_, E> {
    /// Puts an entry for which there is room.
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

/// Whether more memory can be had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grow {
    /// Perhaps: then a quarter of the slots stays empty.
    Allowed,
    /// No: then all but one may be used.
    Refused,
}

enum Probe<'a, E> {
    Taken(&'a mut E),
    Empty(&'a mut Option<E>),
    Full,
}

impl<E: TableEntry> ShardSlots<E> {
    fn all(&mut self) -> &mut [Option<E>] {
        // SAFETY: the shard's own slots, all written, reached under its lock only.
        unsafe { self.at.as_mut() }
    }

    /// The slot of the entry, or the empty one where it would go.
    #[inline]
    fn find(&mut self, hash: u64, like: &E) -> Probe<'_, E> {
        let number = self.at.len();
        let mask = number.wrapping_sub(1);
        let first = self.at.cast::<Option<E>>();
        let mut index = (hash >> 20) as usize;
        for _ in 0..number {
            index &= mask;
            // SAFETY: `number` is a power of two, so the index is below it.
            let slot = unsafe { first.add(index) };
            // SAFETY: a written slot, which is ours alone for as long as `self` is borrowed.
            let slot = unsafe { &mut *slot.as_ptr() };
            match slot {
                None => return Probe::Empty(slot),
                Some(entry) if entry.same(like) => return Probe::Taken(entry),
                Some(_) => index = index.wrapping_add(1),
            }
        }
        Probe::Full
    }

    fn has_room(&self, grow: Grow) -> bool {
        let (number, needed) = (
            self.at.len(),
            self.used.saturating_add(self.promised).saturating_add(1),
        );
        match grow {
            Grow::Allowed => needed <= number / 4 * 3,
            Grow::Refused => needed < number,
        }
    }

    /// How many slots there should be.
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

    /// Moves to slots that are empty and enough; answers with the old ones.
    fn move_to(
        &mut self,
        fresh: NonNull<[Option<E>]>,
        keeps_gone: bool,
        hash_key: HashKey,
    ) -> NonNull<[Option<E>]> {
        let mut new = Self {
            at: fresh,
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
        core::mem::replace(self, new).at
    }
}

#[cfg(test)]
mod tests;
