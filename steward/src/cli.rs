//! The command line.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use debug_guard::{BackEnd, Fault};

use vk_accounts::guard_run::{GuardChoice, Guarding, parse_back_end};

/// Shows where the host memory of a Vulkan driver goes: by context, scope and phase, its peak, and what was left behind.
///
/// Without a command: runs the workload on the first driver there is; without a driver, says why and runs it on its own, which `--driver reference` names.
#[derive(Debug, Parser)]
#[command(name = "steward", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Where the report goes besides the terminal.
    #[command(flatten)]
    pub output: Output,
    /// What stands between the driver and the memory that it is given.
    #[command(flatten)]
    pub guarding: GuardArgs,
}

/// The options of all commands that mean nothing to one of them, by their ids.
const MEANINGLESS: [(&str, &[&str]); 11] = [
    ("replay", &["guard", "guard_back_end", "fail"]),
    ("check", &["findings", "depth"]),
    (
        "diff",
        &[
            "profile",
            "guard",
            "guard_back_end",
            "fail",
            "findings",
            "depth",
        ],
    ),
    ("drivers", NO_RUN),
    (
        "devices",
        &[
            "profile",
            "findings",
            "depth",
            "guard",
            "guard_back_end",
            "fail",
        ],
    ),
    ("symbols", NO_RUN),
    ("run", &["findings", "depth"]),
    ("top", NO_RESULT),
    ("layer", NO_RESULT),
    ("mark", NO_RESULT),
    ("rules", NO_RUN),
];

/// What means nothing where no driver runs and nothing is drawn.
const NO_RUN: &[&str] = &[
    "html",
    "profile",
    "findings",
    "depth",
    "guard",
    "guard_back_end",
    "fail",
];

/// What means nothing where there is no result either.
const NO_RESULT: &[&str] = &[
    "json",
    "html",
    "profile",
    "findings",
    "depth",
    "guard",
    "guard_back_end",
    "fail",
];

impl Cli {
    /// What the process was called with. Ends the process where that asks for help, or is none of ours.
    #[must_use]
    pub fn from_command_line() -> Self {
        Self::from_arg_matches(&Self::shown().get_matches()).unwrap_or_else(|error| error.exit())
    }

