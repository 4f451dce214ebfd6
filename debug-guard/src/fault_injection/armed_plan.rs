#![forbid(unsafe_code)]

use alloc_core::{Scope, with_requester};

use super::fault::{CountedRequest, Fault};
use crate::os::lock::Abandoned;

#[derive(Debug)]
pub(super) struct ArmedPlan {
    pub(super) fault: Fault,
    pub(super) requests: u64,
    in_scope: [u64; Scope::COUNT],
    in_context: u64,
    pub(super) refused: u64,
}

impl ArmedPlan {
    pub(super) const fn new(fault: Fault) -> Self {
        Self { fault, requests: 0, in_scope: [0; Scope::COUNT], in_context: 0, refused: 0 }
    }

    pub(super) fn arm(&mut self, fault: Fault) {
        *self = Self::new(fault);
    }

    /// `charge` adds the bytes of the request to what is live, up to the given limit.
    pub(super) fn admit(&mut self, size: u64, scope: Scope, charge: impl FnOnce(u64) -> bool) -> bool {
        let request = CountedRequest {
            number: post_increment(&mut self.requests),
            number_in_scope: self.in_scope.get_mut(scope.index()).map_or(0, post_increment),
            number_in_context: self.number_in_context(),
            scope,
            size,
        };
        let admitted = !self.fault.strikes(request) && charge(self.fault.live_limit());
        self.refused = self.refused.saturating_add(u64::from(!admitted));
        admitted
    }

    fn number_in_context(&mut self) -> Option<u64> {
        let Fault::Context(name, _) = self.fault else {
            return None;
        };
        let asked = with_requester(|origin| origin.is_some_and(|origin| name.is(origin.name)));
        asked.then(|| post_increment(&mut self.in_context))
    }
}

impl Abandoned for ArmedPlan {
    /// A child's counts may lack what a thread of the parent was just adding.
    fn abandoned(&mut self) {}
}

fn post_increment(count: &mut u64) -> u64 {
    let before = *count;
    *count = before.saturating_add(1);
    before
}
