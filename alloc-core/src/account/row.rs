#![forbid(unsafe_code)]

use super::entry::Counts;
use super::registry::laps;
use super::usage::ScopeUsage;
use crate::sync::{AtomicU32, AtomicU64, Lock, Ordering, Relaxed as _};

/// All but `lock` and `touched` is written under `lock`.
#[repr(C)]
pub(crate) struct AccountRow {
    lock: Lock,
    /// One other thread hides at most so much from the peak.
    hidden_max: AtomicU32,
    /// The residues of threads that ever held an entry here.
    touched: AtomicU64,
    alloc_bytes: AtomicU64,
    alloc_blocks: AtomicU64,
    free_bytes: AtomicU64,
    free_blocks: AtomicU64,
    peak_bytes: AtomicU64,
    peak_blocks: AtomicU64,
}

impl AccountRow {
    pub(crate) const fn new() -> Self {
        Self {
            lock: Lock::new(),
            hidden_max: AtomicU32::new(0),
            touched: AtomicU64::new(0),
            alloc_bytes: AtomicU64::new(0),
            alloc_blocks: AtomicU64::new(0),
            free_bytes: AtomicU64::new(0),
            free_blocks: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            peak_blocks: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> RowGuard<'_> {
        RowGuard { row: self, _held: self.lock.lock() }
    }

    pub(crate) fn try_lock(&self) -> Option<RowGuard<'_>> {
        Some(RowGuard { row: self, _held: self.lock.try_lock()? })
    }

    /// Called before the entry's tag is stored.
    pub(crate) fn touch(&self, bit: u32) {
        let mask = 1u64 << (bit & 63);
        if self.touched.get() & mask == 0 {
            self.touched.fetch_or(mask, Ordering::Relaxed);
        }
    }

    pub(crate) fn touched(&self) -> u64 {
        self.touched.load(Ordering::Acquire)
    }

    /// All entries are evicted.
    pub(crate) fn folded(&self) -> ScopeUsage {
        if self.is_untouched() {
            return ScopeUsage::default();
        }
        let guard = self.lock();
        guard.usage(&guard.counts())
    }

    /// A thread without an entry has counted here. Two more bits mark a row with entries as shared.
    pub(crate) fn touch_directly(&self) {
        if self.touched.get() != 0 {
            self.touched.fetch_or(0b11 << 62, Ordering::Relaxed);
        }
    }

    /// More than one bit, or bits that several threads share.
    fn is_shared(&self) -> bool {
        let touched = self.touched.get();
        touched.count_ones() > 1 || touched != 0 && laps() > 1
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.touched() == 0 && self.alloc_blocks.get() == 0 && self.free_blocks.get() == 0
    }
}

pub(crate) struct RowGuard<'r> {
    row: &'r AccountRow,
    _held: crate::sync::Held<'r>,
}

fn add(cell: &AtomicU64, by: u64) -> u64 {
    let sum = cell.get().wrapping_add(by);
    cell.set(sum);
    sum
}

impl RowGuard<'_> {
    pub(crate) fn fold(&self, counts: &Counts) {
        let before = self.live_bytes();
        let alloc = add(&self.row.alloc_bytes, counts.alloc_bytes);
        let free = add(&self.row.free_bytes, counts.free_bytes);
        let alloc_blocks = add(&self.row.alloc_blocks, counts.alloc_blocks);
        let free_blocks = add(&self.row.free_blocks, counts.free_blocks);
        // Below 0 while another thread's entry holds the matching allocations.
        let high = before.saturating_add(counts.high);
        let live = alloc.wrapping_sub(free).cast_signed();
        // Several threads may have the frees in another entry.
        let blocks = if self.row.is_shared() { 0 } else { alloc_blocks.wrapping_sub(free_blocks).cast_signed() };
        self.raise_peak(high.max(live), blocks);
    }

    pub(crate) fn raise_peak(&self, bytes: i64, blocks: i64) {
        if let Ok(bytes) = u64::try_from(bytes)
            && bytes > self.row.peak_bytes.get()
        {
            self.row.peak_bytes.set(bytes);
        }
        if let Ok(blocks) = u64::try_from(blocks)
            && blocks > self.row.peak_blocks.get()
        {
            self.row.peak_blocks.set(blocks);
        }
    }

    /// Below 0 while the allocations are in another thread's entry.
    pub(crate) fn live_bytes(&self) -> i64 {
        let alloc = self.row.alloc_bytes.get();
        alloc.wrapping_sub(self.row.free_bytes.get()).cast_signed()
    }

    /// For an entry that is about to be opened on this row.
    pub(crate) fn next_threshold(&self) -> i64 {
        let threshold = fold_threshold(self.live_bytes());
        self.note_hidden(threshold);
        threshold
    }

    pub(crate) fn note_hidden(&self, bytes: i64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if bytes > self.row.hidden_max.get() {
            self.row.hidden_max.set(bytes);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            alloc_bytes: self.row.alloc_bytes.get(),
            alloc_blocks: self.row.alloc_blocks.get(),
            free_bytes: self.row.free_bytes.get(),
            free_blocks: self.row.free_blocks.get(),
            high: 0,
        }
    }

    pub(crate) fn usage(&self, counts: &Counts) -> ScopeUsage {
        ScopeUsage {
            live_bytes: counts.alloc_bytes.wrapping_sub(counts.free_bytes),
            live_blocks: counts.alloc_blocks.wrapping_sub(counts.free_blocks),
            peak_bytes: self.row.peak_bytes.get(),
            peak_slack: self.peak_slack(),
            peak_blocks: self.row.peak_blocks.get(),
            total_bytes: counts.alloc_bytes,
            total_blocks: counts.alloc_blocks,
        }
    }

    /// Several threads may each hide their threshold, and their maxima may belong to different moments.
    fn peak_slack(&self) -> u64 {
        if !self.row.is_shared() {
            return 0;
        }
        let threads = u64::from(self.row.touched.get().count_ones()).saturating_mul(laps());
        threads.saturating_add(1).saturating_mul(u64::from(self.row.hidden_max.get()))
    }
}

/// The most bytes that one thread hides from a peak.
pub(crate) const FOLD_MAX: i64 = 64 * 1024;
/// Below this, folding would cost more than the peak gains.
pub(crate) const FOLD_MIN: i64 = 512;

/// A sixteenth of the live bytes: the peak of a small context stays meaningful.
pub(crate) const fn fold_threshold(live: i64) -> i64 {
    let part = live / 16;
    if part < FOLD_MIN {
        FOLD_MIN
    } else if part > FOLD_MAX {
        FOLD_MAX
    } else {
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_is_clamped() {
        for live in [i64::MIN, -1, 0, 1, 8191, 8192, 8193, 1 << 20, (1 << 20) + 16, i64::MAX] {
            let t = fold_threshold(live);
            assert!((FOLD_MIN..=FOLD_MAX).contains(&t), "{live} -> {t}");
        }
        assert_eq!(fold_threshold(16 * 1000), 1000);
    }
}
