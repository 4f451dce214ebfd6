#![forbid(unsafe_code)]

use crate::os::NOT_HERE;

pub(super) const DRIVE: &str = "\
Exit code: 0 after a run; 1 if a guard reported a mistake, a refusal left or broke something, or
nothing met --fail, and with --exit-code after leaks and unknown findings; 2 if it could not run.
--guard: `fence` stops a write past a block at once and finds writes after free later; `strict`
stops both, and reads; `cookie` finds writes later, at little cost; `sampled=N` is `strict` for one
block in N of each call site, after its first eight.
--fail, requests numbered from 0: nth=N, from=N, scope=S[:N], context=NAME[:N], 'size>N',
live-bytes=N, one-in=N[,seed=S], never; each[=N]: once for each request, N runs at most.";

pub(super) const CHECK: &str = "\
Exit code: 0 as expected; 1 if a finding is not expected, or an expected one is gone or comes more or less
often, or not all could be judged; 2 if it could not run. Notes are legal and fail nothing. Bundled
expectations: lavapipe-22.3, lavapipe-26.2, swiftshader-5.0, nvidia-580, reference-0.1.";

pub(super) const SYMBOLS: &str = "\
What `steward --guard` writes has names already. This is for reports of other programs, on this machine.";

pub(super) fn run() -> String {
    format!("{RUN}{NOT_HERE}")
}

const RUN: &str = "\
Exit code: the program's. 1 instead of 0 if a guard reported a mistake or guarded nothing, nothing
met --fail, --expect met something else, and with --exit-code after leaks, unknown findings or no
report; 128 and the signal's number; 126 if it cannot be run, 127 if it is not there, 2 without the
layer. The report goes to the error output, one for each process. With `-` as a FILE the result
alone is on the standard output, and the program's own output goes to the error output.
`drive --help` lists what --guard and --fail can be, vk-layer/README.md the layer's settings.";

pub(super) const TOP: &str = "\
Programs that `steward run` started have a state file. On a terminal q, Esc and Ctrl-C end it, letters sort (the
foot names them), and arrows scroll; without one it writes lines. Ends when the program does, with its last numbers.";

pub(super) const REPORT: &str = "\
The program writes it in its next command that has a pAllocator, or submit, and goes on. Programs that
`steward run` started are asked without a signal; others need VK_STEWARD_MEMORY_STATE and
VK_STEWARD_MEMORY_JSON. Exit code: 2 if a process did not answer within 5 seconds.";

pub(super) const MARK: &str = "\
Growth is then counted between marks, not frames. The program takes the mark with its next command that has
a pAllocator.";

pub(super) const COMPLETIONS: &str = "\
Bash: steward completions bash > ~/.local/share/bash-completion/completions/steward";

const GROUPS: [(&str, &[&str]); 4] = [
    ("Drivers", &["drive", "check", "drivers"]),
    ("Programs", &["run", "top", "report", "mark", "layer"]),
    ("Reports", &["replay", "diff", "symbols", "rules"]),
    ("Packages", &["completions", "manual"]),
];

pub(super) fn grouped(command: clap::Command) -> clap::Command {
    let mut text = String::from(
        "{about}.\n\nUsage: steward [COMMAND] [OPTIONS]    without a command, or with options of `drive` alone: drive\n",
    );
    for (group, names) in GROUPS {
        text.push_str(&format!("\n{group}:\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:<12} {}\n", about.trim_end_matches('.')));
        }
    }
    text.push_str("\nOptions:\n{options}\n\n`steward COMMAND --help` lists the options of a command.\n");
    command.help_template(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        use clap::CommandFactory as _;
        let command = super::super::Cli::command();
        let names = command.get_subcommands().map(clap::Command::get_name);
        let mut names: Vec<_> = names.collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names);
    }
}
