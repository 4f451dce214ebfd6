//! A hash table in 16 locked shards, in memory that is given; what the checker knows lies in three of them.
//!
//! ```text
//!   key --multiply--> hash   4 bits: the shard   bits 20..: the first slot to look at, then the next ones
//!   shard: lock, slots [entry | gone entry | empty ..], how many are not empty
//! ```
//!
//! Removal frees nothing: the entry stays as *gone* until its key comes again or the shard is laid out anew. Memory is taken and
//! given back with no lock held (law 5): a shard that is full is measured, let go, and moved into slots that are ready by then.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use alloc_core::StateLock;

use crate::fence::fenced;
use crate::placed::{Memory, SCOPE};

const SHARDS: usize = 16;
const FIRST_SLOTS: usize = 32;

/// What lies in a table: plain data.
pub(crate) trait Entry: Copy {
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

pub(crate) struct Table<'h, E: Entry> {
    memory: Memory<'h>,
    /// Gone entries are kept when a shard is laid out anew.
    keeps_gone: bool,
    /// No shard gets more slots.
    most: usize,
    shards: [Shard<E>; SHARDS],
}

/// A line of its own: threads that use different shards do not disturb each other.
#[repr(align(64))]
struct Shard<E> {
    lock: StateLock,
    slots: UnsafeCell<Slots<E>>,
}

struct Slots<E> {
    at: NonNull<[Option<E>]>,
    /// Slots that are not empty.
    used: usize,
    /// Slots that somebody was promised.
    promised: usize,
}

// SAFETY: entries are plain data, and slots are reached only under the shard's lock; the memory is `Sync`.
unsafe impl<E: Entry + Send> Send for Table<'_, E> {}
// SAFETY: as above.
unsafe impl<E: Entry + Send> Sync for Table<'_, E> {}

/// Where [`Table::next`] goes on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cursor {
    shard: usize,
    slot: usize,
}

/// A promise of one slot in every shard; see [`Table::promise`].
pub(crate) struct Promised<'a, 'h, E: Entry>(&'a Table<'h, E>);

impl<'h, E: Entry> Table<'h, E> {
    pub(crate) fn new(memory: Memory<'h>, keeps_gone: bool, most: usize) -> Self {
        let shards = core::array::from_fn(|_| Shard {
            lock: StateLock::new(),
            slots: UnsafeCell::new(Slots { at: NonNull::from(&mut []), used: 0, promised: 0 }),
        });
        Self { memory, keeps_gone, most, shards }
    }

    /// Looks at the entry that is the same as `like`, gone or not.
    #[inline]
    pub(crate) fn with<R>(&self, like: &E, look: impl FnOnce(&mut E) -> R) -> Option<R> {
        let hash = hash(like.key());
        let shard = self.shard(hash)?;
        let _held = shard.lock.lock();
        // SAFETY: the lock is held; `look` is handed the entry alone.
        let slots = unsafe { &mut *shard.slots.get() };
        match slots.find(hash, like) {
            Place::Taken(entry) => Some(look(entry)),
            Place::Empty(_) | Place::Full => None,
        }
    }

    /// Puts an entry, or lets `merge` see the same one that is there.
    #[inline]
    pub(crate) fn put(&self, entry: E, merge: impl FnOnce(&mut E)) -> Result<(), NoRoom> {
        self.put_with(entry, merge, false)
    }

