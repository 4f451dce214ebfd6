//! ```text
//!   the first rule that matches, or the guard's own settings -> mode, placement, stacks
//! ```

#![forbid(unsafe_code)]

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::Scope;

use super::options::GuardOptions;
use super::state::GuardState;
use crate::call_sites;
use crate::mode::{Mode, Placement, Stacks};

/// The mode of blocks that meet all conditions. The first matching rule, in the order of the calls of
/// [`GuardOptions::rule`](crate::GuardOptions::rule), decides; without one, the guard's own mode.
///
/// ```
/// use alloc_core::Scope;
/// use debug_guard::{GuardOptions, Mode, Rule};
///
/// // All blocks get a cookie, except blocks of images, which get a fence. Command-scoped blocks of up to 64 bytes always get a cookie.
/// let options = GuardOptions::new(Mode::Cookie)
///     .rule(Rule::new(Mode::Cookie).scope(Scope::Command).size(0, 64))
///     .rule(Rule::new(Mode::Fence).name("VkImage*"));
/// assert_eq!(options.check(), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a rule does nothing until `GuardOptions::rule` was given it"]
pub struct Rule {
    pub(crate) mode: Mode,
    pub(crate) scope: Option<Scope>,
    pub(crate) name: Option<&'static str>,
    pub(crate) size: (usize, usize),
    pub(crate) placement: Option<Placement>,
    pub(crate) stacks: Option<Stacks>,
}

impl Rule {
    /// A rule that matches every block and gives it `mode`.
    pub const fn new(mode: Mode) -> Self {
        Self { mode, scope: None, name: None, size: (0, usize::MAX), placement: None, stacks: None }
    }

    /// Only blocks of this scope.
    pub const fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Only blocks of contexts with this name, a prefix if it ends in `*`. With `vk-callbacks` that is the kind of
    /// object, such as `VkBuffer`.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Only blocks of `min` to `max` bytes, inclusive.
    pub const fn size(mut self, min: usize, max: usize) -> Self {
        self.size = (min, max);
        self
    }

    /// Replaces the guard's placement for blocks of this rule.
    pub const fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// Replaces the guard's stack setting for blocks of this rule.
    pub const fn stacks(mut self, stacks: Stacks) -> Self {
        self.stacks = Some(stacks);
        self
    }

    /// `name` is empty without a context.
    pub(crate) fn matches(&self, scope: Scope, name: &str, size: usize) -> bool {
        self.size.0 <= size
            && size <= self.size.1
            && self.scope.is_none_or(|own| own == scope)
            && self.name.is_none_or(|pattern| name_matches(pattern, name))
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.size.0 <= other.size.0
            && other.size.1 <= self.size.1
            && self.scope.is_none_or(|scope| other.scope == Some(scope))
            && self.name.is_none_or(|pattern| pattern_covers(pattern, other.name.unwrap_or("*")))
    }
}

/// A pattern is a name, or a prefix followed by `*`.
pub(crate) fn name_matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

fn pattern_covers(pattern: &str, other: &str) -> bool {
    match (pattern.strip_suffix('*'), other.strip_suffix('*')) {
        (Some(ours), Some(theirs)) => theirs.starts_with(ours),
        (Some(ours), None) => other.starts_with(ours),
        (None, Some(_)) => false,
        (None, None) => pattern == other,
    }
}

/// Dropping it frees the place, also if an allocator behind unwinds; a block keeps it until its free.
pub(super) struct PoolReservation<'a> {
    sampled: &'a AtomicU64,
}

impl PoolReservation<'_> {
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
    /// The caller's stack identifies the call site, so this must be inlined.
    #[inline(always)]
    pub(super) fn is_sampled(&self, size: usize) -> bool {
        self.pool.is_some() && self.sampler.chooses(call_sites::call_site(size))
    }

    pub(super) fn reserve_sample(&self) -> Option<PoolReservation<'_>> {
        let max = u64::from(self.options.sampling.slots);
        let reservation = PoolReservation { sampled: &self.counters.sampled };
        (reservation.sampled.fetch_add(1, Relaxed) < max).then_some(reservation)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PolicyChoice {
    pub(super) mode: Mode,
    pub(super) placement: Placement,
    pub(super) stacks: Stacks,
}

impl GuardOptions {
    #[inline(always)]
    pub(super) fn apply_rules(&self, scope: Scope, name: &str, size: usize) -> PolicyChoice {
        let own = PolicyChoice { mode: self.mode, placement: self.placement, stacks: self.stacks };
        let matches = |rule: &&Rule| rule.matches(scope, name, size);
        match self.rules.iter().find(matches) {
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
mod rule_tests {
    use super::*;

    fn matches(rule: Rule) -> bool {
        rule.matches(Scope::Object, "VkBuffer", 64)
    }

    #[test]
    fn each_condition_decides_alone() {
        let any = Rule::new(Mode::Off);
        assert!(matches(any));
        assert!(matches(any.scope(Scope::Object)) && !matches(any.scope(Scope::Device)));
        assert!(matches(any.name("VkBuffer")) && matches(any.name("Vk*")) && matches(any.name("*")));
        assert!(!matches(any.name("VkBuf")) && !matches(any.name("VkBufferView")) && !matches(any.name("vk*")));
        assert!(matches(any.size(64, 64)) && !matches(any.size(65, 99)) && !matches(any.size(0, 63)));
    }

    #[test]
    fn a_rules_placement_and_stacks_go_before_the_guards() {
        let options = GuardOptions::new(Mode::Cookie)
            .placement(Placement::Alternate)
            .rule(Rule::new(Mode::Fence).name("Vk*").placement(Placement::Left))
            .rule(Rule::new(Mode::Strict).scope(Scope::Cache).stacks(Stacks::Fast));
        let choice = |mode, placement, stacks| PolicyChoice { mode, placement, stacks };
        for (name, scope, expected) in [
            ("VkImage", Scope::Cache, choice(Mode::Fence, Placement::Left, Stacks::Full)),
            ("", Scope::Cache, choice(Mode::Strict, Placement::Alternate, Stacks::Fast)),
            ("", Scope::Object, choice(Mode::Cookie, Placement::Alternate, Stacks::Full)),
        ] {
            assert_eq!(options.apply_rules(scope, name, 17), expected, "{name}");
        }
    }

    #[test]
    fn a_rule_covers_what_it_matches_more_of() {
        let any = Rule::new(Mode::Off);
        let narrow = any.scope(Scope::Cache).name("VkPipeline*").size(16, 32);
        assert!(any.covers(&narrow) && narrow.covers(&narrow) && !narrow.covers(&any));
        for wide in [narrow.size(0, 32), narrow.name("Vk*")] {
            assert!(wide.covers(&narrow) && !narrow.covers(&wide));
        }
        for other in [narrow.scope(Scope::Device), narrow.name("VkPipeline"), narrow.size(16, 31)] {
            assert!(!other.covers(&narrow));
        }
        assert!(any.name("*").covers(&any) && !any.name("Vk*").covers(&any));
        assert!(any.name("Vk*").covers(&any.name("VkImage")) && !any.name("Vk").covers(&any.name("Vk*")));
    }
}
