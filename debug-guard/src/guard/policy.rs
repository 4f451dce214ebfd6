//! How a request is served: decided once, before the allocation.
//!
//! ```text
//!   the first rule that matches, or the guard's own settings -> mode, placement, stacks
//! ```

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use alloc_core::HostAllocator;

use super::options::GuardOptions;
use super::rule::RuleQuery;
use super::state::GuardState;
use crate::call_sites::{self, RequesterInfo};
use crate::mode::{Mode, Placement, Stacks};

/// A place in the pool of sampled blocks. Dropping it frees the place, also if an allocator behind unwinds; a block keeps it.
pub(super) struct PoolReservation<'a> {
    sampled: &'a AtomicU64,
}

impl PoolReservation<'_> {
    /// The block keeps the place until its free.
    pub(super) fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for PoolReservation<'_> {
    fn drop(&mut self) {
        self.sampled.fetch_sub(1, Relaxed);
    }
}

impl GuardState {
    /// The choice of the rules. If a rule needs the call site, the site is recorded first.
    #[inline(always)]
    pub(super) fn choose(
        &self,
        memory: &dyn HostAllocator,
        size: usize,
        requester: &RequesterInfo<'_>,
    ) -> PolicyChoice {
        let query = RuleQuery {
            scope: requester.scope,
            name: requester.name,
            size,
            frames: &[],
        };
        match &self.sites {
            Some(sites) if self.options.need_call_site() => {
                let site = sites.get(sites.note(memory, requester, self.options.stacks));
                self.options.apply_rules(&RuleQuery {
                    frames: site.map_or(&[], |site| site.frames),
                    ..query
                })
            }
            _ => self.options.apply_rules(&query),
        }
    }

    /// True when the sampler selects this request. The caller's stack identifies the call site, so this must be inlined.
    pub(super) fn is_sampled(&self, size: usize) -> bool {
        self.pool.is_some() && self.sampler.chooses(call_sites::call_site(size))
    }

    /// A place in the pool, if one is free.
    pub(super) fn reserve_sample(&self) -> Option<PoolReservation<'_>> {
        let max = u64::from(self.options.sampling.slots);
        let reservation = PoolReservation {
            sampled: &self.counters.sampled,
        };
        (reservation.sampled.fetch_add(1, Relaxed) < max).then_some(reservation)
    }
}

/// The settings of a rule, or the guard's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PolicyChoice {
    pub(super) mode: Mode,
    pub(super) placement: Placement,
    pub(super) stacks: Stacks,
}

impl GuardOptions {
    /// True when a rule needs the call site.
    pub(super) fn need_call_site(&self) -> bool {
        self.rules.iter().any(|rule| rule.called_from.is_some())
    }

    /// The choice of the first rule that matches, or the guard's own.
    #[inline(always)]
    pub(super) fn apply_rules(&self, query: &RuleQuery<'_>) -> PolicyChoice {
        let own = PolicyChoice {
            mode: self.mode,
            placement: self.placement,
            stacks: self.stacks,
        };
        match self.rules.iter().find(|rule| rule.matches(query)) {
            Some(rule) => PolicyChoice {
                mode: rule.mode,
                placement: rule.placement.unwrap_or(own.placement),
                stacks: rule.stacks.unwrap_or(own.stacks),
            },
            None => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc_core::Scope;

    use super::*;
    use crate::guard::Rule;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let options = GuardOptions::new(Mode::Cookie)
            .placement(Placement::Alternate)
            .rule(Rule::new(Mode::Off).size(0, 16))
            .rule(
                Rule::new(Mode::Fence)
                    .name("Vk*")
                    .placement(Placement::Left),
            )
            .rule(
                Rule::new(Mode::Strict)
                    .called_from(100, 200)
                    .stacks(Stacks::Fast),
            );
        let asked = |name, size, frames: &'static [usize]| {
            options.apply_rules(&RuleQuery {
                scope: Scope::Object,
                name,
                size,
                frames,
            })
        };
        let choice = |mode, placement, stacks| PolicyChoice {
            mode,
            placement,
            stacks,
        };
        assert_eq!(
            asked("VkImage", 16, &[150]),
            choice(Mode::Off, Placement::Alternate, Stacks::Full)
        );
        assert_eq!(
            asked("VkImage", 17, &[150]),
            choice(Mode::Fence, Placement::Left, Stacks::Full)
        );
        assert_eq!(
            asked("", 17, &[99, 150]),
            choice(Mode::Strict, Placement::Alternate, Stacks::Fast)
        );
        assert_eq!(
            asked("", 17, &[99, 200]),
            choice(Mode::Cookie, Placement::Alternate, Stacks::Full)
        );
    }
}
