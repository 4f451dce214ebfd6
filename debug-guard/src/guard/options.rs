#![forbid(unsafe_code)]

use super::error::GuardError;
use super::policy::Rule;
use crate::call_sites::CommandMark;
use crate::mode::{BackEnd, Mode, Placement, Stacks};
use crate::os;
use crate::report::OnReport;

/// The options of a guard.
///
/// ```
/// use debug_guard::{GuardError, GuardOptions, Mode, Rule, Stacks};
///
/// const FENCED: GuardOptions = GuardOptions::new(Mode::Fence).name("textures").stacks(Stacks::Full).check_every(10_000);
/// assert_eq!(FENCED.check(), Ok(()));
///
/// let refused = GuardOptions::new(Mode::Fence).rule(Rule::new(Mode::Strict)).rule(Rule::new(Mode::Cookie).size(0, 64)).check();
/// assert_eq!(refused, Err(GuardError::RuleNeverMatches { rule: 1, covered_by: 0 }));
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "options do nothing until a guard is made of them"]
pub struct GuardOptions {
    pub(crate) mode: Mode,
    pub(crate) name: &'static str,
    pub(crate) rules: RuleList,
    pub(crate) placement: Placement,
    pub(crate) stacks: Stacks,
    pub(crate) on_report: OnReport,
    pub(crate) back_end: Option<BackEnd>,
    pub(crate) quarantine_blocks: usize,
    pub(crate) quarantine_bytes: usize,
    pub(crate) deep: bool,
    pub(crate) check_every: u64,
    pub(crate) sampling: Sampling,
    pub(crate) max_guarded_bytes: Option<u64>,
    pub(crate) command: Option<fn() -> Option<CommandMark>>,
    pub(crate) report_to: i32,
    pub(crate) json: Option<bool>,
    pub(crate) exit_leaks: Option<i32>,
    pub(crate) pages: Option<usize>,
}

/// How [`Mode::Sampled`] selects blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sampling {
    /// One in this many blocks of a call site is guarded as in [`Mode::Strict`], in the long run; at least 1.
    pub one_in: u32,
    /// Maximum number of guarded blocks at a time, a page each.
    pub slots: u32,
    /// The number of first blocks of each call site that are all guarded.
    pub first: u32,
}

impl Sampling {
    /// Selects one in `one_in` in the long run; 256 slots; the first 8 of each call site.
    #[must_use]
    pub const fn one_in(one_in: u32) -> Self {
        Self { one_in, slots: 256, first: 8 }
    }

    /// Sets the number of slots.
    #[must_use]
    pub const fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// Sets the number of first blocks.
    #[must_use]
    pub const fn first(mut self, first: u32) -> Self {
        self.first = first;
        self
    }
}

pub(crate) const MAX_RULES: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleList {
    list: [Rule; MAX_RULES],
    given: usize,
}

impl RuleList {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> + Clone {
        self.list.iter().take(self.given)
    }

    #[expect(clippy::indexing_slicing, reason = "checked; nothing else assigns an element in a const fn")]
    const fn push(&mut self, rule: Rule) {
        if self.given < MAX_RULES {
            self.list[self.given] = rule;
        }
        self.given = self.given.saturating_add(1);
    }
}

