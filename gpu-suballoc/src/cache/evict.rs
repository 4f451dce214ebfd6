//! Evicts unreferenced entries above a limit, approximately the least recently used first.
//!
//! ```text
//!   clock hand over all entries --> used recently: keep
//!                               '-> close the place --+-> referenced: reopen
//!                                                     '-> unreferenced: remove from the table, move out of the block
//! ```
//! Usually one insertion evicts one entry, under the same acquisition of the lock. The entry is free when the lock is released; its value,
//! moved to the stack, is destroyed afterwards; the owner's next compile reuses its block.

use core::ptr::NonNull;

use super::block::{DetailedEntry, ShaderContent, StoredPayload};
use super::entry::{CacheEntry, ShaderHeader};
use super::owner::OwnerSlot;
use super::ref_records;
use super::release::DestroyList;
use super::state::{CacheCore, WriterState};
use super::table::TablePlace;
use crate::sync::{Ordering::Relaxed, Ordering::SeqCst};

/// A value moved out of its block under the lock, to be dropped without it.
pub(super) struct MovedValue<P> {
    _value: P,
    _content: ShaderContent,
}

/// Bytes. Larger values are destroyed in their block, because other threads would wait for the copy.
const MAX_MOVED: usize = 256;

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    /// Evicts entries until the limits hold.
    pub(super) fn evict(&self) {
        let mut going = DestroyList::new();
        // No compile runs here, so no spare block is kept.
        self.evict_over_limits(&mut self.writer.lock(), &mut going, None, &mut None);
        self.destroy_all(going);
    }

    /// Evicts unreferenced entries until the limits hold, approximately the least recently used first. `compiling` is the owner that
    /// inserts a shader, if there is one; the caller drops `moved` without the lock.
    ///
    /// A clock hand passes all entries, and spares those used since its last pass.
    pub(super) fn evict_over_limits(
        &self,
        writer: &mut WriterState,
        going: &mut DestroyList,
        compiling: Option<(u32, &OwnerSlot)>,
        moved: &mut Option<MovedValue<P>>,
    ) {
        let mut away = 0;
        // Two rounds make every entry old that is not used meanwhile; a third evicts it.
        let mut steps = u64::from(self.entries.count()) * 3;
        while steps > 0 && writer.is_over_limits(away) {
            steps -= 1;
            let number = self.advance_hand(writer);
            let Some(entry) = self.entries.get(number).filter(|entry| entry.is_live()) else {
                continue;
            };
            let Some((found, block)) = self.old_place_of(entry) else {
                continue;
            };
            let over = &self.is_over_limits;
            if !ref_records::close_to_evict(&self.records, over, entry, found.place(), block) {
                continue;
            }
            found.remove();
            writer.evicted = writer.evicted.wrapping_add(1);
            match compiling {
                Some((owner, slot))
                    if owner == entry.owner.load(Relaxed)
                        && size_of::<P>() <= MAX_MOVED
                        && slot.spare.load(Relaxed).is_null() =>
                {
                    *moved = Some(self.recycle(writer, slot, (entry, number), block));
                }
                _ => {
                    away += entry.bytes.load(Relaxed);
                    self.remove_closed(writer, (entry, number), going);
                }
            }
        }
        self.note_limits(writer, away);
    }

    /// Returns the entry at the hand, and advances the hand.
    fn advance_hand(&self, writer: &mut WriterState) -> u32 {
        let number = writer.hand;
        writer.hand += 1;
        if writer.hand >= self.entries.count() {
            writer.hand = 0;
            self.epoch.fetch_add(1, Relaxed);
        }
        number
    }

    /// A live entry's place, unless the entry was used in this round of the hand or the last one.
    #[inline(always)]
    fn old_place_of(&self, entry: &CacheEntry) -> Option<(TablePlace<'_>, NonNull<ShaderHeader>)> {
        // SAFETY: live, and the lock is held.
        let touched = unsafe { entry.block()?.as_ref() }.touched.load(Relaxed);
        let is_recent = self.epoch.load(Relaxed).wrapping_sub(touched) <= 1;
        if is_recent {
            None
        } else {
            self.place_of(entry)
        }
    }

    /// Frees a closed, unreferenced entry that left the table. Its owner keeps the block; the caller drops the value without the lock.
    #[inline(always)]
    fn recycle(
        &self,
        writer: &mut WriterState,
        slot: &OwnerSlot,
        (entry, number): (&DetailedEntry, u32),
        block: NonNull<ShaderHeader>,
    ) -> MovedValue<P> {
        self.unlist(writer, slot, entry);
        self.forget(writer, slot, (entry, number));
        entry.detach_block();
        slot.spare.store(block.as_ptr(), Relaxed);
        // SAFETY: the entry had a block, and no thread reads it any more.
        let content = unsafe { entry.remove_content() };
        // SAFETY: written when the entry was filled; moved out once, here.
        let StoredPayload { value, .. } = unsafe { block.cast::<StoredPayload<P>>().read() };
        MovedValue {
            _value: value,
            _content: content,
        }
    }

    /// Stores, for threads that release references, whether a limit is exceeded once `away` bytes are freed.
    pub(super) fn note_limits(&self, writer: &WriterState, away: u64) {
        let over = u32::from(writer.is_over_limits(away));
        if self.is_over_limits.load(Relaxed) != over {
            self.is_over_limits.store(over, SeqCst);
        }
    }

    /// Called after a release if the shader may be dead or the cache was above its limits. If no reference is left, destroys a dead shader,
    /// and evicts a live one if a limit is exceeded.
    #[cold]
    pub(super) fn sweep(&self, number: u32) {
        let Some(entry) = self.entries.get(number) else {
            return;
        };
        let mut going = DestroyList::new();
        let mut writer = self.writer.lock();
        if self.is_last(&mut writer, entry) {
            going.add(entry, number);
        } else if entry.is_live()
            && writer.is_over_limits(0)
            && ref_records::is_free(&self.records, entry)
        {
            writer.evicted = writer.evicted.wrapping_add(1);
            self.remove(&mut writer, (entry, number), &mut going);
        }
        drop(writer);
        self.destroy_all(going);
    }
}

impl WriterState {
    /// True if a limit is exceeded once `away` bytes are freed.
    const fn is_over_limits(&self, away: u64) -> bool {
        self.bytes.wrapping_sub(away) > self.max_bytes || self.live > self.max_entries
    }
}
