//! Checks options for contradictions.

#![forbid(unsafe_code)]

use super::error::GuardError;
use super::options::{GuardOptions, MAX_RULES};
use crate::mode::{BackEnd, Mode, Stacks};
use crate::report::OnReport;

/// The modes that lay blocks out in pages.
const FENCED: [Mode; 3] = [Mode::Sampled, Mode::Fence, Mode::Strict];

/// The smallest page that any system has.
const PAGE: u64 = 4096;

/// The only descriptor that systems other than Linux write to.
const STANDARD_ERROR: i32 = 2;

pub(super) fn check(options: &GuardOptions) -> Result<(), GuardError> {
    let given = options.rules_given();
    if given > MAX_RULES {
        return Err(GuardError::TooManyRules { handed_over: given });
    }
    rules(options)?;
    if options.exit_leaks.is_some() {
        if options.plain() {
            return Err(GuardError::ListOfPlainBlocks);
        }
        if options.stacks == Stacks::Off {
            return Err(GuardError::ListWithoutStacks);
        }
    }
    back_end(options)?;
    let sampling = options.sampling;
    if options.may_use(&[Mode::Sampled]) && (sampling.one_in == 0 || sampling.slots == 0) {
        return Err(GuardError::SamplesNothing);
    }
    if options.may_use(&FENCED)
        && (options.pages.is_some_and(|pages| pages < 3)
            || options.max_guarded_bytes.is_some_and(|bytes| bytes < PAGE))
    {
        return Err(GuardError::NoPages);
    }
    if options.report_to < 0 {
        return Err(GuardError::NoDescriptor);
    }
    if cfg!(not(all(target_os = "linux", not(miri)))) {
        elsewhere(options)?;
    }
    if matches!(options.on_report, OnReport::Panic) && cfg!(not(feature = "std")) {
        return Err(GuardError::PanicWithoutStd);
    }
    Ok(())
}

/// What systems other than Linux cannot honour.
fn elsewhere(options: &GuardOptions) -> Result<(), GuardError> {
    if options.exit_leaks.is_some() {
        return Err(GuardError::NoExitHere);
    }
    if options.report_to == STANDARD_ERROR {
        Ok(())
    } else {
        Err(GuardError::OneDescriptorHere)
    }
}

/// Each rule by itself, then against those before it.
fn rules(options: &GuardOptions) -> Result<(), GuardError> {
    for (number, rule) in options.rules.iter().enumerate() {
        if rule.size.0 > rule.size.1 {
            return Err(GuardError::EmptySizeWindow { rule: number });
        }
        if rule.called_from.is_some_and(|(start, end)| start >= end) {
            return Err(GuardError::EmptyCallWindow { rule: number });
        }
        if rule.name == Some("") {
            return Err(GuardError::EmptyName { rule: number });
        }
        if rule.called_from.is_some()
            && (options.stacks == Stacks::Off || rule.stacks == Some(Stacks::Off))
        {
            return Err(GuardError::CallSiteWithoutStacks { rule: number });
        }
        if let Some(covered_by) = options
            .rules
            .iter()
            .take(number)
            .position(|earlier| earlier.covers(rule))
        {
            return Err(GuardError::RuleNeverMatches {
                rule: number,
                covered_by,
            });
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
mod tests {
    use super::*;

    #[test]
    fn other_systems_refuse_what_they_cannot_do() {
        let plain = GuardOptions::new(Mode::Cookie);
        assert_eq!(elsewhere(&plain), Ok(()));
        assert_eq!(elsewhere(&plain.exit_leaks(1)), Err(GuardError::NoExitHere));
        assert_eq!(
            elsewhere(&plain.report_to(3)),
            Err(GuardError::OneDescriptorHere)
        );
    }
}
