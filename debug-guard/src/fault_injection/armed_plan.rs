//! The armed plan, and the counts that its numbers refer to.

#![forbid(unsafe_code)]

use alloc_core::{Scope, with_requester};

use super::fault::{CountedRequest, Fault};
use crate::os::lock::Abandoned;

/// A plan with its counts: both are replaced together.
#[derive(Debug)]
pub(super) struct ArmedPlan {
    pub(super) fault: Fault,
    /// Number of plans armed before.
    armed: u64,
    pub(super) requests: u64,
    in_scope: [u64; Scope::COUNT],
    in_context: u64,
    pub(super) refused: u64,
    /// Bytes allocated, including those of requests in progress.
    pub(super) total: u64,
}

/// The plan that admitted a request, which has its charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlanNumber(u64);

impl ArmedPlan {
    pub(super) const fn new(fault: Fault) -> Self {
        Self {
            fault,
            armed: 0,
            requests: 0,
            in_scope: [0; Scope::COUNT],
            in_context: 0,
            refused: 0,
            total: 0,
        }
    }

    /// Another plan, which counts from 0.
    pub(super) fn arm(&mut self, fault: Fault) {
        *self = Self {
            armed: self.armed.wrapping_add(1),
            ..Self::new(fault)
        };
    }

    /// Counts a request for a block of `size` bytes, `bytes` more than there were, and charges them unless the plan refuses it. `charge`
    /// adds them to what is live, up to the limit that it is given.
    pub(super) fn admit(
        &mut self,
        size: u64,
        bytes: u64,
        scope: Scope,
        charge: impl FnOnce(u64) -> bool,
    ) -> Option<PlanNumber> {
        let request = CountedRequest {
            number: post_increment(&mut self.requests),
            number_in_scope: self
                .in_scope
                .get_mut(scope.index())
                .map_or(0, post_increment),
            number_in_context: self.number_in_context(),
            scope,
            size,
        };
        let total = self
            .total
            .checked_add(bytes)
            .filter(|total| *total <= self.fault.total_limit());
        if let Some(total) = total
            && !self.fault.strikes(request)
            && charge(self.fault.live_limit())
        {
            self.total = total;
            return Some(PlanNumber(self.armed));
        }
        self.refused = self.refused.saturating_add(1);
        None
    }

    /// Reverts the charge of a request that the allocator behind refused, if the plan that admitted it is still armed.
    pub(super) fn discharge(&mut self, plan: PlanNumber, bytes: u64) {
        if plan == PlanNumber(self.armed) {
            self.total = self.total.saturating_sub(bytes);
        }
    }

    /// Counts the request if a context that the plan is about makes it.
    fn number_in_context(&mut self) -> Option<u64> {
        let Fault::Context(name, _) = self.fault else {
            return None;
        };
        let asked = with_requester(|origin| origin.is_some_and(|origin| name.is(origin.name)));
        asked.then(|| post_increment(&mut self.in_context))
    }
}

impl Abandoned for ArmedPlan {
    /// In a child, counts may lack what a thread of the parent was just adding.
    fn abandoned(&mut self) {}
}

fn post_increment(count: &mut u64) -> u64 {
    let before = *count;
    *count = before.saturating_add(1);
    before
}
