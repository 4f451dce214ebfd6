//! Which of the options of all commands each command takes, and which exclude one another. They may stand in front of the command, where clap
//! cannot know that.

#![forbid(unsafe_code)]

use super::{ProgramError, is_all};
use crate::cli::{Cli, Command};
use vk_report::guard_run::Guarding;

/// What a command, with its own options, takes.
#[derive(Default)]
struct Taken {
    /// Pages.
    report: bool,
    /// Lists of findings.
    findings: bool,
    guard: bool,
    sweep: bool,
    /// It makes one run with call stacks.
    profile: bool,
    writes_expectations: bool,
}

impl Taken {
    fn of(cli: &Cli) -> Self {
        let is_one = |driver: &Option<String>| !driver.as_deref().is_some_and(is_all);
        let none = Self::default();
        let report = Self {
            report: true,
            findings: true,
            ..none
        };
        match &cli.command {
            None => Self {
                guard: true,
                profile: true,
                ..report
            },
            Some(Command::Drive(options)) => Self {
                guard: true,
                sweep: true,
                profile: is_one(&options.driver),
                ..report
            },
            Some(Command::Run(options)) => Self {
                guard: true,
                sweep: true,
                profile: true,
                writes_expectations: options.write_expect.is_some(),
                ..report
            },
            Some(Command::Check(options)) => Self {
                guard: options.trace.is_none(),
                profile: options.write_expect.is_none() && is_one(&options.driver),
                writes_expectations: options.write_expect.is_some(),
                // It lists differences.
                findings: false,
                ..report
            },
            Some(Command::Replay(_) | Command::Report { .. }) => Self {
                profile: true,
                ..report
            },
            Some(Command::Diff(_)) => Self {
                report: true,
                ..none
            },
            _ => none,
        }
    }
}

/// Refuses options that the command would ignore.
pub(super) fn check(cli: &Cli, guarding: &Guarding) -> Result<(), ProgramError> {
    let (taken, output) = (Taken::of(cli), &cli.output);
    let sweeps = cli.guarding.runs_of_sweep().is_some();
    let guards = guarding.is_asked_for();
    let is_limited =
        matches!(&cli.command, Some(Command::Run(options)) if options.time_limit.is_some());
    let names_layer = matches!(&cli.command, Some(Command::Drive(options)) if options.layer);
    let rules = [
        (output.html.is_some() && !taken.report, ProgramError::NoPage),
        (
            output.findings && !taken.findings,
            ProgramError::NothingToList,
        ),
        (names_layer, ProgramError::LayerOption),
        (
            guarding.back_end.is_some() && guarding.guard.is_none(),
            ProgramError::NoGuard,
        ),
        (guards && !taken.guard, ProgramError::NothingToGuard),
        (sweeps && !taken.sweep, ProgramError::NothingToSweep),
        (is_limited && !sweeps, ProgramError::NoTimeLimit),
        (
            output.profile.is_some() && (sweeps || !taken.profile),
            ProgramError::NoProfile,
        ),
        (
            guards && taken.writes_expectations,
            ProgramError::ExpectGuarded,
        ),
    ];
    match rules.into_iter().find(|(is_broken, _)| *is_broken) {
        Some((_, error)) => Err(error),
        None if sweeps => check_sweep(cli),
        None => Ok(()),
    }
}

/// Refuses options that a sweep would ignore.
fn check_sweep(cli: &Cli) -> Result<(), ProgramError> {
    let of_all = [
        ("--html", cli.output.html.is_some()),
        ("--findings", cli.output.findings),
    ];
    let of_command = match &cli.command {
        Some(Command::Run(options)) => vec![
            ("--expect", options.expect.is_some()),
            ("--write-expect", options.write_expect.is_some()),
            ("--record", options.record.is_some()),
            ("--meter", options.meter),
            ("--stacks", options.stacks),
        ],
        Some(Command::Drive(options)) => vec![
            ("--record", options.record.is_some()),
            (
                "--driver all",
                options.driver.as_deref().is_some_and(is_all),
            ),
        ],
        _ => Vec::new(),
    };
    let named = of_all
        .into_iter()
        .chain(of_command)
        .find(|(_, is_set)| *is_set);
    match named {
        Some((option, _)) => Err(ProgramError::NotInSweep { option }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option of some commands is refused with the commands that take it.
    #[test]
    fn a_refusal_names_each_command_that_takes_the_option() {
        for option in ["--html=f", "--profile=f.dhat", "--findings"] {
            let refusal = |words: &str| {
                let words = words.split(' ').chain([option]);
                let cli = Cli::from_words(["steward"].into_iter().chain(words).map(Into::into));
                let cli = cli.expect("right words");
                let refused = check(&cli, &Guarding::from(cli.guarding)).err();
                refused.map(|error| error.to_string())
            };
            let named = refusal("drivers").expect("it lists drivers and nothing else");
            for words in [
                "drive",
                "check",
                "replay f",
                "diff f g",
                "report 1",
                "symbols f",
                "top",
                "mark 1",
                "rules",
                "completions bash",
                "layer --print-manifest",
            ] {
                let command = words.split(' ').next().expect("a word");
                let is_named = named.contains(&format!("`{command}`"));
                assert_eq!(
                    refusal(words).is_none(),
                    is_named,
                    "{words} {option}: {named}"
                );
            }
            let run = ["steward", "run", option, "p"].map(Into::into);
            let run = Cli::from_words(run).expect("right words");
            assert!(check(&run, &Guarding::default()).is_ok() && named.contains("`run`"));
        }
    }
}
