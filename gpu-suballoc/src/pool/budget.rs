//! A size is added before the driver call, and subtracted after the driver freed the memory: no limit is exceeded at
//! any moment.

#![forbid(unsafe_code)]

use core::time::Duration;

use crate::device::{HeapBudget, MAX_MEMORY_HEAPS};
use crate::error::Limit;

/// A query may take as long as an allocation, so not every request makes one.
const MAX_OPERATIONS: u64 = 30;
const MAX_AGE: Duration = Duration::from_millis(500);

/// Without std, a thread does not know that it is in a query.
const MAX_QUERIES: u32 = if cfg!(feature = "std") { u32::MAX } else { 1 };

#[derive(Debug)]
pub(crate) struct MemoryBudget {
    pub(crate) objects: u32,
    max_objects: u32,
    pub(crate) bytes: u64,
    pub(crate) peak_bytes: u64,
    max_bytes: u64,
    heaps: [HeapUsage; MAX_MEMORY_HEAPS],
    operations: u64,
    asked_at: Duration,
    queries: u32,
    max_queries: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapUsage {
    pub(crate) size: u64,
    /// The limit of `own_bytes` that the options set. The driver decides whether more than `size` can live.
    limit: u64,
    pub(crate) own_bytes: u64,
    driver_budget: HeapBudget,
    own_bytes_then: u64,
}

impl MemoryBudget {
    pub(crate) fn new(max_objects: u32, max_bytes: u64) -> Self {
        Self {
            objects: 0,
            max_objects,
            bytes: 0,
            peak_bytes: 0,
            max_bytes,
            heaps: [HeapUsage::default(); MAX_MEMORY_HEAPS],
            operations: 0,
            asked_at: Duration::ZERO,
            queries: 0,
            max_queries: MAX_QUERIES,
        }
    }

    /// The budget is the whole heap until the driver reports one.
    pub(crate) fn set_heap(&mut self, index: u32, size: u64, limit: u64) {
        if let Some(heap) = self.heap_mut(index) {
            (heap.size, heap.limit, heap.driver_budget.budget) = (size, limit, size);
        }
    }

    fn heap_mut(&mut self, index: u32) -> Option<&mut HeapUsage> {
        self.heaps.get_mut(index as usize)
    }

    pub(crate) fn heap(&self, index: u32) -> HeapUsage {
        self.heaps.get(index as usize).copied().unwrap_or_default()
    }

    pub(crate) fn is_scarce(&self) -> bool {
        self.objects >= self.max_objects - self.max_objects / 4
    }

    pub(crate) fn remaining(&self, heap: u32, within_budget: bool) -> u64 {
        if self.objects >= self.max_objects {
            return 0;
        }
        let heap = self.heap(heap);
        let hard = heap.limit.saturating_sub(heap.own_bytes).min(self.max_bytes.saturating_sub(self.bytes));
        if within_budget { hard.min(heap.budget().saturating_sub(heap.usage())) } else { hard }
    }

    pub(crate) fn shortage(&self, index: u32, (objects, bytes): (u32, u64), within_budget: bool) -> Option<Limit> {
        if self.objects.saturating_add(objects) > self.max_objects {
            return Some(Limit::Objects { limit: self.max_objects });
        }
        let heap = self.heap(index);
        let over = |most: u64, used: u64| bytes.checked_sub(most.saturating_sub(used)).filter(|short_by| *short_by > 0);
        if let Some(short_by) = over(self.max_bytes, self.bytes) {
            return Some(Limit::Bytes { short_by });
        }
        if let Some(short_by) = over(heap.limit, heap.own_bytes) {
            return Some(Limit::Heap { heap: index, short_by });
        }
        let short_by = over(heap.budget(), heap.usage()).filter(|_| within_budget)?;
        Some(Limit::Budget { heap: index, short_by })
    }