    #[inline]
    fn put_with(&self, entry: E, merge: impl FnOnce(&mut E), promised: bool) -> Result<(), NoRoom> {
        let hash = hash(entry.key());
        let shard = self.shard(hash).ok_or(NoRoom)?;
        let mut merge = Some(merge);
        let mut grow = Grow::Allowed;
        loop {
            {
                let _held = shard.lock.lock();
                // SAFETY: the lock is held.
                let slots = unsafe { &mut *shard.slots.get() };
                let roomy = promised || slots.has_room(grow);
                match slots.find(hash, &entry) {
                    Place::Taken(there) => {
                        if let Some(merge) = merge.take() {
                            merge(there);
                        }
                        return Ok(());
                    }
                    Place::Empty(slot) if roomy => {
                        *slot = Some(entry);
                        slots.used = slots.used.saturating_add(1);
                        return Ok(());
                    }
                    Place::Empty(_) | Place::Full => {}
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
    pub(crate) fn put_within(&self, entry: E, merge: impl FnOnce(&mut E)) -> (Result<(), NoRoom>, bool) {
        let hash = hash(entry.key());
        let Some(shard) = self.shard(hash) else { return (Err(NoRoom), true) };
        let _held = shard.lock.lock();
        // SAFETY: the lock is held.
        let slots = unsafe { &mut *shard.slots.get() };
        let roomy = slots.has_room(Grow::Refused);
        let put = match slots.find(hash, &entry) {
            Place::Taken(there) => {
                merge(there);
                Ok(())
            }
            Place::Empty(slot) if roomy => {
                *slot = Some(entry);
                slots.used = slots.used.saturating_add(1);
                Ok(())
            }
            Place::Empty(_) | Place::Full => Err(NoRoom),
        };
        (put, slots.has_room(Grow::Allowed))
    }

    /// Gives each shard its first slots, a power of two. Before anybody else knows the table.
    pub(crate) fn reserve(&mut self, number: usize) -> Result<(), NoRoom> {
        for index in 0..SHARDS {
            let fresh = self.take(number).ok_or(NoRoom)?;
            if let Some(shard) = self.shards.get_mut(index) {
                let old = core::mem::replace(&mut shard.slots.get_mut().at, fresh);
                self.give_back(old);
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

    /// The next entry that `pick` wants; it may change it. Entries that come or go meanwhile may be missed.
    pub(crate) fn next(&self, cursor: &mut Cursor, mut pick: impl FnMut(&mut E) -> bool) -> Option<E> {
        while let Some(shard) = self.shards.get(cursor.shard) {
            let _held = shard.lock.lock();
            // SAFETY: the lock is held.
            let slots = unsafe { &mut *shard.slots.get() };
            for slot in slots.all().iter_mut().skip(cursor.slot) {
                cursor.slot = cursor.slot.saturating_add(1);
                if let Some(entry) = slot
                    && pick(entry)
                {
                    return Some(*entry);
                }
            }
            *cursor = Cursor { shard: cursor.shard.saturating_add(1), slot: 0 };
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
        let wanted = {
            let _held = shard.lock.lock();
            // SAFETY: the lock is held.
            unsafe { &mut *shard.slots.get() }.wanted(self.keeps_gone)
        };
        let Some(fresh) = (wanted <= self.most).then(|| self.take(wanted)).flatten() else { return Grow::Refused };
        let old = {
            let _held = shard.lock.lock();
            // SAFETY: the lock is held.
            let slots = unsafe { &mut *shard.slots.get() };
            // Another thread may have been here: then what was taken is too small, or not needed.
            if slots.has_room(Grow::Allowed) || slots.wanted(self.keeps_gone) > wanted {
                fresh
            } else {
                slots.move_to(fresh, self.keeps_gone)
            }
        };
        self.give_back(old);
        Grow::Allowed
    }

    /// So many empty slots.
    fn take(&self, number: usize) -> Option<NonNull<[Option<E>]>> {
        let layout = Layout::array::<Option<E>>(number).ok()?;
        // A panic of the memory must not reach the driver.
        let place = fenced(|| self.memory.allocate(layout, SCOPE)).ok()?.ok()?.cast::<Option<E>>();
        for index in 0..number {
            // SAFETY: below `number`, so within the block.
            let slot = unsafe { place.add(index) };
            // SAFETY: fresh memory of the layout of `number` slots.
            unsafe { slot.write(None) };
        }
        Some(NonNull::slice_from_raw_parts(place, number))
    }

    fn give_back(&self, slots: NonNull<[Option<E>]>) {
        let Ok(layout) = Layout::array::<Option<E>>(slots.len()) else { return };
        if layout.size() > 0 {
            // SAFETY: taken by `take` with this layout, and taken out of its shard or never put into one.
            let _ = fenced(|| unsafe { self.memory.deallocate(slots.cast(), layout, SCOPE) });
        }
    }
}

impl<E: Entry> Drop for Table<'_, E> {
    fn drop(&mut self) {
        for index in 0..SHARDS {
            let Some(shard) = self.shards.get_mut(index) else { return };
            let slots = core::mem::replace(&mut shard.slots.get_mut().at, NonNull::from(&mut []));
            self.give_back(slots);
        }
    }
}

impl<E: Entry> Promised<'_, '_, E> {
    /// Puts an entry for which there is room.
    pub(crate) fn put(&self, entry: E, merge: impl FnOnce(&mut E)) -> Result<(), NoRoom> {
        self.0.put_with(entry, merge, true)
    }
}

impl<E: Entry> Drop for Promised<'_, '_, E> {
    fn drop(&mut self) {
        self.0.shards.iter().for_each(Shard::release);
    }
}

impl<E: Entry> Shard<E> {
    fn is_roomy(&self) -> bool {
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        unsafe { &mut *self.slots.get() }.has_room(Grow::Allowed)
    }

    fn promise(&self, grow: Grow) -> bool {
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        let slots = unsafe { &mut *self.slots.get() };
        let room = slots.has_room(grow);
        slots.promised = slots.promised.saturating_add(usize::from(room));
        room
    }

    fn release(&self) {
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        let slots = unsafe { &mut *self.slots.get() };
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

enum Place<'a, E> {
    Taken(&'a mut E),
    Empty(&'a mut Option<E>),
    Full,
}

impl<E: Entry> Slots<E> {
    fn all(&mut self) -> &mut [Option<E>] {
        // SAFETY: the shard's own slots, all written, reached under its lock only.
        unsafe { self.at.as_mut() }
    }

    /// The slot of the entry, or the empty one where it would go.
    #[inline]
    fn find(&mut self, hash: u64, like: &E) -> Place<'_, E> {
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
                None => return Place::Empty(slot),
                Some(entry) if entry.same(like) => return Place::Taken(entry),
                Some(_) => index = index.wrapping_add(1),
            }
        }
        Place::Full
    }

    fn has_room(&self, grow: Grow) -> bool {
        let (number, needed) = (self.at.len(), self.used.saturating_add(self.promised).saturating_add(1));
        match grow {
            Grow::Allowed => needed <= number / 4 * 3,
            Grow::Refused => needed < number,
        }
    }

    /// How many slots there should be.
    fn wanted(&mut self, keeps_gone: bool) -> usize {
        let promised = self.promised;
        let kept = self.all().iter().flatten().filter(|entry| keeps_gone || !entry.gone()).count();
        let needed = kept.saturating_add(promised).saturating_add(1);
        needed.saturating_mul(2).checked_next_power_of_two().map_or(usize::MAX, |number| number.max(FIRST_SLOTS))
    }

    /// Moves to slots that are empty and enough; answers with the old ones.
    fn move_to(&mut self, fresh: NonNull<[Option<E>]>, keeps_gone: bool) -> NonNull<[Option<E>]> {
        let mut new = Self { at: fresh, used: 0, promised: self.promised };
        for entry in self.all().iter().flatten().filter(|entry| keeps_gone || !entry.gone()) {
            if let Place::Empty(slot) = new.find(hash(entry.key()), entry) {
                *slot = Some(*entry);
                new.used = new.used.saturating_add(1);
            }
        }
        core::mem::replace(self, new).at
    }
}

#[inline]
const fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
