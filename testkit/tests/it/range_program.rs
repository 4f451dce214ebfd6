//! The range program against a plain first-fit list, and against broken ones that it must find.

use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::Rng;
use testkit::programs::{NoRange, RangeTotals, Ranges, range_ops, replay};

#[derive(Clone, Copy, Debug, PartialEq)]
enum RangeFault {
    None,
    ForgetsAlignment,
    LosesTheTail,
    GivesIdsAgain,
    RefusesTheLastHole,
    FreesTwice,
    CountsRequestedBytes,
    AllowsNothing,
    NeverMerges,
    KeepsHalfOfWhatFails,
}

/// Ranges in order: offset, size, id if taken. The size as asked for is not kept.
struct FirstFit {
    granule: u64,
    size: u64,
    list: Vec<(u64, u64, Option<u64>)>,
    next: u64,
    refuse: Option<u64>,
    fault: RangeFault,
}

impl FirstFit {
    fn new(size: u64, granule: u64, fault: RangeFault) -> Self {
        Self {
            granule,
            size,
            list: vec![(0, size, None)],
            next: 1,
            refuse: None,
            fault,
        }
    }

    fn merge(&mut self) {
        let mut index = 0;
        while index + 1 < self.list.len() {
            if self.fault != RangeFault::NeverMerges
                && self.list[index].2.is_none()
                && self.list[index + 1].2.is_none()
            {
                self.list[index].1 += self.list.remove(index + 1).1;
            } else {
                index += 1;
            }
        }
    }
}

impl Ranges for FirstFit {
    type Id = u64;

    fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        high: bool,
    ) -> Result<(u64, u64, u64), NoRange> {
        if (size == 0 && self.fault != RangeFault::AllowsNothing)
            || size > self.size
            || !alignment.is_power_of_two()
            || alignment > self.size
        {
            return Err(NoRange::Misuse);
        }
        let short = self.refuse.take().is_some_and(|nth| nth == 0);
        if short && self.fault != RangeFault::KeepsHalfOfWhatFails {
            return Err(NoRange::Host);
        }
        let (span, alignment) = (
            size.next_multiple_of(self.granule),
            alignment.max(self.granule),
        );
        let alignment = if self.fault == RangeFault::ForgetsAlignment {
            self.granule
        } else {
            alignment
        };
        let fits = |&(start, len, id): &(u64, u64, Option<u64>)| {
            id.is_none()
                && start
                    .checked_next_multiple_of(alignment)
                    .is_some_and(|at| at.saturating_add(span) <= start + len)
        };
        let found = if high {
            self.list.iter().rposition(fits)
        } else {
            self.list.iter().position(fits)
        };
        let Some(index) = found else {
            return Err(NoRange::Full);
        };
        if self.fault == RangeFault::RefusesTheLastHole
            && index + 1 == self.list.len()
            && self.list.len() > 8
        {
            return Err(NoRange::Full);
        }
        let (start, len, _) = self.list.remove(index);
        let at = start.next_multiple_of(alignment);
        let id = if self.fault == RangeFault::GivesIdsAgain {
            at
        } else {
            self.next
        };
        self.next += 1;
        let tail = start + len - at - span;
        if tail > 0 && self.fault != RangeFault::LosesTheTail {
            self.list.insert(index, (at + span, tail, None));
        }
        self.list.insert(index, (at, span, Some(id)));
        if at > start {
            self.list.insert(index, (start, at - start, None));
        }
        if short {
            Err(NoRange::Host)
        } else {
            Ok((id, at, span))
        }
    }

    fn free(&mut self, id: u64) -> Result<(), NoRange> {
        match self.list.iter_mut().find(|range| range.2 == Some(id)) {
            Some(range) => range.2 = None,
            None if self.fault == RangeFault::FreesTwice => {}
            None => return Err(NoRange::Stale),
        }
        self.merge();
        Ok(())
    }

    fn find(&self, id: u64) -> Option<(u64, u64)> {
        self.list
            .iter()
            .find(|range| range.2 == Some(id))
            .map(|&(offset, size, _)| (offset, size))
    }

    fn totals(&self) -> RangeTotals {
        let sum = |taken| {
            self.list
                .iter()
                .filter(|range| range.2.is_some() == taken)
                .map(|range| range.1)
                .sum::<u64>()
        };
        let used = if self.fault == RangeFault::CountsRequestedBytes {
            sum(true).saturating_sub(1)
        } else {
            sum(true)
        };
        let largest = self
            .list
            .iter()
            .filter(|range| range.2.is_none())
            .map(|range| range.1)
            .max()
            .unwrap_or(0);
        RangeTotals {
            used,
            free: sum(false),
            live: self.list.iter().filter(|range| range.2.is_some()).count() as u64,
            largest,
        }
    }

    fn walk(&self, each: &mut dyn FnMut(u64, u64, bool)) {
        self.list
            .iter()
            .for_each(|&(offset, size, id)| each(offset, size, id.is_some()));
    }

    fn trim(&mut self) {}

    fn clear(&mut self) {
        self.list = vec![(0, self.size, None)];
    }

    fn refuse_host(&mut self, nth: Option<u64>) {
        self.refuse = nth;
    }
}

#[test]
fn range_ops_passes_what_is_right() {
    replay("range_ops", 1000, |bytes| {
        range_ops(bytes, |size, granule| {
            FirstFit::new(size, granule, RangeFault::None)
        })
        .0
    });
}

#[test]
fn range_ops_finds_what_is_not() {
    let faults = [
        RangeFault::ForgetsAlignment,
        RangeFault::LosesTheTail,
        RangeFault::GivesIdsAgain,
        RangeFault::RefusesTheLastHole,
        RangeFault::FreesTwice,
        RangeFault::CountsRequestedBytes,
        RangeFault::AllowsNothing,
        RangeFault::NeverMerges,
        RangeFault::KeepsHalfOfWhatFails,
    ];
    for fault in faults {
        let found = (0..200).any(|seed| {
            let program = Rng::new(seed).bytes(600);
            let run = || {
                range_ops(&program, |size, granule| {
                    FirstFit::new(size, granule, fault)
                })
            };
            catch_unwind(AssertUnwindSafe(run)).is_err()
        });
        assert!(found, "{fault:?} was not found");
    }
}
