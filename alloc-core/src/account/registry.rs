//! An intrusive list of the tables of all counting threads: adding a thread allocates nothing.
//!
//! The *list rule* of the SAFETY comments: a listed table lives until it is unlisted, under the registry's lock.

use super::Counts;
use super::row::{AccountRow, RowGuard};
use super::table::AccountTable;
use super::usage::ScopeUsage;
use crate::sync::{AtomicPtr, AtomicU32, Lock, Ordering, Relaxed as _};

struct Registry {
    lock: Lock,
    head: AtomicPtr<AccountTable>,
    residents: [AtomicU32; 64],
    laps: AtomicU32,
}

static REGISTRY: Registry = Registry {
    lock: Lock::new(),
    head: AtomicPtr::new(core::ptr::null_mut()),
    residents: [const { AtomicU32::new(0) }; 64],
    laps: AtomicU32::new(1),
};

pub(super) fn laps() -> u64 {
    u64::from(REGISTRY.laps.get())
}

/// The thread gets the residue with the fewest threads.
pub(super) fn list(table: &AccountTable) {
    let _held = REGISTRY.lock.lock();
    let count = |(_, residents): &(usize, &AtomicU32)| residents.get();
    if let Some((residue, residents)) = REGISTRY.residents.iter().enumerate().min_by_key(count) {
        let sharers = residents.get().saturating_add(1);
        residents.set(sharers);
        REGISTRY.laps.fetch_max(sharers, Ordering::Relaxed);
        table.residue.set(residue as u32);
    }
    let this = core::ptr::from_ref(table).cast_mut();
    let head = REGISTRY.head.get();
    table.next.set(head);
    table.prev.set(core::ptr::null_mut());
    // SAFETY: the list rule.
    if let Some(head) = unsafe { head.as_ref() } {
        head.prev.set(this);
    }
    REGISTRY.head.set(this);
}

/// After this no other thread reads the table.
pub(super) fn unlist(table: &AccountTable) {
    let _held = REGISTRY.lock.lock();
    if let Some(residents) = REGISTRY.residents.get(table.residue.get() as usize) {
        residents.set(residents.get().saturating_sub(1));
    }
    let (next, prev) = (table.next.get(), table.prev.get());
    // SAFETY: the list rule.
    match unsafe { prev.as_ref() } {
        Some(prev) => prev.next.set(next),
        None => REGISTRY.head.set(next),
    }
    // SAFETY: the list rule.
    if let Some(next) = unsafe { next.as_ref() } {
        next.prev.set(prev);
    }
}

#[cfg(all(feature = "std", unix, not(miri)))]
pub(crate) fn is_a_lock_held() -> bool {
    REGISTRY.lock.while_held(|| {
        let mut held = 0;
        each(u64::MAX, |table| held |= table.held.load(Ordering::SeqCst));
        held != 0
    })
}

/// In the child of a fork: lists only the calling thread, with table `own`.
pub(crate) fn inherit(own: Option<&AccountTable>) {
    REGISTRY.lock.reset();
    each(u64::MAX, AccountTable::inherit);
    REGISTRY.head.set(core::ptr::null_mut());
    REGISTRY.laps.set(1);
    for residents in &REGISTRY.residents {
        residents.set(0);
    }
    if let Some(own) = own.filter(|own| own.is_listed()) {
        list(own);
    }
}

/// Visits tables whose residue is among `touched`. The registry's lock is held.
fn each(touched: u64, mut visit: impl FnMut(&AccountTable)) {
    let mut at = REGISTRY.head.get();
    // SAFETY: the list rule.
    while let Some(table) = unsafe { at.as_ref() } {
        if touched & (1u64 << (table.residue.get() & 63)) != 0 {
            visit(table);
        }
        at = table.next.get();
    }
}

/// Two passes, frees first: a sum with a free must include the allocation, perhaps of another thread. No entry leaves
/// the row meanwhile: that needs the row's lock.
pub(crate) fn read_row(row: &AccountRow, tag: u64) -> ScopeUsage {
    if row.is_untouched() {
        return ScopeUsage::default();
    }
    let _held = REGISTRY.lock.lock();
    sum_of(row, tag, &row.lock())
}

pub(crate) fn try_read_row(row: &AccountRow, tag: u64) -> Option<ScopeUsage> {
    if row.is_untouched() {
        return Some(ScopeUsage::default());
    }
    let _held = REGISTRY.lock.try_lock()?;
    Some(sum_of(row, tag, &row.try_lock()?))
}

/// The locks of the registry and of the row are held.
fn sum_of(row: &AccountRow, tag: u64, guard: &RowGuard<'_>) -> ScopeUsage {
    let mut sum = guard.counts();
    // The second pass must see threads that opened entries after the first.
    let entries = |add: &mut dyn FnMut(Counts)| {
        each(row.touched(), |table| {
            if let Some(entry) = table.slot(tag)
                && entry.tag() == tag
            {
                add(entry.read());
            }
        });
    };
    entries(&mut |c| {
        sum.free_bytes = sum.free_bytes.wrapping_add(c.free_bytes);
        sum.free_blocks = sum.free_blocks.wrapping_add(c.free_blocks);
    });
    let mut high = 0i64;
    entries(&mut |c| {
        sum.alloc_bytes = sum.alloc_bytes.wrapping_add(c.alloc_bytes);
        sum.alloc_blocks = sum.alloc_blocks.wrapping_add(c.alloc_blocks);
        high = high.max(c.high);
    });
    // The peak is exact for a single thread.
    let seen = guard.live_bytes().saturating_add(high);
    let live_blocks = sum.alloc_blocks.wrapping_sub(sum.free_blocks);
    guard.raise_peak(seen.max(sum.delta()), live_blocks.cast_signed());
    guard.usage(&sum)
}

pub(crate) fn evict<const N: usize>(rows: [(&AccountRow, u64); N]) {
    if rows.iter().all(|(row, _)| row.touched() == 0) {
        return;
    }
    let _held = REGISTRY.lock.lock();
    for (row, tag) in rows {
        each(row.touched(), |table| table.evict(tag));
    }
}

#[cfg(test)]
pub(super) fn hold() -> crate::sync::Held<'static> {
    REGISTRY.lock.lock()
}
