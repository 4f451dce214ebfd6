#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use debug_guard::{BackEnd, Fault};

use super::hinted::Hinted;
use vk_report::guard_run::{GuardChoice, Guarding, parse_back_end};

/// Outputs besides the terminal.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Also write the result as JSON; `-`: standard output, no text there.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write a page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write where blocks came from (.folded, or Firefox).
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

/// What the text of a report lists.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Detail {
    /// List each finding, not only how many there are.
    #[arg(long)]
    pub findings: bool,
    /// Levels below contexts: 1 commands, 2 size classes, 3 call stacks.
    #[arg(long, value_name = "LEVELS", default_value_t = 0, hide_default_value = true, value_parser = super::number::<u8>(0..=3))]
    pub depth: u8,
    /// Show the phases of each round, also after the third.
    #[arg(long)]
    pub all_rounds: bool,
}

/// The guard and the planned failures.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Guard and faults")]
pub struct GuardArgs {
    /// Guard each block of the driver: fence, strict, cookie or sampled[=N].
    #[arg(long, value_name = "MODE", value_parser = Hinted::new(&["fence", "strict", "cookie", "sampled"], str::parse::<GuardChoice>), hide_possible_values = true)]
    pub guard: Option<GuardChoice>,
    /// userfaultfd-move, userfaultfd-copy, guard-markers or mprotect.
    #[arg(long, value_name = "NAME", requires = "guard", value_parser = parse_back_end)]
    pub guard_back_end: Option<BackEnd>,
    /// Refuse requests of the driver: nth=N, scope=S, context=C, each, ..
    #[arg(long, value_name = "FAULT", value_parser = Hinted::new(&["each", "nth=", "from=", "scope=", "context=", "size>", "live-bytes=", "one-in=", "never"], str::parse::<FailArg>), hide_possible_values = true)]
    pub fail: Option<FailArg>,
}

/// Which requests are refused.
#[derive(Clone, Copy, Debug)]
pub enum FailArg {
    /// All in one run.
    Plan(Fault),
    /// One in each run, in at most this number of runs.
    Each(u64),
}

impl FromStr for FailArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const RUNS: u64 = 1000;
        if text.eq_ignore_ascii_case("each") {
            return Ok(Self::Each(RUNS));
        }
        if let Some((word, runs)) = text.split_once('=')
            && word.eq_ignore_ascii_case("each")
        {
            let runs = runs.parse().ok().filter(|runs| *runs > 0);
            return runs.map(Self::Each).ok_or_else(|| "give each=N with a whole number of runs, 1 or more".to_owned());
        }
        let plan = text.parse().map_err(|error| format!("{error}; or each[=N]"))?;
        Ok(Self::Plan(plan))
    }
}

impl GuardArgs {
    /// The maximum number of runs of `--fail=each`.
    #[must_use]
    pub const fn runs_of_sweep(&self) -> Option<u64> {
        match self.fail {
            Some(FailArg::Each(runs)) => Some(runs),
            _ => None,
        }
    }
}

impl From<GuardArgs> for Guarding {
    fn from(args: GuardArgs) -> Self {
        Self {
            guard: args.guard,
            back_end: args.guard_back_end,
            fail: match args.fail {
                Some(FailArg::Plan(plan)) => Some(plan),
                Some(FailArg::Each(_)) | None => None,
            },
        }
    }
}