    /// The command line as its help shows it: options that mean nothing to a command are still told from mistyped ones, but not shown.
    fn shown() -> clap::Command {
        let mut command = Self::command();
        // Hands the options of all commands down.
        command.build();
        MEANINGLESS
            .into_iter()
            .fold(command, |command, (name, options)| {
                command.mut_subcommand(name, |one| {
                    one.mut_args(|argument| {
                        let hide = options.contains(&argument.get_id().as_str());
                        if hide { argument.hide(true) } else { argument }
                    })
                })
            })
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the workload on a driver and reports.
    Drive(Drive),
    /// Replays a recorded trace and reports.
    Replay(ReplayArgs),
    /// Judges every callback of a run, or of a trace, by Vulkan's rules, and compares with what is known of the driver.
    ///
    /// Exits with 0 when everything is as expected, with 1 when a finding is not expected, or an expected one is gone or comes more or less often, or when not all could be judged, and with 2 when it could not run. Notes are legal: they are shown, and fail nothing.
    Check(Check),
    /// Compares two reports that `--json` wrote, the largest change first.
    Diff(DiffArgs),
    /// Lists the drivers that can be named.
    Drivers,
    /// Shows all devices that an application sees in one instance, and how each reaches the others' memory and semaphores.
    Devices,
    /// Names the functions in the stacks of a guard's reports, and passes everything else on.
    ///
    /// What `steward --guard` writes has them already. For reports that other programs wrote with debug-guard, on this machine and with the same files.
    Symbols(SymbolsArgs),
    /// Runs a program with the Vulkan layer VK_LAYER_STEWARD_memory, and reports the host memory that its driver allocated through callbacks.
    ///
    /// Exits as the program does: with its status, or with 1 instead of 0 where a guard reported a mistake, nothing met the plan of --fail, or --expect found something unexpected; with 128 and the number of the signal that ended it; with 126 where it cannot be run, 127 where it is not there, and 2 where the layer is not. The report goes to the error output when the program has ended; several processes have a report each.
    ///
    /// The layer has settings of its own, as `VK_STEWARD_MEMORY_ARGUMENTS=true` in the environment: the file vk-layer/README.md lists them.
    Run(RunArgs),
    /// Shows what a running program's driver has allocated through callbacks, from the state file that the layer keeps: kinds of objects and heaps of device memory, live and at their peaks, with the rates since the last time.
    ///
    /// Programs that `steward run` started have such a file. Ends when the program does.
    Top(TopArgs),
    /// Puts the layer VK_LAYER_STEWARD_memory where the user's Vulkan loader finds it, so that any launcher can name it in VK_INSTANCE_LAYERS.
    Layer(LayerArgs),
    /// Sets a mark in a program that `steward run --stacks` runs: growth is then counted between such marks, and no longer by frame.
    ///
    /// The program takes the mark with its next Vulkan command that has a pAllocator.
    Mark {
        /// The number of the process, or the name of its executable.
        process: String,
    },
    /// Lists the rules that callbacks, commands and handles are judged by.
    Rules,
    /// One measurement of the honour ratio, in a child of this program.
    #[command(name = crate::callback_coverage::CHILD_COMMAND, hide = true)]
    HonourChild {
        /// What to do, as JSON.
        job: String,
    },
    /// The workload of `drive --layer`, in a child of this program.
    #[command(name = LAYER_CHILD_COMMAND, hide = true)]
    LayerChild {
        /// What to do, as JSON.
        job: String,
    },
}

/// The hidden command of [`Command::LayerChild`].
pub const LAYER_CHILD_COMMAND: &str = "layer-child";

/// How to run the workload.
#[derive(Args, Clone, Debug, Default)]
pub struct Drive {
    /// Driver id, driver name, name of its manifest, index or alias (lavapipe, swiftshader), in any case; the path of a manifest, with a `/` in it, also of one that the loader does not list; `all` for each in turn; `reference` for the program's own, which needs no loader. The first one when absent.
    #[arg(long, value_name = "NAME")]
    pub driver: Option<String>,
    /// What all computed values depend on; drawn from the clock when absent.
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,
    /// How often everything below the device is made, used and destroyed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub rounds: u32,
    /// Also record every call and write the trace to this file (gzip-compressed where the name ends in .gz).
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Do not judge the callbacks by Vulkan's rules: the driver then calls the accounts themselves.
    #[arg(long)]
    pub no_check: bool,
    /// Do not measure the honour ratio: how much of the host memory comes through the callbacks. It takes two more runs, in child processes.
    #[arg(long)]
    pub no_honour: bool,
    /// Exit with 1 where the driver never freed something.
    #[arg(long, conflicts_with = "layer")]
    pub exit_code: bool,
    /// Pass the driver no callbacks: the layer does, as for any program, and its report is shown.
    #[arg(long, conflicts_with_all = ["record", "no_honour"])]
    pub layer: bool,
    /// Allocate and free device memory as programs do, in four traces, and print times, bytes reserved and calls of the driver, beside vkAllocateMemory for each region: instead of the workload.
    #[arg(long, conflicts_with_all = ["layer", "record", "rounds", "seed", "no_check", "no_honour", "exit_code"])]
    pub device_memory: bool,
    /// With --device-memory: never allocate more than so many MiB. Half of what is free in the heap when absent, and at most a quarter of what the host has left where that is the heap.
    #[arg(long, value_name = "MIB", requires = "device_memory")]
    pub at_most: Option<u32>,
    /// With --device-memory: a twentieth of each trace.
    #[arg(long, requires = "device_memory")]
    pub quick: bool,
    /// With --layer: measure the honour ratio as of any program.
    #[arg(long, requires = "layer")]
    pub meter: bool,
    /// With --layer: as of `run`, exit with 1 where something is found that is not in this file, or in the bundled one of this name.
    #[arg(
        long,
        value_name = "FILE",
        requires = "layer",
        conflicts_with = "no_check"
    )]
    pub expect: Option<String>,
}

/// What to run with the layer.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// Write the report to this file instead of the error output.
    #[arg(long, value_name = "FILE")]
    pub text: Option<PathBuf>,
    /// Let the loader load only those drivers whose manifest's name fits this pattern, such as `lvp*` (VK_LOADER_DRIVERS_SELECT).
    #[arg(long, value_name = "GLOB")]
    pub driver: Option<OsString>,
    /// Do not judge the callbacks by Vulkan's rules.
    #[arg(long)]
    pub no_check: bool,
    /// Exit with 1 where something is found that is not in this file, which `check --write-expect` wrote, or in the bundled one of this name: lavapipe-22.3, swiftshader-5.0, nvidia-580. What else happens, and how often, depends on the program.
    #[arg(long, value_name = "FILE", conflicts_with = "no_check")]
    pub expect: Option<String>,
    /// Measure the honour ratio: how much of the host memory that the driver allocates comes through the callbacks. A meter of the heap is loaded into the program (LD_PRELOAD).
    #[arg(long)]
    pub meter: bool,
    /// Keep the call stack of everything that is created, and list what is alive at the end with it, with sizes, handles, debug names and growth by frame.
    #[arg(long)]
    pub stacks: bool,
    /// With --stacks: between which moments growth is counted. `present` or `submit`: each call of vkQueuePresentKHR or vkQueueSubmit, with `:N` behind it each N-th; `auto`, the default: presents, or submits where nothing is presented; `none`: only `steward mark`.
    #[arg(long, value_name = "auto|present|submit|none", requires = "stacks")]
    pub frame: Option<String>,
    /// With --fail=each: a run that takes longer hangs, and is killed.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub time_limit: u64,
    /// The program and its arguments, behind `--`.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Whose state to show.