    pub(crate) fn reserve(&mut self, heap: u32, bytes: u64, within_budget: bool) -> Result<(), Limit> {
        if let Some(short) = self.shortage(heap, (1, bytes), within_budget) {
            return Err(short);
        }
        if let Some(heap) = self.heap_mut(heap) {
            heap.own_bytes += bytes;
        }
        self.bytes += bytes;
        self.objects += 1;
        Ok(())
    }

    pub(crate) fn note_allocated(&mut self, requests: u64) {
        self.operations = self.operations.saturating_add(requests);
        self.peak_bytes = self.peak_bytes.max(self.bytes);
    }

    pub(crate) fn release(&mut self, heap: u32, bytes: u64) {
        if let Some(heap) = self.heap_mut(heap) {
            heap.own_bytes -= bytes;
        }
        self.bytes -= bytes;
        self.objects -= 1;
        self.operations = self.operations.saturating_add(1);
    }

    /// While a query is made, none is made by age.
    pub(crate) fn begin_refresh(&mut self, now: Duration) -> bool {
        let is_aged = self.queries == 0 && now.saturating_sub(self.asked_at) >= MAX_AGE;
        (is_aged || self.operations >= MAX_OPERATIONS) && self.begin_query(now)
    }

    /// If so, the last report is not old until then.
    pub(crate) fn begin_query(&mut self, now: Duration) -> bool {
        let is_allowed = self.queries < self.max_queries;
        if is_allowed {
            self.queries += 1;
            self.operations = 0;
            self.asked_at = now;
        }
        is_allowed
    }

    pub(crate) fn end_query(&mut self) {
        self.queries -= 1;
    }

    pub(crate) fn set_driver_budgets(&mut self, budgets: &[HeapBudget]) {
        for (heap, budget) in self.heaps.iter_mut().zip(budgets) {
            heap.driver_budget = *budget;
            heap.own_bytes_then = heap.own_bytes;
        }
    }
}

impl HeapUsage {
    pub(crate) fn usage(&self) -> u64 {
        self.driver_budget.usage.saturating_add(self.own_bytes).saturating_sub(self.own_bytes_then)
    }

    pub(crate) fn budget(&self) -> u64 {
        self.driver_budget.budget
    }

    pub(crate) fn is_over_budget(&self) -> bool {
        self.usage() > self.budget()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> MemoryBudget {
        let mut ledger = MemoryBudget::new(3, 1000);
        ledger.set_heap(0, 800, u64::MAX);
        ledger.set_heap(1, 800, 300);
        ledger
    }

    #[test]
    fn a_budget_counts_what_changed_since_the_driver_spoke() {
        let mut ledger = ledger();
        ledger.reserve(0, 100, true).unwrap();
        // The driver counts our 100 and 50 of another's in the process.
        ledger.set_driver_budgets(&[HeapBudget { usage: 150, budget: 400 }, HeapBudget { usage: 900, budget: 800 }]);
        assert_eq!(ledger.remaining(0, true), 250);
        ledger.reserve(0, 200, true).unwrap();
        assert_eq!(ledger.heap(0).usage(), 350);
        let short = Limit::Budget { heap: 0, short_by: 1 };
        assert_eq!(ledger.reserve(0, 51, true), Err(short));
        assert!(!ledger.heap(0).is_over_budget());
        ledger.reserve(0, 51, false).unwrap();
        assert!(ledger.heap(0).is_over_budget());
        ledger.release(0, 200);
        ledger.release(0, 100);
        assert_eq!(ledger.heap(0).usage(), 101, "50 of another's, 51 of ours");
        // The other heap was full all the time, and had no say.
        assert_eq!(ledger.remaining(1, true), 0);
        assert_eq!(ledger.remaining(1, false), 300);
    }

    #[test]
    fn without_std_a_query_within_a_query_is_not_made() {
        let mut ledger = ledger();
        ledger.max_queries = 1;
        assert!(ledger.begin_query(Duration::ZERO));
        assert!(!ledger.begin_query(Duration::ZERO), "by what it called");
        ledger.end_query();
        assert!(ledger.begin_query(Duration::ZERO));
    }
}
