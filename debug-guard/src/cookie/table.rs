//! The records of all blocks: they list blocks, replace damaged headers, and name who freed quarantined blocks.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::record::CookieRecord;
use crate::segments::{BlockRecordTable, Record};

pub(super) const NONE: u32 = u32::MAX;

// SAFETY: 64 bytes, aligned to as many, of atomics alone.
unsafe impl Record for CookieRecord {}

#[derive(Debug)]
pub(super) struct CookieTable {
    pub(super) records: BlockRecordTable<CookieRecord>,
    issued: AtomicU32,
}

impl CookieTable {
    pub(super) const fn new() -> Self {
        Self { records: BlockRecordTable::new(), issued: AtomicU32::new(0) }
    }

    #[inline(always)]
    pub(super) fn record(&self, token: u32) -> Option<&CookieRecord> {
        self.records.get(token)
    }

    /// # Errors
    ///
    /// The number of records, if all were issued: what [`BlockRecordTable::grow`] must have seen.
    #[cold]
    pub(super) fn fresh(&self) -> Result<&CookieRecord, u32> {
        let count = self.records.count();
        let next = |issued| (issued < count).then(|| issued + 1);
        let token = self.issued.fetch_update(AcqRel, Acquire, next).map_err(|_| count)?;
        let record = self.record(token).ok_or(count)?;
        record.number(token);
        Ok(record)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &CookieRecord> {
        (0..self.issued.load(Acquire)).filter_map(|token| self.record(token))
    }
}