#[derive(Args, Clone, Debug)]
pub struct TopArgs {
    /// The process; not needed where only one program with a state file is running.
    #[arg(value_name = "PID", conflicts_with = "state")]
    pub process: Option<u32>,
    /// The state file. When absent, `$XDG_RUNTIME_DIR/steward/PID`, or the one that the environment of the process names.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Show it once, and end.
    #[arg(long)]
    pub once: bool,
    /// Seconds between two times.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub interval: u32,
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
    /// That of an implicit layer, for packagers. It is off unless ENABLE_VK_LAYER_STEWARD_memory=1 is set, and off where DISABLE_VK_LAYER_STEWARD_memory=1 is.
    #[arg(long)]
    pub implicit: bool,
}

/// What to do with the layer's files.
#[derive(Clone, Debug, Subcommand)]
pub enum LayerAction {
    /// Copies the library and writes one manifest of an explicit layer, which does nothing unless a program or VK_INSTANCE_LAYERS names it. Both files are named.
    Install(LayerFolder),
    /// Removes the two files that `install` wrote, and nothing else.
    Uninstall(LayerFolder),
}

/// The folder for data below which the layer's files lie.
#[derive(Args, Clone, Debug)]
pub struct LayerFolder {
    /// The user's: $XDG_DATA_HOME, or ~/.local/share.
    #[arg(long, required_unless_present = "dir")]
    pub user: bool,
    /// This one.
    #[arg(long, value_name = "DIR", conflicts_with = "user")]
    pub dir: Option<PathBuf>,
}

/// What to check, and against what.
#[derive(Args, Clone, Debug)]
pub struct Check {
    /// As of `drive`; `all` for each in turn.
    #[arg(long, value_name = "NAME")]
    pub driver: Option<String>,
    /// Judge this trace instead of a driver: a file, `-` for the standard input, or the name of a bundled one (`steward replay --help` lists them). Only what is not expected fails then: what else happens, and how often, depends on the program.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["driver", "rounds", "seed"])]
    pub trace: Option<String>,
    /// As of `drive`; drawn from the clock when absent.
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,
    /// How often everything below the device is made, used and destroyed. What happens between two rounds shows from the second on.
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub rounds: u32,
    /// Open the driver's library without the loader: what is found is then its own. The loader is needed all the same, to find the driver.
    #[arg(long, conflicts_with = "trace")]
    pub direct: bool,
    /// What is known of the driver: a file, or a bundled one: lavapipe-22.3, swiftshader-5.0, nvidia-580. The bundled one that is about the driver when absent.
    #[arg(long, value_name = "FILE", conflicts_with = "write_expect")]
    pub expect: Option<String>,
    /// Write down what the driver does, from several runs, instead of comparing; causes that the file has already stay.
    #[arg(long, value_name = "FILE")]
    pub write_expect: Option<PathBuf>,
}

/// What to replay.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// A trace file, gzip-compressed or not, or the name of a bundled trace: lavapipe-workload, nvidia-580-workload, lavapipe-22.3, nvidia-580-h200. `-` for the standard input.
    pub file: String,
}

/// What to compare.
#[derive(Args, Clone, Debug)]
pub struct DiffArgs {
    /// The report before; `-` for the standard input.
    pub before: String,
    /// The report after; `-` for the standard input.
    pub after: String,
    /// Exit with 1 where a difference is shown.
    #[arg(long)]
    pub exit_code: bool,
    /// Leave out changes by less than so many percent of what was before.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub threshold: f64,
    /// Of each part only the first N changes, the largest.
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Leave out changes whose part, name or measure contains TEXT; may be given several times.
    #[arg(long, value_name = "TEXT")]
    pub ignore: Vec<String>,
    /// Also show what depends on when the driver's own threads run: it may differ between two runs of one seed.
    #[arg(long)]
    pub all: bool,
}

/// Whose functions to name.
#[derive(Args, Clone, Debug)]
pub struct SymbolsArgs {
    /// What a program with a guard wrote: reports on its error output, text or lines of JSON, with anything between; or its profile, as
    /// `write_dhat` or `write_collapsed` wrote it. `-` for the standard input.
    pub file: String,
    /// Stacks whole, with the frames of the guard, of what called it for the program, and of the runtime.
    #[arg(long)]
    pub all_frames: bool,
}

