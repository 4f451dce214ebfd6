//! Taking entries out: one, an owner's, a device's, those that a predicate wants, those that a limit wants.
//!
//! Those that nobody holds are destroyed at once, outside of the lock; the others by their last hold.

use core::convert::Infallible;

use super::entry::{Entry, FREE, LIVE};
use super::hold::Hold;
use super::holds;
use super::key::{CacheDevice, ShaderKey};
use super::owner::{HERE, LEAVING, OwnerSlot};
use super::segments::NONE;
use super::state::{Core, Writer};
use crate::sync::{Ordering::Relaxed, Ordering::SeqCst};

/// What became of entries that were taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Destroyed by now.
    pub destroyed: u64,
    /// Found by nobody any more, and destroyed when their last hold goes.
    pub held: u64,
}

/// Dead entries that are this thread's to destroy: a list through their links.
struct Going {
    first: u32,
    removed: Removed,
}

impl Going {
    const fn new() -> Self {
        Self { first: NONE, removed: Removed { destroyed: 0, held: 0 } }
    }

    fn add(&mut self, entry: &Entry, number: u32) {
        self.removed.destroyed = self.removed.destroyed.wrapping_add(1);
        entry.cold.link.store(self.first, Relaxed);
        self.first = number;
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Core<P, E> {
    fn remove(&self, writer: &mut Writer, number: u32, going: &mut Going) {
        if !self.kill(writer, number) {
            going.removed.held = going.removed.held.wrapping_add(1);
            return;
        }
        if let Some(entry) = self.entries.get(number) {
            going.add(entry, number);
        }
    }

    /// Without the lock.
    fn gone(&self, going: Going) -> Removed {
        let removed = going.removed;
        Rest { core: self, going }.destroy();
        removed
    }

    /// All of an owner's, and what is being compiled for it.
    pub(super) fn release_owner(&self, owner: u32) -> Removed {
        let mut going = Going::new();
        let mut writer = self.writer.lock();
        let Some(slot) = self.owners.get(owner).filter(|slot| slot.state.load(Relaxed) == HERE) else { return going.removed };
        while slot.first.load(Relaxed) != NONE {
            self.remove(&mut writer, slot.first.load(Relaxed), &mut going);
        }
        self.disown(&writer, |flight_owner, _| flight_owner == owner);
        // Those that were dead before, too: held, or being destroyed by another thread at this moment.
        going.removed.held = slot.zombies.load(Relaxed).saturating_sub(going.removed.destroyed);
        slot.state.store(LEAVING, Relaxed);
        self.free_owner(&mut writer, owner);
        drop(writer);
        self.gone(going)
    }

    /// As [`release_owner`](Self::release_owner), where nobody holds one of them, nor will, and none is being compiled. Otherwise nothing
    /// is changed, and it says how many are. Who asks for one meanwhile waits until this is decided.
    pub(super) fn release_owner_unused(&self, owner: u32) -> Result<Removed, u64> {
        let mut going = Going::new();
        let mut writer = self.writer.lock();
        let Some(slot) = self.owners.get(owner).filter(|slot| slot.state.load(Relaxed) == HERE) else { return Ok(going.removed) };
        let mut held = slot.zombies.load(Relaxed).wrapping_add(self.flying_of(&writer, owner));
        self.each_of(slot, |entry, number| held += u64::from(!holds::close(&self.records, entry, number)));
        if held > 0 {
            self.each_of(slot, |entry, _| holds::reopen(entry));
            return Err(held);
        }
        while let Some(entry) = self.entries.get(slot.first.load(Relaxed)) {
            let number = slot.first.load(Relaxed);
            self.take_out(&mut writer, entry, number);
            holds::doom(entry);
            going.add(entry, number);
        }
        slot.state.store(LEAVING, Relaxed);
        self.free_owner(&mut writer, owner);
        drop(writer);
        Ok(self.gone(going))
    }

    /// Each of an owner's live entries. With the lock.
    fn each_of(&self, slot: &OwnerSlot, mut see: impl FnMut(&Entry, u32)) {
        let mut number = slot.first.load(Relaxed);
        while let Some(entry) = self.entries.get(number) {
            see(entry, number);
            number = entry.cold.next.load(Relaxed);
        }
    }

    /// How many are being compiled for an owner.
    fn flying_of(&self, writer: &Writer, owner: u32) -> u64 {
        let mut flying = 0;
        let mut number = writer.flying;
        while let Some(flight) = self.flights.get(number) {
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
            let entry = self.entries.get(number).filter(|entry| entry.owner.load(Relaxed) == owner)?;
            let there = entry.state.load(SeqCst) != FREE && entry.cold.dying.load(Relaxed) == 0;
            let held = there && !holds::is_free(&self.records, entry, number);
            held.then(|| (entry.key(), number.saturating_add(1)))
        })
    }

    fn count_held(&self, writer: &Writer, owner: u32) -> u64 {
        let Some(slot) = self.owners.get(owner) else { return 0 };
        let mut held = slot.zombies.load(Relaxed).wrapping_add(self.flying_of(writer, owner));
        self.each_of(slot, |entry, number| held += u64::from(!holds::is_free(&self.records, entry, number)));
        held
    }

    /// All of a device's, and what is being compiled for it.
    pub(super) fn release_device(&self, device: CacheDevice) -> Removed {
        let mut going = Going::new();
        let mut writer = self.writer.lock();
        for owner in 0..self.owners.count() {
            let Some(slot) = self.owners.get(owner).filter(|slot| slot.state.load(Relaxed) != 0 && slot.is_of(device)) else {
                continue;
            };
            while slot.first.load(Relaxed) != NONE {
                self.remove(&mut writer, slot.first.load(Relaxed), &mut going);
            }
        }
        self.disown(&writer, |_, key| key.device() == device);
        drop(writer);
        self.gone(going)
    }

    /// What is being compiled is found by nobody, once it is made.
    fn disown(&self, writer: &Writer, which: impl Fn(u32, ShaderKey) -> bool) {
        let mut number = writer.flying;
        while let Some(flight) = self.flights.get(number) {
            if which(flight.owner.load(Relaxed), flight.key()) {
                flight.released.store(1, Relaxed);
            }
            number = flight.link.load(Relaxed);
        }
    }

    /// Those of which `unwanted` says so. It is called with each shader held, and no lock.
    pub(super) fn delete_where(&self, mut unwanted: impl FnMut(ShaderKey, &P) -> bool) -> Removed {
        let mut sum = Removed::default();
        let Ok(()) = self.each(|hold| {
            if unwanted(hold.key(), hold) {
                let (entry, number) = hold.entry();
                let mut writer = self.writer.lock();
                let mut going = Going::new();
                if entry.state.load(SeqCst) == LIVE {
                    self.remove(&mut writer, number, &mut going);
                }
                drop(writer);
                // This hold stands in the way; with it the entry goes, if it was the last.
                let beside = u64::from(self.records.name(number) || entry.cold.refs.load(SeqCst) > 1);
                sum.held = sum.held.wrapping_add(going.removed.held & beside);
                sum.destroyed = sum.destroyed.wrapping_add(going.removed.held & (1 - beside));
            }
            Ok::<(), Infallible>(())
        });
        sum
    }

    /// Calls `see` with each shader that can be found, held, and no lock, until it says that something is wrong.
    pub(super) fn each<X>(&self, mut see: impl FnMut(&Hold<'_, P, E>) -> Result<(), X>) -> Result<(), X> {
        for number in 0..self.entries.count() {
            let Some(entry) = self.entries.get(number).filter(|entry| !entry.is_gone()) else { continue };
            loop {
                match holds::hold(None, entry, number, || true) {
                    Ok(word) => see(&Hold::new(self, (entry, number, word)))?,
                    Err(true) if self.sweep(number) => continue,
                    Err(_) => {}
                }
                break;
            }
        }
        Ok(())
    }

    /// As much as the limits want, of what nobody holds, the least lately used first, about: a hand goes round over all entries, and lets
    /// those be that were used since it came by last.
    pub(super) fn evict(&self) {
        let mut going = Going::new();
        let mut writer = self.writer.lock();
        let mut away = 0;
        // Once round makes all old that nobody uses meanwhile, twice takes them.
        let mut steps = u64::from(self.entries.count()) * 3;
        while steps > 0 && (writer.bytes.wrapping_sub(away) > writer.most_bytes || writer.live > writer.most_entries) {
            steps -= 1;
            let number = writer.hand;
            writer.hand += 1;
            if writer.hand >= self.entries.count() {
                writer.hand = 0;
                self.epoch.fetch_add(1, Relaxed);
            }
            let Some(entry) = self.entries.get(number).filter(|entry| entry.is_live()) else { continue };
            let epoch = self.epoch.load(Relaxed);
            // Since the hand was here last; the round may just have begun.
            let recent = epoch.wrapping_sub(entry.touched.load(Relaxed)) <= 1;
            if recent || !holds::is_free(&self.records, entry, number) {
                continue;
            }
            away += entry.bytes.load(Relaxed);
            writer.evicted = writer.evicted.wrapping_add(1);
            self.remove(&mut writer, number, &mut going);
        }
        drop(writer);
        self.gone(going);
    }
}

/// What is yet to be destroyed; when a destructor unwinds the others are destroyed all the same.
struct Rest<'c, P: Send + Sync, E: Copy + Send + Sync> {
    core: &'c Core<P, E>,
    going: Going,
}

impl<P: Send + Sync, E: Copy + Send + Sync> Rest<'_, P, E> {
    fn destroy(&mut self) {
        while let Some(entry) = self.core.entries.get(self.going.first) {
            let number = core::mem::replace(&mut self.going.first, entry.cold.link.load(Relaxed));
            self.core.destroy(number);
        }
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for Rest<'_, P, E> {
    fn drop(&mut self) {
        self.destroy();
    }
}
