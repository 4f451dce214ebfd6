//! Evicts entries above a limit: of those that nobody holds, the least lately used first, about.
//!
//! ```text
//!   a hand over all entries --> used lately: stays --> close its place --+-> held: open again
//!                                                                       '-> free: out of the table, and out of its block
//! ```
//! One insertion evicts one entry, mostly, and both happen under one acquisition of the lock. The entry is free when the lock is released; its
//! value is destroyed afterwards, on the stack; and its block is what the owner's next compile reserves.

use core::ptr::NonNull;

use super::block::{DetailedEntry, ShaderContent, StoredPayload};
use super::entry::{CacheEntry, ShaderHeader};
use super::owner::OwnerSlot;
use super::ref_records;
use super::release::DestroyList;
use super::state::{CacheCore, WriterState};
use super::table::TablePlace;
use crate::sync::{Ordering::Relaxed, Ordering::SeqCst};

/// What was moved out of a block while the lock was held, to be dropped without it.
pub(super) struct MovedValue<P> {
    _value: P,
    _content: ShaderContent,
}

/// Larger values stay where they are until they are destroyed: nobody is to wait for such a copy.
const MAX_MOVED: usize = 256;

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    /// Evicts entries until the limits hold.
    pub(super) fn evict(&self) {
        let mut going = DestroyList::new();
        // Nobody compiles, so no block is kept.
        self.evict_over_limits(&mut self.writer.lock(), &mut going, None, &mut None);
        self.destroy_all(going);
    }

    /// Takes out as much as the limits want, of what nobody holds, the least lately used first, about. `compiling` is the owner that makes the
    /// room for what it compiled, if there is one; `moved` is dropped without the lock.
    ///
    /// A hand goes round over all entries, and lets those be that were used since it came by last.
    pub(super) fn evict_over_limits(
        &self,
        writer: &mut WriterState,
        going: &mut DestroyList,
        compiling: Option<(u32, &OwnerSlot)>,
        moved: &mut Option<MovedValue<P>>,
    ) {
        let mut away = 0;
        // Once round makes all old that nobody uses meanwhile, twice takes them.
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

    /// The entry that the hand comes to next.
    fn advance_hand(&self, writer: &mut WriterState) -> u32 {
        let number = writer.hand;
        writer.hand += 1;
        if writer.hand >= self.entries.count() {
            writer.hand = 0;
            self.epoch.fetch_add(1, Relaxed);
        }
        number
    }

    /// A live entry's place, unless it was used since the hand was here last; the round may just have begun.
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

    /// Frees a closed entry that nobody holds, and that is not in the table any more: all but its value's destructor, which is the caller's to
    /// run without the lock. The entry is free, and its owner keeps the block.
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
        // SAFETY: it had a block, and nobody reads it any more.
        let content = unsafe { entry.remove_content() };
        // SAFETY: written when the entry was made; moved out once, here.
        let StoredPayload { value, .. } = unsafe { block.cast::<StoredPayload<P>>().read() };
        MovedValue {
            _value: value,
            _content: content,
        }
    }

    /// Whether the limits hold once `away` bytes are gone, for those who let go.
    pub(super) fn note_limits(&self, writer: &WriterState, away: u64) {
        let over = u32::from(writer.is_over_limits(away));
        if self.is_over_limits.load(Relaxed) != over {
            self.is_over_limits.store(over, SeqCst);
        }
    }

    /// A reference was released of a shader that may be dead, or while the cache was above its limits: if it was the last one, a dead shader is
    /// destroyed here, and a live one is evicted if the limits demand it.
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
    /// Above a limit, once `away` bytes are gone.
    const fn is_over_limits(&self, away: u64) -> bool {
        self.bytes.wrapping_sub(away) > self.max_bytes || self.live > self.max_entries
    }
}
