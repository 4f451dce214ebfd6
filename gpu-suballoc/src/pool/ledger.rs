//! How much is taken from the driver, from which heap, and how much may be.
//!
//! Memory is entered before the driver is asked for it and taken out after it was given back, so that no limit is exceeded at any
//! moment, however many threads make blocks at once.

#![forbid(unsafe_code)]

use crate::device::{HeapBudget, MAX_MEMORY_HEAPS};

/// All memory objects of an allocator.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) objects: u32,
    max_objects: u32,
    pub(crate) bytes: u64,
    max_bytes: u64,
    heaps: [Heap; MAX_MEMORY_HEAPS],
}

/// One heap's share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heap {
    /// As the device says.
    pub(crate) size: u64,
    /// Never more than this of ours.
    limit: u64,
    /// Ours: live, being made, and not yet given back.
    pub(crate) ours: u64,
    /// What the driver last said of the whole process, and what was ours then.
    told: HeapBudget,
    ours_then: u64,
}

/// Which limit a request ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// No further memory object is allowed.
    Objects,
    /// The user's limit, of the heap or altogether.
    Limit,
    /// The budget of the heap.
    Budget,
}

impl Ledger {
    /// Without a heap; nothing taken.
    pub(crate) const fn new(max_objects: u32, max_bytes: u64) -> Self {
        const NONE: HeapBudget = HeapBudget { usage: 0, budget: 0 };
        const EMPTY: Heap = Heap { size: 0, limit: 0, ours: 0, told: NONE, ours_then: 0 };
        Self { objects: 0, max_objects, bytes: 0, max_bytes, heaps: [EMPTY; MAX_MEMORY_HEAPS] }
    }

    /// The heap has `size` bytes, of which `limit` may be ours. Until a driver says better the budget is all of it.
    pub(crate) fn set_heap(&mut self, index: u32, size: u64, limit: u64) {
        if let Some(heap) = self.heap_mut(index) {
            let told = HeapBudget { usage: 0, budget: size };
            *heap = Heap { size, limit: limit.min(size), ours: 0, told, ours_then: 0 };
        }
    }

    fn heap_mut(&mut self, index: u32) -> Option<&mut Heap> {
        self.heaps.get_mut(usize::try_from(index).ok()?)
    }

    pub(crate) fn heap(&self, index: u32) -> Heap {
        usize::try_from(index).ok().and_then(|index| self.heaps.get(index)).copied().unwrap_or_default()
    }

    /// What a block in the heap may have at most.
    pub(crate) fn room(&self, heap: u32, within_budget: bool) -> Result<u64, Short> {
        if self.objects >= self.max_objects {
            return Err(Short::Objects);
        }
        let heap = self.heap(heap);
        let hard = heap.limit.saturating_sub(heap.ours).min(self.max_bytes.saturating_sub(self.bytes));
        Ok(if within_budget { hard.min(heap.budget_left()) } else { hard })
    }

    /// Enters an object of `bytes`.
    pub(crate) fn enter(&mut self, heap: u32, bytes: u64, within_budget: bool) -> Result<(), Short> {
        if self.room(heap, false)? < bytes {
            return Err(Short::Limit);
        }
        if within_budget && self.heap(heap).budget_left() < bytes {
            return Err(Short::Budget);
        }
        if let Some(heap) = self.heap_mut(heap) {
            heap.ours = heap.ours.saturating_add(bytes);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.objects = self.objects.saturating_add(1);
        Ok(())
    }

    /// Takes an object of `bytes` out.
    pub(crate) fn leave(&mut self, heap: u32, bytes: u64) {
        if let Some(heap) = self.heap_mut(heap) {
            heap.ours = heap.ours.saturating_sub(bytes);
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.objects = self.objects.saturating_sub(1);
    }

    /// What the driver says of each heap now.
    pub(crate) fn tell(&mut self, budgets: &[HeapBudget]) {
        for (heap, told) in self.heaps.iter_mut().zip(budgets) {
            // A driver that does not know says 0; that would be a heap without any memory.
            heap.told = if told.budget == 0 { HeapBudget { usage: told.usage, budget: heap.size } } else { *told };
            heap.ours_then = heap.ours;
        }
    }
}

impl Heap {
    /// Estimated use of the whole process: what the driver last said, and what became of ours since.
    pub(crate) fn usage(&self) -> u64 {
        self.told.usage.saturating_add(self.ours).saturating_sub(self.ours_then)
    }

    /// As the driver said, or the heap's size.
    pub(crate) fn budget(&self) -> u64 {
        self.told.budget
    }

    pub(crate) fn budget_left(&self) -> u64 {
        self.budget().saturating_sub(self.usage())
    }

    /// More is used than should be: nothing is kept for later.
    pub(crate) fn is_over_budget(&self) -> bool {
        self.usage() > self.budget()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let mut ledger = Ledger::new(3, 1000);
        ledger.set_heap(0, 800, u64::MAX);
        ledger.set_heap(1, 800, 300);
        ledger
    }

    #[test]
    fn h82_a_limit_holds_to_the_byte() {
        let mut ledger = ledger();
        assert_eq!(ledger.enter(0, 801, false), Err(Short::Limit), "more than the heap has");
        assert_eq!(ledger.enter(1, 301, false), Err(Short::Limit));
        assert_eq!(ledger.enter(1, 300, false), Ok(()));
        assert_eq!(ledger.room(0, false), Ok(700), "of all bytes");
        assert_eq!(ledger.enter(0, 701, false), Err(Short::Limit));
        assert_eq!(ledger.enter(0, 700, false), Ok(()));
        assert_eq!(ledger.enter(0, 1, false), Err(Short::Limit));
        assert_eq!(ledger.enter(0, 0, false), Ok(()));
        assert_eq!(ledger.enter(0, 0, false), Err(Short::Objects));
        ledger.leave(0, 700);
        assert_eq!(ledger.enter(0, 700, false), Ok(()));
        assert_eq!((ledger.objects, ledger.bytes), (3, 1000));
    }

    #[test]
    fn a_budget_counts_what_changed_since_the_driver_spoke() {
        let mut ledger = ledger();
        ledger.enter(0, 100, true).unwrap();
        // The driver counts our 100 and 50 of another's in the process.
        ledger.tell(&[HeapBudget { usage: 150, budget: 400 }, HeapBudget { usage: 900, budget: 800 }]);
        assert_eq!(ledger.room(0, true), Ok(250));
        ledger.enter(0, 200, true).unwrap();
        assert_eq!(ledger.heap(0).usage(), 350);
        assert_eq!(ledger.enter(0, 51, true), Err(Short::Budget));
        assert!(!ledger.heap(0).is_over_budget());
        ledger.enter(0, 51, false).unwrap();
        assert!(ledger.heap(0).is_over_budget());
        ledger.leave(0, 200);
        ledger.leave(0, 100);
        assert_eq!(ledger.heap(0).usage(), 101, "50 of another's, 51 of ours");
        // The other heap was full all the time, and had no say.
        assert_eq!(ledger.room(1, true), Ok(0));
        assert_eq!(ledger.room(1, false), Ok(300));
    }

    #[test]
    fn a_driver_that_says_nothing_leaves_the_heap_as_it_is() {
        let mut ledger = ledger();
        ledger.tell(&[HeapBudget::default()]);
        assert_eq!(ledger.heap(0).budget(), 800);
        assert_eq!(ledger.heap(99), Heap::default());
    }
}
