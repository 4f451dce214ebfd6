//! Removes entries: one, all of an owner or device, those of a predicate, those above a limit.
//!
//! Unreferenced entries are destroyed at once, outside the lock. The last reference destroys each other entry.

use core::convert::Infallible;
use core::ptr::NonNull;

use super::bucket::BucketPlace;
use super::entry::{CacheEntry, FREE, LIVE, ShaderHeader};
use super::key::{CacheDevice, ShaderKey};
use super::owner::{OWNER_LEAVING, OWNER_LIVE, OwnerSlot};
use super::ref_records;
use super::segments::NONE;
use super::shader_ref::ShaderRef;
use super::state::{CacheCore, HeldShader, WriterState};
use crate::sync::{Ordering::Relaxed, Ordering::SeqCst};

/// What became of entries that were taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovalCounts {
    /// Destroyed by now.
    pub destroyed: u64,
    /// Removed from the table; destroyed when their last reference is dropped.
    pub held: u64,
}

/// Dead entries that are this thread's to destroy: a list through their links.
pub(super) struct DestroyList {
    first: u32,
    removed: RemovalCounts,
}

impl DestroyList {
    pub(super) const fn new() -> Self {
        Self {
            first: NONE,
            removed: RemovalCounts {
                destroyed: 0,
                held: 0,
            },
        }
    }

