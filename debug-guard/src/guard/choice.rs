//! Which mode a block gets: the first rule that matches, or the guard's own.

#![forbid(unsafe_code)]

use super::options::GuardOptions;
use super::rule::Asked;
use crate::mode::{Mode, Placement, Stacks};

/// How a block is to be guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) mode: Mode,
    pub(super) placement: Placement,
    pub(super) stacks: Stacks,
}

impl GuardOptions {
    /// True when a rule asks through which calls a request came.
    pub(super) fn ask_for_calls(&self) -> bool {
        self.rules.iter().any(|rule| rule.called_from.is_some())
    }

    /// What every request gets, where there are no rules, and each is guarded.
    pub(super) fn fixed(&self) -> Option<Choice> {
        let is_fixed = self.rules_given() == 0 && !matches!(self.mode, Mode::Off | Mode::Sampled);
        is_fixed.then_some(self.own())
    }

    const fn own(&self) -> Choice {
        Choice { mode: self.mode, placement: self.placement, stacks: self.stacks }
    }

    /// What such a request gets.
    pub(super) fn choose(&self, asked: &Asked<'_>) -> Choice {
        let own = self.own();
        match self.rules.iter().find(|rule| rule.matches(asked)) {
            Some(rule) => Choice {
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
            .rule(Rule::new(Mode::Fence).name("Vk*").placement(Placement::Left))
            .rule(Rule::new(Mode::Strict).called_from(100, 200).stacks(Stacks::Fast));
        let asked = |name, size, frames: &'static [usize]| options.choose(&Asked { scope: Scope::Object, name, size, frames });
        let choice = |mode, placement, stacks| Choice { mode, placement, stacks };
        assert_eq!(asked("VkImage", 16, &[150]), choice(Mode::Off, Placement::Alternate, Stacks::Full));
        assert_eq!(asked("VkImage", 17, &[150]), choice(Mode::Fence, Placement::Left, Stacks::Full));
        assert_eq!(asked("", 17, &[99, 150]), choice(Mode::Strict, Placement::Alternate, Stacks::Fast));
        assert_eq!(asked("", 17, &[99, 200]), choice(Mode::Cookie, Placement::Alternate, Stacks::Full));
    }
}