/// Where the report goes besides the terminal.
#[derive(Args, Clone, Debug, Default)]
pub struct Output {
    /// Also write the result as JSON; of several drivers an array. With `-` to the standard output, and then nothing else.
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Of `drive`, `check`, `replay`, `run`, `diff` and `devices`: also write the result as one page for a browser. With `-` to the standard output, and then nothing else.
    #[arg(long, global = true, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Of `drive`, `check`, `replay` and `run`: also write where the driver's blocks came from, for a viewer that the name's ending chooses: `.folded` or `.collapsed` for flame graphs, `.dhat` or `dhat.json` for valgrind's dh_view.html, any other for https://profiler.firefox.com. With `-` to the standard output, and then nothing else.
    #[arg(long, global = true, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Of `drive` and `replay`: list each finding, not only how many there are. `check` and `diff` do so anyway.
    #[arg(long, global = true)]
    pub findings: bool,
    /// Of `drive` and `replay`: show what lies below each context: 1 for commands, 2 also for size classes, 3 also for call stacks. `--json` has all of it anyway.
    #[arg(long, global = true, value_name = "LEVELS", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u8).range(..=3))]
    pub depth: u8,
}

/// What stands between the driver and the memory that it is given.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct GuardArgs {
    /// Of runs of a driver: guard every block that it is given. `fence`: a byte too far is stopped at the instruction, and what is written to a block after its free is found later. `strict`: whatever is read or written there is stopped at the instruction. `cookie`: both are found later, at little cost. `sampled=N`: as `strict`, for one block in N of each call site, 1000 where N is left out. Blocks stand against the page behind them: a byte in front is found at its free. The runs of the honour ratio, in child processes, are not guarded. What is found goes to the error output at once, and into the report; the program then exits with 1.
    #[arg(long, global = true, value_name = "fence|strict|cookie|sampled[=N]")]
    pub guard: Option<GuardChoice>,
    /// With --guard: make pages untouchable with this and nothing else: userfaultfd-move, userfaultfd-copy, guard-markers or mprotect. The best that the system lends when absent.
    #[arg(long, global = true, value_name = "BACK_END", value_parser = parse_back_end)]
    pub guard_back_end: Option<BackEnd>,
    /// Of runs of a driver: refuse requests of it on purpose, and say which, in which command, and whether anything was left. Requests are numbered from 0. nth=N, from=N, live-bytes=N, total-bytes=N, scope=SCOPE, scope=SCOPE:N, context=NAME, context=NAME:N, size>N, one-in=N, one-in=N,seed=S or per-million=N,seed=S. Of `run` and `drive` also each: runs the program once for each request, through the layer and without its output, and lists how those runs ended; each=N for N runs at most, 1000 where N is left out.
    #[arg(long, global = true, value_name = "FAULT")]
    pub fail: Option<FailArg>,
}

/// Which requests are refused.
#[derive(Clone, Copy, Debug)]
pub enum FailArg {
    /// In one run.
    Plan(Fault),
    /// Each in a run of its own, of so many runs at most.
    Each(u64),
}

impl FromStr for FailArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const RUNS: u64 = 1000;
        if text == "each" {
            return Ok(Self::Each(RUNS));
        }
        if let Some(runs) = text.strip_prefix("each=") {
            let runs = runs
                .parse()
                .map_err(|_| "expected each=N, a whole number of runs")?;
            return Ok(Self::Each(runs));
        }
        let plan = text
            .parse()
            .map_err(|error| format!("{error}; or each[=N]"))?;
        Ok(Self::Plan(plan))
    }
}

impl GuardArgs {
    /// Of `--fail=each`: how many runs there may be.
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

#[cfg(test)]
mod tests {
    use super::Cli;

    /// An option of all commands says in its help which commands it is for.
    #[test]
    fn help_names_every_command_that_writes_a_page() {
        let shown = Cli::shown();
        let html = |command: &clap::Command| -> Option<bool> {
            let mut options = command.get_arguments();
            let html = options.find(|option| option.get_id() == "html")?;
            Some(!html.is_hide_set())
        };
        let option = shown.get_arguments().find(|one| one.get_id() == "html");
        let help = option
            .and_then(|html| html.get_help())
            .map(ToString::to_string);
        let help = help.expect("a sentence");
        for command in shown.get_subcommands() {
            if let Some(is_shown) = html(command) {
                let name = format!("`{}`", command.get_name());
                assert_eq!(help.contains(&name), is_shown, "{name}: {help}");
            }
        }
        assert!(help.contains("`run`"), "{help}");
    }
}
