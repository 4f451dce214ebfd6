//! Freed blocks wait poisoned, so that writes after free are found.
//!
//! ```text
//!   shard 0: large blocks         free --> last .. first --too many, or too many bytes--> spare, if intact --> the next of its layout
//!   shards 1 to 16: by thread                                    \                           \ another one comes
//!                                                                 verified, released          released
//! ```
//! The lists go through the records: a free allocates nothing, and a damaged header loses nothing. The shards in use
//! share the limits.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::layout::HeaderWords;
use super::record::CookieRecord;
use super::table::{CookieTable, NONE};
use crate::os::lock::{Abandoned, ForkSafeMutex};

const SHARDS: usize = 17;

/// One thread's part, and that of every sixteenth one.
#[derive(Debug)]
pub(super) struct Shard {
    unused: u32,
    first: u32,
    last: u32,
    len: usize,
    bytes: usize,
    /// A block that left quarantine, was verified and is not released yet.
    pub(super) spare: u32,
    is_used: bool,
}

impl Shard {
    const EMPTY: Self = Self { unused: NONE, first: NONE, last: NONE, len: 0, bytes: 0, spare: NONE, is_used: false };

    #[inline(always)]
    pub(super) fn unused<'t>(&mut self, table: &'t CookieTable) -> Result<&'t CookieRecord, u32> {
        match table.record(self.unused).filter(|_| self.unused != NONE) {
            Some(record) => {
                self.unused = record.link().load(Relaxed);
                Ok(record)
            }
            None => table.fresh(),
        }
    }

    pub(super) fn keep(&mut self, record: &CookieRecord) {
        record.link().store(self.unused, Relaxed);
        self.unused = record.token();
    }

    #[inline(always)]
    pub(super) fn push(&mut self, table: &CookieTable, record: &CookieRecord, size: usize) {
        let token = record.token();
        match table.record(self.last).filter(|_| self.len > 0) {
            Some(last) => last.link().store(token, Relaxed),
            None => self.first = token,
        }
        self.last = token;
        self.len += 1;
        self.bytes += size;
    }

    /// The block is the caller's from here on.
    #[inline(always)]
    pub(super) fn oldest<'t>(
        &mut self,
        table: &'t CookieTable,
        (blocks, bytes): (usize, usize),
    ) -> Option<&'t CookieRecord> {
        if self.len <= blocks && self.bytes <= bytes || self.len == 0 {
            return None;
        }
        let record = table.record(self.first)?;
        self.first = record.link().load(Relaxed);
        self.len -= 1;
        self.bytes -= record.own().1.size();
        record.claim();
        Some(record)
    }
}

impl Abandoned for Shard {
    /// What is in the lists stays in quarantine for ever, or is not used again.
    fn abandoned(&mut self) {
        *self = Self { is_used: self.is_used, ..Self::EMPTY };
    }
}

#[derive(Debug)]
#[repr(align(128))]
struct CachePadded(ForkSafeMutex<Shard>);

#[derive(Debug)]
pub(super) struct Quarantine {
    shards: [CachePadded; SHARDS],
    blocks: usize,
    bytes: usize,
    used: AtomicUsize,
}

impl Quarantine {
    /// No quarantine if either is 0.
    pub(super) const fn new(blocks: usize, bytes: usize) -> Self {
        let none = blocks == 0 || bytes == 0;
        Self {
            shards: [const { CachePadded(ForkSafeMutex::new(Shard::EMPTY)) }; SHARDS],
            blocks: if none { 0 } else { blocks },
            bytes: if none { 0 } else { bytes },
            used: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    pub(super) const fn takes(&self, size: usize) -> bool {
        self.blocks > 0 && size <= self.bytes
    }

    #[inline(always)]
    pub(super) const fn number(&self, words: HeaderWords) -> usize {
        if words.size() > self.bytes / 16 { 0 } else { Self::number_of_thread(words.thread()) }
    }

    #[inline(always)]
    pub(super) const fn number_of_thread(thread: u32) -> usize {
        1 + thread as usize % (SHARDS - 1)
    }

    #[inline(always)]
    pub(super) fn shard(&self, number: usize) -> &ForkSafeMutex<Shard> {
        let [first, ..] = &self.shards;
        &self.shards.get(number).unwrap_or(first).0
    }

    pub(super) fn shards(&self) -> impl Iterator<Item = &ForkSafeMutex<Shard>> {
        self.shards.iter().map(|padded| &padded.0)
    }

    #[inline(always)]
    pub(super) fn limits(&self, number: usize) -> (usize, usize) {
        match self.used.load(Relaxed) {
            sharing @ 2.. if number > 0 => (self.blocks.div_ceil(sharing), self.bytes / sharing),
            _ => (self.blocks, self.bytes),
        }
    }

    /// True if the limits of the other shards shrank.
    #[inline(always)]
    pub(super) fn is_new(&self, number: usize, shard: &mut Shard) -> bool {
        let is_new = !core::mem::replace(&mut shard.is_used, true) && number > 0;
        is_new && self.used.fetch_add(1, Relaxed) > 0
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> (u64, u64) {
        self.shards().fold((0, 0), |(blocks, bytes), shard| {
            let shard = shard.lock();
            (blocks + shard.len as u64, bytes + shard.bytes as u64)
        })
    }

    #[cfg(test)]
    pub(super) fn leave_behind(&mut self) {
        self.shards.iter_mut().for_each(|padded| padded.0.leave_behind());
    }
}
