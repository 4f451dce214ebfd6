//! The command line.

#![forbid(unsafe_code)]

mod help;
mod hinted;
mod output;
mod parse;

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ColorChoice, Parser, Subcommand};
use clap_complete::Shell;

use hinted::Hinted;
pub use output::{Detail, FailArg, GuardArgs, Output};
pub use parse::NamedFile;

/// Shows where the host memory of Vulkan drivers and programs goes, and what was never freed.
#[derive(Debug, Parser)]
#[command(name = "steward", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Colours: auto (a terminal, without NO_COLOR), always or never.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto, hide_default_value = true, hide_possible_values = true)]
    pub color: ColorChoice,
    /// The files that the words name.
    #[arg(skip)]
    pub files: Vec<NamedFile>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the workload on a driver, and report.
    #[command(after_help = help::DRIVE)]
    Drive(Drive),
    /// Report on a recorded trace.
    Replay(ReplayArgs),
    /// Judge each callback by Vulkan's rules, and compare with what is known of the driver.
    #[command(after_help = help::CHECK)]
    Check(Check),
    /// Compare two reports that `--json` wrote, the largest change first.
    Diff(DiffArgs),
    /// List the drivers that can be named, or report on them.
    Drivers(Drivers),
    /// Name the functions in the stacks of a guard's reports.
    #[command(after_help = help::SYMBOLS)]
    Symbols(SymbolsArgs),
    /// Run a program with the layer, and report what its driver allocated through callbacks.
    #[command(after_help = help::run())]
    Run(RunArgs),
    /// Show what a running program's driver has allocated, again and again.
    #[command(after_help = help::TOP)]
    Top(TopArgs),
    /// Install the layer where the Vulkan loader finds it, for any launcher.
    Layer(LayerArgs),
    /// Ask a running program for its report.
    #[command(after_help = help::REPORT)]
    Report(ReportArgs),
    /// Set a mark in a program that `run --stacks` runs.
    #[command(after_help = help::MARK)]
    Mark {
        /// The number of the process, or the name of its executable.
        process: String,
    },
    /// List the rules that callbacks, commands and handles are judged by.
    Rules {
        /// Also write the rules as JSON; `-`: standard output, no text there.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Write completions for a shell.
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write a page of the manual for each command.
    Manual {
        /// The folder for the pages.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// What to say about drivers.
#[derive(Args, Clone, Debug)]
pub struct Drivers {
    /// Run each driver, and write one Markdown document: what it allocates, and its bugs. With files: from these
    /// reports of `--json`, and nothing runs.
    #[arg(long, value_name = "FILE", num_args = 0..)]
    pub report: Option<Vec<String>>,
    /// With --report: run only this driver, as of `drive`.
    #[arg(long, value_name = "NAME", requires = "report", value_parser = driver_name(), hide_possible_values = true)]
    pub driver: Option<String>,
    /// Also write the list, or the reports, as JSON; `-`: standard output, no text there.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How to run the workload.
#[derive(Args, Clone, Debug, Default)]
pub struct Drive {
    /// Name, id, alias, index or manifest of a driver; `all` for each; `reference` for Steward's own.
    #[arg(long, value_name = "NAME", value_parser = driver_name(), hide_possible_values = true)]
    pub driver: Option<String>,
    /// What all computed values depend on; drawn from the clock if absent.
    #[arg(long, value_name = "N", value_parser = number::<u32>(0..=MAX))]
    pub seed: Option<u32>,
    /// How often everything below the device is created, used and destroyed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u32>(1..=MAX))]
    pub rounds: u32,
    /// Also write every call to this file (compressed if it ends in .gz).
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Do not judge callbacks by Vulkan's rules.
    #[arg(long)]
    pub no_check: bool,
    /// Do not measure callback coverage, which takes two more runs.
    #[arg(long)]
    pub no_coverage: bool,
    /// Exit with 1 if something was never freed, or a finding is not known of the driver.
    #[arg(long)]
    pub exit_code: bool,
    /// Open the driver's library without the loader: the numbers are its own.
    #[arg(long)]
    pub direct: bool,
    /// Neither a command nor an option of its own was named: Steward's own driver is used where there is no other.
    #[arg(skip)]
    pub is_implied: bool,
    /// What the text lists.
    #[command(flatten)]
    pub detail: Detail,
    /// Where the report goes besides the terminal.
    #[command(flatten)]
    pub output: Output,
    /// The guard and the planned failures.
    #[command(flatten)]
    pub guarding: GuardArgs,
}

/// What to run with the layer.
#[derive(Args, Clone, Debug, Default)]
pub struct RunArgs {
    /// Write the report to this file instead of the error output.
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
    /// Only this driver: a name such as `lavapipe`, or a pattern of manifests such as `lvp*`.
    #[arg(long, value_name = "NAME", value_parser = Hinted::new(INSTALLED_DRIVERS, OsStringValueParser::new()), hide_possible_values = true)]
    pub driver: Option<OsString>,
    /// Do not judge callbacks by Vulkan's rules.
    #[arg(long)]
    pub no_check: bool,
    /// Exit with 1, not 0, if anything leaks, a finding is not known, or no report came.
    #[arg(long)]
    pub exit_code: bool,
    /// What may be found (from --write-expect); exit with 1 at other findings.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_check", "write_expect"])]
    pub expect: Option<String>,
    /// Write what is found to this file, for --expect.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_check", "guard", "fail"])]
    pub write_expect: Option<PathBuf>,
    /// Also write every call to this file (compressed if it ends in .gz).
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Measure callback coverage, with a meter of the heap (LD_PRELOAD).
    #[arg(long)]
    pub meter: bool,
    /// List what is alive at the end by call stack, with growth by frame.
    #[arg(long)]
    pub stacks: bool,
    /// With --stacks: what ends a frame: auto, present, submit or none; `:N` for each N-th.
    #[arg(long, value_name = "WHAT", requires = "stacks")]
    pub frame: Option<String>,
    /// With --fail=each: how long a run may take; 60 if absent.
    #[arg(long, value_name = "SECONDS", value_parser = number::<u64>(0..=86_400))]
    pub time_limit: Option<u64>,
    /// The program and its arguments. Options in front of it are Steward's.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
    /// List each finding, not only how many there are.
    #[arg(long)]
    pub findings: bool,
    /// Where the report goes besides the terminal.
    #[command(flatten)]
    pub output: Output,
    /// The guard and the planned failures.
    #[command(flatten)]
    pub guarding: GuardArgs,
}

/// Whose report to request.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// The number of the process, or the name of its executable.
    pub process: String,
    /// List each finding, not only how many there are.
    #[arg(long)]
    pub findings: bool,
    /// Where the report goes besides the terminal.
    #[command(flatten)]
    pub output: Output,
}

/// Whose state to show.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// The process, or the name of its executable; not needed if only one program with a state file is running.
    #[arg(value_name = "PROCESS", conflicts_with = "state")]
    pub process: Option<String>,
    /// Its state file; `$XDG_RUNTIME_DIR/steward/PID` if absent.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Show it once.
    #[arg(long)]
    pub once: bool,
    /// Seconds between two times, such as 0.5.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    pub interval: Duration,
}

/// What to do with the layer's files.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct LayerArgs {
    /// Install or uninstall.
    #[command(subcommand)]
    pub action: Option<LayerAction>,
    /// Print the manifest for the library where it is, and write nothing.
    #[arg(long, required = true)]
    pub print_manifest: bool,
    /// For an implicit layer, which ENABLE_VK_LAYER_STEWARD_memory=1 switches on.
    #[arg(long)]
    pub implicit: bool,
    /// For the library in this place, which a package will put there.
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
}