impl GuardOptions {
    /// Blocks that no rule matches get `mode`. Defaults: no rules, [`Placement::Right`], [`Stacks::Full`],
    /// [`OnReport::Abort`], the best back end offered, a quarantine of 4096 blocks and 16 MiB, checks at a block's
    /// free and its end of quarantine only.
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            name: "guard",
            rules: RuleList { list: [Rule::new(Mode::Off); MAX_RULES], given: 0 },
            placement: Placement::Right,
            stacks: Stacks::Full,
            on_report: OnReport::Abort,
            back_end: None,
            quarantine_blocks: 4096,
            quarantine_bytes: 16 << 20,
            deep: false,
            check_every: 0,
            sampling: Sampling::one_in(1000),
            max_guarded_bytes: None,
            command: None,
            report_to: 2,
            json: None,
            exit_leaks: None,
            pages: None,
        }
    }

    /// The guard's name in reports.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Adds a rule, 16 at most.
    pub const fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// The position of a fenced block in its pages.
    pub const fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// How much is recorded of allocating and freeing calls.
    pub const fn stacks(mut self, stacks: Stacks) -> Self {
        self.stacks = stacks;
        self
    }

    /// What happens with a report.
    pub const fn on_report(mut self, action: OnReport) -> Self {
        self.on_report = action;
        self
    }

    /// This back end alone; refused if the kernel does not offer it.
    pub const fn back_end(mut self, back_end: BackEnd) -> Self {
        self.back_end = Some(back_end);
        self
    }

    /// How many freed blocks, and bytes of them, wait in quarantine. 0 of either: none.
    /// [`Mode::Strict`] keeps freed blocks out of reach by itself, as long as its addresses last.
    pub const fn quarantine(mut self, blocks: usize, bytes: usize) -> Self {
        self.quarantine_blocks = blocks;
        self.quarantine_bytes = bytes;
        self
    }

    /// Verifies every byte around a fenced block and of a poisoned one, not only the nearest 256.
    pub const fn deep(mut self, deep: bool) -> Self {
        self.deep = deep;
        self
    }

    /// Checks all blocks after every `operations` allocations; 0 = never. A finding happened since the previous check.
    pub const fn check_every(mut self, operations: u64) -> Self {
        self.check_every = operations;
        self
    }

    /// How [`Mode::Sampled`] selects blocks.
    pub const fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// The maximum number of bytes in pages of fenced blocks; blocks beyond it get cookies. Unset: a quarter of the
    /// memory of the machine, or of the process's control group.
    pub const fn max_guarded_bytes(mut self, bytes: u64) -> Self {
        self.max_guarded_bytes = Some(bytes);
        self
    }

    /// Returns the thread's command; called at every allocation and free. It must not allocate from this guard or
    /// unwind.
    pub const fn command(mut self, ask: fn() -> Option<CommandMark>) -> Self {
        self.command = Some(ask);
        self
    }

    /// The descriptor for reports: 2, the standard error, unless set. Others are refused except on Linux.
    pub const fn report_to(mut self, descriptor: i32) -> Self {
        self.report_to = descriptor;
        self
    }

    /// Whether a line of JSON follows the text of each report and leak. Unset: unless the descriptor is a terminal when
    /// it is written.
    pub const fn json(mut self, json: bool) -> Self {
        self.json = Some(json);
        self
    }

    /// If the process exits with live blocks of this guard, they are listed as leaks and the process ends at once
    /// with `code`; 0 keeps the process's own code. Linux and Windows only: refused elsewhere.
    pub const fn exit_leaks(mut self, code: i32) -> Self {
        self.exit_leaks = Some(code);
        self
    }

    /// Pages of addresses, not memory, reserved for each of Fence and Strict. Unset: 2^25, fewer if the kernel refuses.
    /// In [`Mode::Strict`] this also decides how long freed blocks stay inaccessible.
    pub const fn pages(mut self, pages: usize) -> Self {
        self.pages = Some(pages);
        self
    }

    /// Refuses contradictions. Whether a back end is offered is known only when a guard is created.
    ///
    /// # Errors
    /// A [`GuardError`] with the contradiction and the remedy.
    pub fn check(&self) -> Result<(), GuardError> {
        let given = self.rules.given;
        if given > MAX_RULES {
            return Err(GuardError::TooManyRules { handed_over: given });
        }
        rules(self)?;
        if self.exit_leaks.is_some() {
            if self.plain() {
                return Err(GuardError::ListOfPlainBlocks);
            }
            if self.stacks == Stacks::Off {
                return Err(GuardError::ListWithoutStacks);
            }
        }
        back_end(self)?;
        let sampling = self.sampling;
        if self.may_use(&[Mode::Sampled]) && (sampling.one_in == 0 || sampling.slots == 0) {
            return Err(GuardError::SamplesNothing);
        }
        if self.may_use(&FENCED)
            && (self.pages.is_some_and(|pages| pages < 3) || self.max_guarded_bytes.is_some_and(|bytes| bytes < PAGE))
        {
            return Err(GuardError::NoPages);
        }
        if self.report_to < 0 {
            return Err(GuardError::NoDescriptor);
        }
        self.check_for(os::LISTS_AT_EXIT, os::WRITES_TO_ANY_DESCRIPTOR)
    }

    fn check_for(&self, lists_at_exit: bool, writes_to_any_descriptor: bool) -> Result<(), GuardError> {
        if self.exit_leaks.is_some() && !lists_at_exit {
            Err(GuardError::NoExitHere)
        } else if self.report_to != STANDARD_ERROR && !writes_to_any_descriptor {
            Err(GuardError::OneDescriptorHere)
        } else {
            Ok(())
        }
    }

    pub(crate) fn may_use(&self, modes: &[Mode]) -> bool {
        modes.contains(&self.mode) || self.rules.iter().any(|rule| modes.contains(&rule.mode))
    }

    pub(crate) fn passes_all(&self) -> bool {
        self.plain() && !self.may_use(&[Mode::Sampled])
    }

    /// True if no block is ever recorded: blocks that pass are untouched.
    pub(crate) fn plain(&self) -> bool {
        !self.may_use(&[Mode::Cookie, Mode::Fence, Mode::Strict])
    }
}

pub(super) const FENCED: [Mode; 3] = [Mode::Sampled, Mode::Fence, Mode::Strict];

const PAGE: u64 = 4096;

const STANDARD_ERROR: i32 = 2;

fn rules(options: &GuardOptions) -> Result<(), GuardError> {
    for (number, rule) in options.rules.iter().enumerate() {
        if rule.size.0 > rule.size.1 {
            return Err(GuardError::EmptySizeWindow { rule: number });
        }
        if rule.name == Some("") {
            return Err(GuardError::EmptyName { rule: number });
        }
        if let Some(covered_by) = options.rules.iter().take(number).position(|earlier| earlier.covers(rule)) {
            return Err(GuardError::RuleNeverMatches { rule: number, covered_by });
        }
    }
    Ok(())
}

fn back_end(options: &GuardOptions) -> Result<(), GuardError> {
    let Some(back_end) = options.back_end else {
        return Ok(());
    };
    let fenced = FENCED.into_iter().find(|mode| options.may_use(&[*mode]));
    match (back_end, fenced) {
        (BackEnd::Cookies, Some(mode)) => Err(GuardError::BackEndCannot { back_end, mode }),
        (_, None) => Err(GuardError::BackEndUnused { back_end }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod check_tests {
    use super::*;

    #[test]
    fn other_systems_refuse_what_they_cannot_do() {
        let plain = GuardOptions::new(Mode::Cookie);
        let (list, file) = (plain.exit_leaks(1), plain.report_to(3));
        assert_eq!(plain.check_for(false, false), Ok(()));
        assert_eq!(list.check_for(false, true), Err(GuardError::NoExitHere));
        assert_eq!(list.check_for(true, false), Ok(()));
        assert_eq!(file.check_for(true, false), Err(GuardError::OneDescriptorHere));
        assert_eq!(file.check_for(false, true), Ok(()));
    }
}
