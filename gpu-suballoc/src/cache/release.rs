//! Removes entries: a single one, all of an owner or device, or those that a predicate selects.
//!
//! Unreferenced entries are destroyed at once, without the lock. Others are destroyed with their last reference.

use core::convert::Infallible;
use core::ptr::NonNull;

use alloc_core::ContextHandle;

use super::block::ReservedBlock;
use super::entry::{CacheEntry, FREE, LIVE, ShaderHeader};
use super::key::{CacheDevice, ShaderKey};
use super::owner::{OWNER_LEAVING, OWNER_LIVE, OwnerSlot};
use super::ref_records;
use super::segments::NONE;
use super::shader_ref::ShaderRef;
use super::state::{CacheCore, HeldShader, WriterState};
use super::table::TablePlace;
use crate::sync::{Ordering::Relaxed, Ordering::SeqCst};

/// Numbers of removed entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovalCounts {
    /// Already destroyed.
    pub destroyed: u64,
    /// Removed from the table; destroyed when their last reference is dropped.
    pub held: u64,
}

/// Dead entries that this thread must destroy: a list through `link`.
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

    pub(super) fn add(&mut self, entry: &CacheEntry, number: u32) {
        self.removed.destroyed = self.removed.destroyed.wrapping_add(1);
        entry.link.store(self.first, Relaxed);
        self.first = number;
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    pub(super) fn remove(
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

    /// Removes all live entries of an owner.
    fn remove_all_of(&self, writer: &mut WriterState, slot: &OwnerSlot, going: &mut DestroyList) {
        while let Some(entry) = self.entries.get(slot.first.load(Relaxed)) {
            self.remove(writer, (entry, slot.first.load(Relaxed)), going);
        }
    }

    /// Destroys the entries of a list. Requires that the lock is not held.
    pub(super) fn destroy_all(&self, going: DestroyList) -> RemovalCounts {
        let removed = going.removed;
        DestroyGuard { core: self, going }.destroy();
        removed
    }

    /// Drops `first`, then does the same as [`destroy_all`](Self::destroy_all).
    #[inline]
    pub(super) fn destroy_after<T>(&self, first: &mut Option<T>, going: DestroyList) {
        // Usually the list is empty. Dropped in place: a copy of values just written would wait for the stores.
        if going.first == NONE {
            *first = None;
            return;
        }
        let mut rest = DestroyGuard { core: self, going };
        *first = None;
        rest.destroy();
    }

    /// Removes all entries of an owner, and keeps shaders that are being compiled for it out of the table. `memory` is the owner's context.
    pub(super) fn release_owner(&self, owner: u32, memory: &ContextHandle) -> RemovalCounts {
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
        let spare = slot.remove_spare();
        // Includes entries that were dead before: referenced, or being destroyed by another thread.
        going.removed.held = slot
            .zombies
            .load(Relaxed)
            .saturating_sub(going.removed.destroyed);
        slot.state.store(OWNER_LEAVING, Relaxed);
        let unused = self.free_owner(&mut writer, owner);
        drop(writer);
        drop(spare.map(|block| ReservedBlock::<P>::of_spare(block, memory)));
        drop(unused);
        self.destroy_all(going)
    }

    /// As [`release_owner`](Self::release_owner), if none of the owner's shaders is referenced or being compiled. Otherwise changes
    /// nothing, and returns how many are. Lookups of these shaders wait for the decision.
    pub(super) fn release_owner_unused(
        &self,
        owner: u32,
        memory: &ContextHandle,
    ) -> Result<RemovalCounts, u64> {
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
            if let Some((found, _)) = self.place_of(entry) {
                found.remove();
            }
            self.remove_closed(&mut writer, (entry, number), &mut going);
        }
        slot.state.store(OWNER_LEAVING, Relaxed);
        let spare = slot.remove_spare();
        let unused = self.free_owner(&mut writer, owner);
        drop(writer);
        drop(spare.map(|block| ReservedBlock::<P>::of_spare(block, memory)));
        drop(unused);
        Ok(self.destroy_all(going))
    }

    /// Calls `see` for each of an owner's live entries. Requires the lock.
    fn for_each_of(&self, slot: &OwnerSlot, mut see: impl FnMut(&CacheEntry)) {
        let mut number = slot.first.load(Relaxed);
        while let Some(entry) = self.entries.get(number) {
            see(entry);
            number = entry.next.load(Relaxed);
        }
    }

    /// Prevents new references to a live entry until it is reopened or removed. True if it is unreferenced.
    fn close(&self, entry: &CacheEntry) -> bool {
        self.place_of(entry).is_some_and(|(found, block)| {
            ref_records::close(&self.records, entry, found.place(), block)
        })
    }

    fn reopen(&self, entry: &CacheEntry) {
        if let Some((found, block)) = self.place_of(entry) {
            ref_records::reopen(found.place(), block);
        }
    }

    /// A live entry's place in the newest table. Requires the lock.
    #[inline(always)]
    pub(super) fn place_of(
        &self,
        entry: &CacheEntry,
    ) -> Option<(TablePlace<'_>, NonNull<ShaderHeader>)> {
        let block = entry.block()?;
        // SAFETY: live, and the lock is held.
        let key = unsafe { block.as_ref() }.key;
        Some((self.tables.find(key.hash(), block)?, block))
    }

    /// Removes a closed, unreferenced entry that left the table.
    pub(super) fn remove_closed(
        &self,
        writer: &mut WriterState,
        (entry, number): (&CacheEntry, u32),
        going: &mut DestroyList,
    ) {
        self.count_dead(writer, entry);
        ref_records::mark_dead(entry);
        going.add(entry, number);
    }

    /// Number of compiles in flight for an owner.
    fn running_of(&self, writer: &WriterState, owner: u32) -> u64 {
        let mut flying = 0;
        let mut number = writer.running;
        while let Some(flight) = self.compiles.get(number) {
            flying += u64::from(flight.owner.load(Relaxed) == owner);
            number = flight.link.load(Relaxed);
        }
        flying
    }

    /// Number of an owner's entries that are referenced or being compiled, at this moment; 0 if a release would leave none behind.
    pub(super) fn held_of(&self, owner: u32) -> u64 {
        let writer = self.writer.lock();
        self.count_held(&writer, owner)
    }

    /// The first referenced shader of an owner from entry `from` on, and the number to continue from.
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
            // SAFETY: it is referenced, and the lock prevents its destruction.
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

    /// Removes all entries of a device, and keeps shaders that are being compiled for it out of the table.
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

    /// Keeps the shaders of the selected compiles in flight out of the table.
    fn disown(&self, writer: &WriterState, which: impl Fn(u32, ShaderKey) -> bool) {
        let mut number = writer.running;
        while let Some(flight) = self.compiles.get(number) {
            if which(flight.owner.load(Relaxed), flight.key()) {
                flight.released.store(1, Relaxed);
            }
            number = flight.link.load(Relaxed);
        }
    }

    /// Removes the shaders that `unwanted` selects. `unwanted` is called with the shader referenced and without the lock.
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
                // This reference prevented the destruction; if it is the last one, its release destroys the entry.
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

    /// Calls `see` with each shader in the table, referenced and without the lock, until it returns an error.
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

    /// A live entry, with a reference counted in it.
    fn acquire_live(&self, number: u32) -> Option<HeldShader> {
        let _writer = self.writer.lock();
        let entry = self.entries.get(number).filter(|entry| entry.is_live())?;
        let block = entry.block()?;
        entry.refs.fetch_add(1, SeqCst);
        Some(HeldShader { block, slot: None })
    }
}

/// Entries to destroy; if a destructor unwinds, the others are destroyed nevertheless.
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