    fn add(&mut self, entry: &CacheEntry, number: u32) {
        self.removed.destroyed = self.removed.destroyed.wrapping_add(1);
        entry.link.store(self.first, Relaxed);
        self.first = number;
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    fn remove(
        &self,
        writer: &mut WriterState,
        (entry, number): (&CacheEntry, u32),
        going: &mut DestroyList,
    ) {
        if self.kill(writer, entry, number) {
            going.add(entry, number);
        } else {
            going.removed.held = going.removed.held.wrapping_add(1);
        }
    }

    /// All of an owner's live ones.
    fn remove_all_of(&self, writer: &mut WriterState, slot: &OwnerSlot, going: &mut DestroyList) {
        while let Some(entry) = self.entries.get(slot.first.load(Relaxed)) {
            self.remove(writer, (entry, slot.first.load(Relaxed)), going);
        }
    }

    /// Without the lock.
    pub(super) fn destroy_all(&self, going: DestroyList) -> RemovalCounts {
        let removed = going.removed;
        DestroyGuard { core: self, going }.destroy();
        removed
    }

    /// All of an owner's, and what is being compiled for it.
    pub(super) fn release_owner(&self, owner: u32) -> RemovalCounts {
        let mut going = DestroyList::new();
        let mut writer = self.writer.lock();
        let Some(slot) = self
            .owners
            .get(owner)
            .filter(|slot| slot.state.load(Relaxed) == OWNER_LIVE)
        else {
            return going.removed;
        };
        self.remove_all_of(&mut writer, slot, &mut going);
        self.disown(&writer, |flight_owner, _| flight_owner == owner);
        // Those that were dead before, too: held, or being destroyed by another thread at this moment.
        going.removed.held = slot
            .zombies
            .load(Relaxed)
            .saturating_sub(going.removed.destroyed);
        slot.state.store(OWNER_LEAVING, Relaxed);
        self.free_owner(&mut writer, owner);
        drop(writer);
        self.destroy_all(going)
    }

    /// As [`release_owner`](Self::release_owner), where nobody holds one of them, nor will, and none is being compiled. Otherwise nothing
    /// is changed, and it says how many are. Who asks for one meanwhile waits until this is decided.
    pub(super) fn release_owner_unused(&self, owner: u32) -> Result<RemovalCounts, u64> {
        let mut going = DestroyList::new();
        let mut writer = self.writer.lock();
        let Some(slot) = self
            .owners
            .get(owner)
            .filter(|slot| slot.state.load(Relaxed) == OWNER_LIVE)
        else {
            return Ok(going.removed);
        };
        let mut held = slot
            .zombies
            .load(Relaxed)
            .wrapping_add(self.running_of(&writer, owner));
        self.for_each_of(slot, |entry| held += u64::from(!self.close(entry)));
        if held > 0 {
            self.for_each_of(slot, |entry| self.reopen(entry));
            return Err(held);
        }
        while let Some(entry) = self.entries.get(slot.first.load(Relaxed)) {
            let number = slot.first.load(Relaxed);
            self.unlist(&mut writer, entry);
            ref_records::mark_dead(entry);
            going.add(entry, number);
        }
        slot.state.store(OWNER_LEAVING, Relaxed);
        self.free_owner(&mut writer, owner);
        drop(writer);
        Ok(self.destroy_all(going))
    }

    /// Each of an owner's live entries. With the lock.
    fn for_each_of(&self, slot: &OwnerSlot, mut see: impl FnMut(&CacheEntry)) {
        let mut number = slot.first.load(Relaxed);
        while let Some(entry) = self.entries.get(number) {
            see(entry);
            number = entry.next.load(Relaxed);
        }
    }

    /// Nobody holds a live entry from now on who did not before, until it is live again or gone. True where nobody does.
    fn close(&self, entry: &CacheEntry) -> bool {
        self.at_place(entry, |place, block| {
            ref_records::close(&self.records, entry, place, block)
        })
    }

    fn reopen(&self, entry: &CacheEntry) {
        self.at_place(entry, |place, block| {
            ref_records::reopen(place, block);
            true
        });
    }

    /// What `see` says of a live entry's place in the newest table.
    fn at_place(
        &self,
        entry: &CacheEntry,
        see: impl FnOnce(&BucketPlace, NonNull<ShaderHeader>) -> bool,
    ) -> bool {
        let Some(block) = entry.block() else {
            return false;
        };
        // SAFETY: live, and the lock is held.
        let key = unsafe { block.as_ref() }.key;
        self.tables
            .place_of(key.hash(), block)
            .is_some_and(|place| see(place, block))
    }

    /// How many are being compiled for an owner.
    fn running_of(&self, writer: &WriterState, owner: u32) -> u64 {
        let mut flying = 0;
        let mut number = writer.running;
        while let Some(flight) = self.compiles.get(number) {
            flying += u64::from(flight.owner.load(Relaxed) == owner);
            number = flight.link.load(Relaxed);
        }
        flying
    }

    /// How many of an owner's entries are held, or being compiled; 0: nothing would be left behind. As of now.
    pub(super) fn held_of(&self, owner: u32) -> u64 {
        let writer = self.writer.lock();
        self.count_held(&writer, owner)
    }

    /// The first of an owner's shaders, from entry `from` on, that is held; and where to go on.
    pub(super) fn next_held(&self, owner: u32, from: u32) -> Option<(ShaderKey, u32)> {
        let _writer = self.writer.lock();
        (from..self.entries.count()).find_map(|number| {
            let entry = self
                .entries
                .get(number)
                .filter(|entry| entry.owner.load(Relaxed) == owner)?;
            let there =
                entry.state.load(SeqCst) != FREE && entry.is_being_destroyed.load(Relaxed) == 0;
            let block = entry
                .block()
                .filter(|_| there && !ref_records::is_free(&self.records, entry))?;
            // SAFETY: it is held, and nobody destroys it without the lock.
            Some((unsafe { block.as_ref() }.key, number.saturating_add(1)))
        })
    }

    fn count_held(&self, writer: &WriterState, owner: u32) -> u64 {
        let Some(slot) = self.owners.get(owner) else {
            return 0;
        };
        let mut held = slot
            .zombies
            .load(Relaxed)
            .wrapping_add(self.running_of(writer, owner));
        self.for_each_of(slot, |entry| {
            held += u64::from(!ref_records::is_free(&self.records, entry))
        });
        held
    }

    /// All of a device's, and what is being compiled for it.
    pub(super) fn release_device(&self, device: CacheDevice) -> RemovalCounts {
        let mut going = DestroyList::new();
        let mut writer = self.writer.lock();
        for owner in 0..self.owners.count() {
            let Some(slot) = self
                .owners
                .get(owner)
                .filter(|slot| slot.state.load(Relaxed) != 0 && slot.is_of(device))
            else {
                continue;
            };
            self.remove_all_of(&mut writer, slot, &mut going);
        }
        self.disown(&writer, |_, key| key.device() == device);
        drop(writer);
        self.destroy_all(going)
    }

    /// Shaders in compilation do not enter the table when they are done.
    fn disown(&self, writer: &WriterState, which: impl Fn(u32, ShaderKey) -> bool) {
        let mut number = writer.running;
        while let Some(flight) = self.compiles.get(number) {
            if which(flight.owner.load(Relaxed), flight.key()) {
                flight.released.store(1, Relaxed);
            }
            number = flight.link.load(Relaxed);
        }
    }

    /// Those of which `unwanted` says so. It is called with each shader held, and no lock.
    pub(super) fn delete_where(
        &self,
        mut unwanted: impl FnMut(ShaderKey, &P) -> bool,
    ) -> RemovalCounts {
        let mut sum = RemovalCounts::default();
        let Ok(()) = self.each(|hold| {
            if unwanted(hold.key(), hold) {
                let number = hold.number();
                let Some(entry) = self.entries.get(number) else {
                    return Ok(());
                };
                let mut writer = self.writer.lock();
                let mut going = DestroyList::new();
                if entry.state.load(SeqCst) == LIVE {
                    self.remove(&mut writer, (entry, number), &mut going);
                }
                drop(writer);
                // This hold stands in the way; with it the entry goes, if it was the last.
                let beside = u64::from(
                    entry.block().is_some_and(|block| self.records.name(block))
                        || entry.refs.load(SeqCst) > 1,
                );
                sum.held = sum.held.wrapping_add(going.removed.held & beside);
                sum.destroyed = sum
                    .destroyed
                    .wrapping_add(going.removed.held & (1 - beside));
            }
            Ok::<(), Infallible>(())
        });
        sum
    }

    /// Calls `see` with each shader that can be found, held, and no lock, until it says that something is wrong.
    pub(super) fn each<X>(
        &self,
        mut see: impl FnMut(&ShaderRef<'_, P, E>) -> Result<(), X>,
    ) -> Result<(), X> {
        for number in 0..self.entries.count() {
            if let Some(found) = self.acquire_live(number) {
                see(&ShaderRef::new(self, found))?;
            }
        }
        Ok(())
    }

    /// A live entry, held in its count.
    fn acquire_live(&self, number: u32) -> Option<HeldShader> {
        let _writer = self.writer.lock();
        let entry = self.entries.get(number).filter(|entry| entry.is_live())?;
        let block = entry.block()?;
        entry.refs.fetch_add(1, SeqCst);
        Some(HeldShader { block, slot: None })
    }

    /// Evicts entries until the limits hold.
    pub(super) fn evict(&self) {
        let mut going = DestroyList::new();
        self.evict_over_limits(&mut self.writer.lock(), &mut going);
        self.destroy_all(going);
    }

    /// Takes out as much as the limits want, of what nobody holds, the least lately used first, about.
    pub(super) fn evict_over_limits(&self, writer: &mut WriterState, going: &mut DestroyList) {
        let mut away = 0;
        // Mostly something is free to go, and who lets go meanwhile has nothing to do: then nobody's word is written.
        if self.is_over_limits.load(Relaxed) == 0 {
            away = self.evict_round(writer, away, going);
        }
        if writer.is_over_limits(away) {
            // Before each is asked whether it is held: of a hold that is let go meanwhile either this sees that, or who lets go sees this.
            self.note_limits(writer, away);
            away = self.evict_round(writer, away, going);
        }
        self.note_limits(writer, away);
    }

    /// A hand goes round over all entries, and lets those be that were used since it came by last. Returns how many bytes are on their way
    /// out, with `away`.
    fn evict_round(&self, writer: &mut WriterState, away: u64, going: &mut DestroyList) -> u64 {
        let mut away = away;
        // Once round makes all old that nobody uses meanwhile, twice takes them.
        let mut steps = u64::from(self.entries.count()) * 3;
        while steps > 0 && writer.is_over_limits(away) {
            steps -= 1;
            let number = writer.hand;
            writer.hand += 1;
            if writer.hand >= self.entries.count() {
                writer.hand = 0;
                self.epoch.fetch_add(1, Relaxed);
            }
            let Some(entry) = self.entries.get(number).filter(|entry| entry.is_live()) else {
                continue;
            };
            let Some(block) = entry.block() else { continue };
            // SAFETY: live, and the lock is held.
            let touched = unsafe { block.as_ref() }.touched.load(Relaxed);
            let epoch = self.epoch.load(Relaxed);
            // Since the hand was here last; the round may just have begun.
            let recent = epoch.wrapping_sub(touched) <= 1;
            if recent || !ref_records::is_free(&self.records, entry) {
                continue;
            }
            away += entry.bytes.load(Relaxed);
            writer.evicted = writer.evicted.wrapping_add(1);
            self.remove(writer, (entry, number), going);
        }
        away
    }

    /// Whether the limits hold once `away` bytes are gone, for those who let go.
    pub(super) fn note_limits(&self, writer: &WriterState, away: u64) {
        let over = u32::from(writer.is_over_limits(away));
        if self.is_over_limits.load(Relaxed) != over {
            self.is_over_limits.store(over, SeqCst);
        }
    }

    /// A hold was let go while the cache was above its limits: the entry goes, where that was the last.
    #[cold]
    pub(super) fn evict_released(&self, number: u32) {
        let mut going = DestroyList::new();
        let mut writer = self.writer.lock();
        let free = self
            .entries
            .get(number)
            .filter(|entry| entry.is_live() && ref_records::is_free(&self.records, entry));
        if let Some(entry) = free
            && writer.is_over_limits(0)
        {
            writer.evicted = writer.evicted.wrapping_add(1);
            self.remove(&mut writer, (entry, number), &mut going);
        }
        drop(writer);
        self.destroy_all(going);
    }
}

impl WriterState {
    /// Above a limit, once `away` bytes are gone.
    const fn is_over_limits(&self, away: u64) -> bool {
        self.bytes.wrapping_sub(away) > self.max_bytes || self.live > self.max_entries
    }
}

/// What is yet to be destroyed; when a destructor unwinds the others are destroyed all the same.
struct DestroyGuard<'c, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c CacheCore<P, E>,
    going: DestroyList,
}

impl<P: Send + Sync, E: Copy + Send + Sync> DestroyGuard<'_, P, E> {
    fn destroy(&mut self) {
        while let Some(entry) = self.core.entries.get(self.going.first) {
            let number = core::mem::replace(&mut self.going.first, entry.link.load(Relaxed));
            self.core.destroy(entry, number);
        }
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for DestroyGuard<'_, P, E> {
    fn drop(&mut self) {
        self.destroy();
    }
}
