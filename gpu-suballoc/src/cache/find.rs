//! Hits, and the release of references.
//!
//! ```text
//!   hash -> bucket -> place -> acquire -> the block's key --+-> equal: done
//!                                                           |-> different: release, and continue
//!                                                           '-> removed meanwhile: sweep, and retry
//! ```

use core::ptr::NonNull;

use super::bucket::BucketPlace;
use super::entry::{CacheEntry, ShaderHeader};
use super::key::ShaderKey;
use super::ref_records::{self, COMMON, RefAttempt, RefRecord};
use super::state::{CacheCore, HeldShader, WriterState};
use crate::sync::{Ordering::Relaxed, Ordering::SeqCst};
use crate::threads;

/// Result of an attempt at one place.
enum FindAttempt {
    Found(HeldShader),
    /// Referenced, but another shader, whose tag is the same.
    Other(HeldShader),
    Gone(NonNull<ShaderHeader>),
    Full,
}

impl<P: Send + Sync, E: Copy + Send + Sync> CacheCore<P, E> {
    /// Acquires a reference to the live shader of this key. Acquires no lock and, after the thread's first call, allocates nothing.
    #[inline(always)]
    pub(super) fn find(&self, key: ShaderKey, content: Option<&[u8]>) -> Option<HeldShader> {
        let slot = threads::slot();
        let record = match self.records.of(slot) {
            None => self.first_record(slot),
            record => record,
        };
        let found = match self.tables.search(key.hash(), |place| {
            self.try_place(record, place, key, content)
        }) {
            Some(FindAttempt::Found(found)) => found,
            None => return None,
            Some(other) => self.find_slowly(record, other, key, content)?,
        };
        // SAFETY: the shader is referenced.
        let front = unsafe { found.block.as_ref() };
        let epoch = self.epoch.load(Relaxed);
        if front.touched.load(Relaxed) != epoch {
            front.touched.store(epoch, Relaxed);
        }
        if let Some(record) = record {
            record.count_hit();
        }
        Some(found)
    }

    #[cold]
    fn first_record(&self, slot: Option<usize>) -> Option<&RefRecord> {
        self.records.create_record(slot?, &self.memory);
        self.records.of(slot)
    }

    #[inline(always)]
    fn try_place(
        &self,
        record: Option<&RefRecord>,
        place: &BucketPlace,
        key: ShaderKey,
        content: Option<&[u8]>,
    ) -> Option<FindAttempt> {
        match ref_records::acquire(&self.records, record, place) {
            RefAttempt::Yes(block, at) => {
                let found = HeldShader {
                    block,
                    slot: Some(at),
                };
                // SAFETY: the shader is referenced.
                let meant = unsafe { self.matches(block, key, content) };
                Some(if meant {
                    FindAttempt::Found(found)
                } else {
                    FindAttempt::Other(found)
                })
            }
            RefAttempt::Gone(block) => Some(FindAttempt::Gone(block)),
            RefAttempt::Full => Some(FindAttempt::Full),
            RefAttempt::Empty => None,
        }
    }

    /// The slow path of [`find`](Self::find).
    #[cold]
    fn find_slowly(
        &self,
        record: Option<&RefRecord>,
        tried: FindAttempt,
        key: ShaderKey,
        content: Option<&[u8]>,
    ) -> Option<HeldShader> {
        let mut tried = Some(tried);
        loop {
            match tried {
                Some(FindAttempt::Found(found)) => return Some(found),
                Some(FindAttempt::Full) => return self.find_counted(key, content),
                // The shader was removed, or its owner's release is being decided.
                Some(FindAttempt::Gone(block)) => self.sweep_at(block),
                // SAFETY: referenced by that attempt, released once.
                Some(FindAttempt::Other(found)) => unsafe { self.release(found) },
                None => return None,
            }
            tried = self.tables.search(key.hash(), |place| {
                let tried = self.try_place(record, place, key, content);
                let Some(FindAttempt::Other(found)) = tried else {
                    return tried;
                };
                // SAFETY: referenced just above, released once.
                unsafe { self.release(found) };
                None
            });
        }
    }

