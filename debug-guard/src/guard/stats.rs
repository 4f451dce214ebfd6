//! A row for each thread, so that counting is one plain addition.
//!
//! ```text
//! rows  | thread 0 | thread 1 | .. | thread 62 |   others  | all further threads: atomic additions |
//! ```
//! A row stays when its thread ends, so no count is lost.

#![forbid(unsafe_code)]

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};
use std::thread_local;

use super::state::GuardState;
use crate::call_sites::{Sites, StackSupport};
use crate::mode::BackEnd;
use crate::slots::Slots;

/// Counts since the guard was created. Exact while no other thread allocates or frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardStats {
    /// The back end of pages; [`BackEnd::Cookies`] if there is none, or no mode needs one.
    pub back_end: BackEnd,
    /// Blocks allocated in pages (Fence, Strict, and selected by Sampled).
    pub guarded: u64,
    /// Blocks allocated with cookies, `unguarded` included.
    pub cookies: u64,
    /// Blocks that passed (Off, and not selected by Sampled).
    pub off: u64,
    /// Blocks with cookies instead of pages: addresses, mappings or the allowed bytes were used up, or there is no back
    /// end.
    pub unguarded: u64,
    /// Live blocks of all three kinds.
    pub live_blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes allocated, of all three kinds.
    pub bytes: u64,
    /// Live blocks in pages of their own.
    pub live_guarded: u64,
    /// Reports made.
    pub reports: u64,
    /// Reports not written: too many at a time.
    pub lost: u64,
    /// Notices written (exhaustion, a missing back end).
    pub notices: u64,
    /// Bytes of addresses reserved.
    pub reserved: u64,
    /// Stacks walked.
    pub stacks: u64,
    /// Stacks that reached the command's frame or the stack's end.
    pub whole_stacks: u64,
    /// Distinct call sites of allocations and frees: requester, command, calls.
    pub sites: u64,
    /// Allocations and frees whose site had no room.
    pub lost_sites: u64,
    /// What stacks can show of this library, as compiled.
    pub stack_support: StackSupport,
}

impl GuardState {
    /// The guard's counts so far.
    pub fn stats(&self) -> GuardStats {
        let counter = |counter: &AtomicU64| counter.load(Relaxed);
        let total = |[(a, x), (b, y), (c, z)]: [(u64, u64); 3]| {
            (a.saturating_add(b).saturating_add(c), x.saturating_add(y).saturating_add(z))
        };
        // Frees before allocations: a thread that allocates meanwhile never makes a difference negative.
        let freed = [Count::FencedFreed, Count::CookieFreed, Count::OffFreed].map(|count| self.tally.sum(count));
        let allocated =
            [Count::FencedAllocated, Count::CookieAllocated, Count::OffAllocated].map(|count| self.tally.sum(count));
        let (freed_blocks, freed_bytes) = total(freed);
        let (blocks, bytes) = total(allocated);
        let [(guarded, _), (cookies, _), (off, _)] = allocated;
        let [(freed_guarded, _), ..] = freed;
        let (stacks, whole_stacks) = self.tally.sum(Count::Stacks);
        let reserved = self.laid_out().map(Slots::reserved);
        GuardStats {
            back_end: self.back_end,
            guarded,
            cookies,
            off,
            unguarded: counter(&self.counters.unguarded),
            live_blocks: blocks.saturating_sub(freed_blocks),
            live_bytes: bytes.saturating_sub(freed_bytes),
            bytes,
            live_guarded: guarded.saturating_sub(freed_guarded),
            reports: counter(&self.counters.reports),
            lost: counter(&self.counters.lost),
            notices: counter(&self.counters.notices),
            reserved: reserved.fold(0, u64::saturating_add),
            stacks,
            whole_stacks,
            sites: self.sites.as_ref().map_or(0, Sites::count),
            lost_sites: self.sites.as_ref().map_or(0, Sites::lost),
            stack_support: StackSupport::of_this_process(),
        }
    }