/// What to do with the layer's files.
#[derive(Clone, Debug, Subcommand)]
pub enum LayerAction {
    /// Copy the library and write the manifest of an explicit layer.
    Install(LayerFolder),
    /// Remove the two files that `install` wrote.
    Uninstall(LayerFolder),
}

/// The folder for data below which the layer's files lie.
#[derive(Args, Clone, Debug)]
pub struct LayerFolder {
    /// Below the user's folder for data: $XDG_DATA_HOME, or ~/.local/share.
    #[arg(long, required_unless_present = "dir")]
    pub user: bool,
    /// Below another folder for data, such as /usr/local/share.
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    pub dir: Option<PathBuf>,
}

/// What to check, and against what.
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// As of `drive`; `all` for each.
    #[arg(long, value_name = "NAME", value_parser = driver_name(), hide_possible_values = true)]
    pub driver: Option<String>,
    /// Judge this trace, or a bundled one, instead of a driver; `-` for the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["driver", "rounds", "seed", "guard", "fail"])]
    pub trace: Option<String>,
    /// What all computed values depend on.
    #[arg(long, value_name = "N", value_parser = number::<u32>(0..=MAX))]
    pub seed: Option<u32>,
    /// How often everything below the device is created, used and destroyed.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = number::<u32>(1..=MAX))]
    pub rounds: u32,
    /// Open the driver's library without the loader: what is found is its own.
    #[arg(long, conflicts_with = "trace")]
    pub direct: bool,
    /// What is known of the driver; the bundled file about it if absent.
    #[arg(long, value_name = "FILE", conflicts_with = "write_expect")]
    pub expect: Option<String>,
    /// Write down what the driver does, instead of comparing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["guard", "fail", "profile", "json", "html", "rounds"])]
    pub write_expect: Option<PathBuf>,
    /// Where the result goes besides the terminal.
    #[command(flatten)]
    pub output: Output,
    /// The guard and the planned failures.
    #[command(flatten)]
    pub guarding: GuardArgs,
}