    /// As [`find`](Self::find), if no record has a free word.
    #[cold]
    fn find_counted(&self, key: ShaderKey, content: Option<&[u8]>) -> Option<HeldShader> {
        if self.records.of(Some(COMMON)).is_none() {
            self.records.create_record(COMMON, &self.memory);
        }
        let writer = self.writer.lock();
        self.live(&writer, key, content)
    }

    /// The live shader of this key, with a reference counted in its entry.
    pub(super) fn live(
        &self,
        _: &WriterState,
        key: ShaderKey,
        content: Option<&[u8]>,
    ) -> Option<HeldShader> {
        self.tables.search(key.hash(), |place| {
            let block = NonNull::new(place.load(Relaxed))?;
            // SAFETY: blocks in the newest table are live while the lock is held.
            if !unsafe { self.matches(block, key, content) } {
                return None;
            }
            // SAFETY: as above.
            let entry = self.entries.get(unsafe { block.as_ref() }.number)?;
            entry.refs.fetch_add(1, SeqCst);
            Some(HeldShader { block, slot: None })
        })
    }

    /// True if the shader has this key, and this content if both contents are known.
    ///
    /// # Safety
    /// The shader must be referenced, or live while the lock is held.
    #[inline(always)]
    pub(super) unsafe fn matches(
        &self,
        block: NonNull<ShaderHeader>,
        key: ShaderKey,
        content: Option<&[u8]>,
    ) -> bool {
        // SAFETY: the caller: so its block exists.
        let front = unsafe { block.as_ref() };
        let Some(content) = content.filter(|_| front.key == key) else {
            return front.key == key;
        };
        // SAFETY: as above.
        let there = self
            .entries
            .get(front.number)
            .and_then(|entry| unsafe { entry.content() });
        there.is_none_or(|there| *there == *content)
    }

    /// Releases a reference. Destroys the shader if it is dead and this was the last reference.
    ///
    /// # Safety
    /// `found` must be a reference that was not released before.
    #[inline(always)]
    pub(super) unsafe fn release(&self, found: HeldShader) {
        // SAFETY: the shader is referenced, so its block exists until the release.
        let number = unsafe { found.block.as_ref() }.number;
        let last = match found.slot {
            // SAFETY: the caller; records and tables live as long as this cache.
            Some(at) => unsafe { ref_records::release(at, found.block) },
            None => self
                .entries
                .get(number)
                .is_some_and(|entry| ref_records::release_counted(entry)),
        };
        if last || self.is_over_limits.load(SeqCst) != 0 {
            self.sweep(number);
        }
    }

    /// Repeats the checks that a word which named `block` for a moment may have prevented. Destroys the dead entry of that block, if there
    /// is one and nothing references it; above the limits, evicts entries that seemed referenced.
    #[cold]
    fn sweep_at(&self, block: NonNull<ShaderHeader>) {
        let mut writer = self.writer.lock();
        let mut number = writer.held;
        while let Some(entry) = self
            .entries
            .get(number)
            .filter(|entry| entry.block() != Some(block))
        {
            number = entry.next.load(Relaxed);
        }
        let entry = self.entries.get(number);
        let mine = entry.filter(|entry| self.is_last(&mut writer, entry));
        drop(writer);
        if let Some(entry) = mine {
            self.destroy(entry, number);
        }
        if self.is_over_limits.load(SeqCst) != 0 {
            self.evict();
        }
    }

    /// True if the entry is dead and the caller must destroy it; removes it from the list of dead, referenced entries.
    pub(super) fn is_last(&self, writer: &mut WriterState, entry: &CacheEntry) -> bool {
        let mine = ref_records::is_last(&self.records, entry);
        if mine {
            writer.held = self.unlink(writer.held, entry);
        }
        mine
    }
}

#[cfg(test)]
mod tests;