    pub(super) fn on_record(&self) -> u64 {
        let live = |allocated, freed| {
            let (freed, _) = self.tally.sum(freed);
            self.tally.sum(allocated).0.saturating_sub(freed)
        };
        let off = if self.cookies.is_some() { live(Count::OffAllocated, Count::OffFreed) } else { 0 };
        live(Count::FencedAllocated, Count::FencedFreed)
            .saturating_add(live(Count::CookieAllocated, Count::CookieFreed))
            .saturating_add(off)
    }
}

impl fmt::Display for GuardStats {
    /// Writes one line, with what of stacks can be seen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            guarded,
            back_end,
            cookies,
            off,
            unguarded,
            live_blocks,
            live_bytes,
            reports,
            stacks,
            whole_stacks,
            ..
        } = self;
        let walked = self.stack_support;
        write!(f, "guarded = {guarded} ({back_end}), cookies = {cookies}, off = {off}, unguarded = {unguarded}, ")?;
        write!(
            f,
            "live = {live_blocks} ({live_bytes} bytes), reports = {reports}, stacks whole = {whole_stacks} of {stacks}; {walked}"
        )
    }
}

const OWN_ROWS: usize = 63;

#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    /// The amount is the blocks' bytes.
    FencedAllocated,
    FencedFreed,
    CookieAllocated,
    CookieFreed,
    OffAllocated,
    OffFreed,
    /// The amount is how many reached their end.
    Stacks,
}

const COUNTS: usize = 7;

#[derive(Default)]
struct CountPair {
    events: AtomicU64,
    amount: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
struct TallyRow([CountPair; COUNTS]);

impl TallyRow {
    #[inline(always)]
    fn of(&self, count: Count) -> &CountPair {
        let [first, ..] = &self.0;
        self.0.get(count as usize).unwrap_or(first)
    }
}

pub(crate) struct Tally {
    rows: [TallyRow; OWN_ROWS],
    others: TallyRow,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { rows: core::array::from_fn(|_| TallyRow::default()), others: TallyRow::default() }
    }

    #[inline]
    pub(crate) fn add(&self, count: Count, amount: usize) {
        let amount = amount as u64;
        if let Some(row) = self.rows.get(row_index()) {
            let pair = row.of(count);
            let add = |sum: &AtomicU64, more| sum.store(sum.load(Relaxed).wrapping_add(more), Relaxed);
            add(&pair.events, 1);
            add(&pair.amount, amount);
        } else {
            let pair = self.others.of(count);
            pair.events.fetch_add(1, Relaxed);
            pair.amount.fetch_add(amount, Relaxed);
        }
    }

    /// Exact while no thread counts.
    pub(crate) fn sum(&self, count: Count) -> (u64, u64) {
        let rows = self.rows.iter().chain([&self.others]);
        rows.map(|row| row.of(count)).fold((0, 0), |(events, amount), pair| {
            (events.wrapping_add(pair.events.load(Relaxed)), amount.wrapping_add(pair.amount.load(Relaxed)))
        })
    }
}

#[inline(always)]
fn row_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Const and without Drop. Beyond all rows: none yet.
        static INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let index = INDEX.get();
    if index != usize::MAX {
        return index;
    }
    let index = NEXT.fetch_add(1, Relaxed).min(OWN_ROWS);
    INDEX.set(index);
    index
}

#[cfg(test)]
mod tally_tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_rows() {
        let tally = Tally::new();
        for _ in 0..3 {
            std::thread::scope(|threads| {
                for _ in 0..40 {
                    threads.spawn(|| (0..100).for_each(|_| tally.add(Count::OffAllocated, 3)));
                }
            });
        }
        assert_eq!(tally.sum(Count::OffAllocated), (12_000, 36_000));
        assert_eq!(tally.sum(Count::OffFreed), (0, 0));
    }
}