/// What to replay.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// A trace, compressed or not; `-`; or one of lavapipe-workload, nvidia-580-workload, lavapipe-22.3,
    /// nvidia-580-h200.
    #[arg(value_name = "FILE")]
    pub recording: String,
    /// What the text lists.
    #[command(flatten)]
    pub detail: Detail,
    /// Where the report goes besides the terminal.
    #[command(flatten)]
    pub output: Output,
}

/// What to compare.
#[derive(Args, Clone, Debug)]
pub struct DiffArgs {
    /// The report before; `-` for the standard input.
    pub before: String,
    /// The report after; `-` for the standard input.
    pub after: String,
    /// Exit with 1 if a difference is shown.
    #[arg(long)]
    pub exit_code: bool,
    /// Leave out changes of less than so many percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, allow_negative_numbers = true, value_parser = parse_percent)]
    pub threshold: f64,
    /// Only the N largest changes of each part.
    #[arg(long, value_name = "N", value_parser = number::<usize>(1..=MAX))]
    pub top: Option<usize>,
    /// Leave out changes that name TEXT; may be repeated.
    #[arg(long, value_name = "TEXT", value_parser = parse_ignored)]
    pub ignore: Vec<String>,
    /// Also show what depends on when the driver's own threads run.
    #[arg(long)]
    pub all: bool,
    /// Also write the differences as JSON; `-`: standard output, no text there.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Whose functions to name.
#[derive(Args, Clone, Debug)]
pub struct SymbolsArgs {
    /// What a program with a guard wrote; `-` for the standard input.
    #[arg(value_name = "FILE")]
    pub reports: String,
    /// Whole stacks, with the frames of the guard and of the runtime.
    #[arg(long)]
    pub all_frames: bool,
    /// Also write the result as JSON; `-`: standard output, no text there.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The drivers that completions offer.
const DRIVERS: &[&str] =
    &["all", "reference", "lavapipe", "radv", "anv", "nvidia", "nvk", "turnip", "venus", "swiftshader"];

/// Those of them that the loader may have.
const INSTALLED_DRIVERS: &[&str] = DRIVERS.split_at(2).1;

const MAX: u64 = u32::MAX as u64;

/// Of a text that is no UTF-8 clap would say nothing more.
fn driver_name() -> impl TypedValueParser<Value = String> {
    let parser = OsStringValueParser::new().try_map(|name| {
        name.into_string().map_err(|_| {
            "a driver's name is UTF-8 text: name it as `steward drivers` lists it, or give its manifest such a path"
        })
    });
    Hinted::new(DRIVERS, parser)
}

/// A parser for a whole number in this range, whose error names the range.
fn number<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let parsed = text.parse().ok().filter(|number| range.contains(number));
        parsed
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a number of seconds from 0.1 to 86400, such as 0.5".to_owned())
}

fn parse_percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent),
        _ => Err("give a number of percent, 0 or more, such as 1.5".to_owned()),
    }
}

/// Every name contains an empty text: it would leave out all.
fn parse_ignored(text: &str) -> Result<String, String> {
    match text {
        "" => Err("give a text that is not empty: every name contains an empty one".to_owned()),
        text => Ok(text.to_owned()),
    }
}

pub(crate) fn is_all(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case("all")
}
