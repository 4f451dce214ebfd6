//! Parses words into a [`Cli`]. Without a command it is `drive`; for mistyped words there are tips.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};

use super::{Cli, help};

/// Ids of options of all commands that some commands do not use.
const OF_REPORTS: &[&str] = &["findings", "depth", "all_rounds"];
const OF_WORKLOADS: &[&str] = &["depth", "all_rounds"];
const OF_PAGES: &[&str] = &["html"];
const OF_SITES: &[&str] = &["profile"];
const OF_DATA: &[&str] = &["json"];
const OF_RUNS: &[&str] = &["guard", "guard_back_end", "fail"];

/// The options that each command's help leaves out.
const MEANINGLESS: [(&str, &[&[&str]]); 12] = [
    ("replay", &[OF_RUNS]),
    ("check", &[OF_REPORTS]),
    ("diff", &[OF_SITES, OF_RUNS, OF_REPORTS]),
    ("drivers", &[OF_SITES, OF_PAGES, OF_REPORTS, OF_RUNS]),
    ("symbols", &[OF_SITES, OF_PAGES, OF_REPORTS, OF_RUNS]),
    ("run", &[OF_WORKLOADS]),
    ("top", &[OF_SITES, OF_PAGES, OF_DATA, OF_REPORTS, OF_RUNS]),
    ("layer", &[OF_SITES, OF_PAGES, OF_DATA, OF_REPORTS, OF_RUNS]),
    ("mark", &[OF_SITES, OF_PAGES, OF_DATA, OF_REPORTS, OF_RUNS]),
    ("rules", &[OF_SITES, OF_PAGES, OF_REPORTS, OF_RUNS]),
    (
        "completions",
        &[OF_SITES, OF_PAGES, OF_DATA, OF_REPORTS, OF_RUNS],
    ),
    ("drive", &[]),
];

impl Cli {
    /// Parses the command line of the process. Ends the process for help and for errors.
    #[must_use]
    pub fn from_command_line() -> Self {
        Self::from_words(env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Parses words, the program's name first. Without a command, options of `drive` are accepted.
    ///
    /// # Errors
    /// A request for help, or invalid words, with a tip if a similar word exists.
    pub fn from_words(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut words: Vec<OsString> = words.into_iter().collect();
        let read = |words: &[OsString]| {
            Self::shown()
                .try_get_matches_from(words)
                .and_then(|matches| Self::from_arg_matches(&matches))
        };
        let error = match read(&words) {
            Ok(cli) => return Ok(cli),
            Err(error) => error,
        };
        if error.kind() == ErrorKind::UnknownArgument && !names_command(&words) {
            words.insert(1, "drive".into());
            return read(&words).map_err(with_tip);
        }
        Err(with_tip(error))
    }

    /// The command line as its help shows it: options that a command does not use are parsed but not shown.
    #[must_use]
    pub fn shown() -> clap::Command {
        let mut command = help::grouped(Self::command());
        // Passes the options of all commands on to subcommands.
        command.build();
        MEANINGLESS
            .into_iter()
            .fold(command, |command, (name, groups)| {
                command.mut_subcommand(name, |one| without(one, groups))
            })
    }

    /// The command line without hidden commands, hidden options, and the options `help` and `version`.
    #[must_use]
    pub fn for_completions() -> clap::Command {
        let shown = Self::shown();
        let commands: Vec<_> = help::names()
            .filter_map(|name| shown.find_subcommand(name))
            .collect();
        copy_of_shown(&shown, &commands).version(env!("CARGO_PKG_VERSION"))
    }
}

/// The command with the arguments that it does not hide, and copies of these commands and of all below them.
fn copy_of_shown(shown: &clap::Command, below: &[&clap::Command]) -> clap::Command {
    let below = below.iter().map(|one| {
        let all = one.get_subcommands();
        let all: Vec<_> = all.filter(|it| it.get_name() != "help").collect();
        copy_of_shown(one, &all)
    });
    let own = |argument: &&clap::Arg| {
        !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    // Commands have their copies already. A global option would come back where its copy is hidden.
    let arguments = shown.get_arguments().filter(own).cloned();
    // clap takes no other names; there are few, and the program ends soon.
    let name: &'static str = shown.get_name().to_owned().leak();
    clap::Command::new(name)
        .about(shown.get_about().cloned().unwrap_or_default())
        .args(arguments.map(|argument| argument.global(false)))
        .subcommands(below)
}

/// The command and its subcommands, with the options of these groups hidden.
fn without(command: clap::Command, groups: &[&[&str]]) -> clap::Command {
    let command = command.mut_args(|argument| {
        let id = argument.get_id().as_str();
        let hide = groups.iter().any(|options| options.contains(&id));
        if hide { argument.hide(true) } else { argument }
    });
    command.mut_subcommands(|one| without(one, groups))
}

/// Whether one of the words is the name of a command.
fn names_command(words: &[OsString]) -> bool {
    let command = Cli::command();
    let words = words.iter().skip(1).take_while(|word| *word != "--");
    words
        .into_iter()
        .any(|word| command.get_subcommands().any(|one| *word == one.get_name()))
}

/// Adds a tip to the error if a driver or a program is named without its option, and removes a tip that is not similar.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let (kind, is_command) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, false),
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, true),
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else {
        return error;
    };
    if word.starts_with('-') {
        if let Some(ContextValue::String(tip)) = error.get(ContextKind::SuggestedArg)
            && !is_similar(word, tip)
        {
            error.remove(ContextKind::SuggestedArg);
            // It shows the option of the tip.
            error.remove(ContextKind::Usage);
        }
        return error;
    }
    // A mistyped command has a suggestion already.
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let driver = format!("a driver is named with '--driver {word}'");
    let program = format!("a program is started with 'steward run {word}'");
    let tips = match is_command {
        false => vec![driver],
        true if word.contains('/') => vec![program],
        true => vec![driver, program],
    };
    let tips = tips.into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// Whether one word becomes the other by changing, adding or removing at most a third of its letters.
fn is_similar(one: &str, other: &str) -> bool {
    let other: Vec<char> = other.chars().collect();
    let mut costs: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let (mut diagonal, mut left) = (row, row + 1);
        for (cost, of_other) in costs.iter_mut().skip(1).zip(&other) {
            let change = diagonal + usize::from(letter != *of_other);
            diagonal = *cost;
            left = change.min(*cost + 1).min(left + 1);
            *cost = left;
        }
    }
    let longest = one.chars().count().max(other.len());
    costs.last().is_some_and(|cost| cost * 3 <= longest)
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::*;

    fn read(line: &str) -> Result<Cli, clap::Error> {
        Cli::from_words(line.split(' ').map(OsString::from))
    }

    #[test]
    fn options_of_drive_need_no_command() {
        for line in [
            "steward --driver lavapipe --rounds 3",
            "steward --json - --seed 7 --driver lavapipe --rounds 3",
            "steward drive --driver lavapipe --rounds 3",
        ] {
            let cli = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let Some(Command::Drive(options)) = cli.command else {
                panic!("{line}: {:?}", cli.command);
            };
            assert_eq!(
                (options.driver.as_deref(), options.rounds),
                (Some("lavapipe"), 3)
            );
        }
        assert!(
            read("steward --guard=strict")
                .expect("right")
                .command
                .is_none()
        );
        // An option of `drive` is not one of another command.
        assert!(read("steward rules --rounds 3").is_err());
        assert!(read("steward --rounds 3 rules").is_err());
    }

    #[test]
    fn near_misses_have_a_tip() {
        let cases = [
            ("steward drvie", "'drive'"),
            ("steward --drivr lavapipe", "'--driver'"),
            ("steward drive --ronds 3", "'--rounds'"),
            ("steward drive lavapipe", "'--driver lavapipe'"),
            ("steward check lavapipe", "'--driver lavapipe'"),
            ("steward lavapipe", "'--driver lavapipe'"),
            ("steward ./game", "'steward run ./game'"),
            ("steward completions bsh", "'bash'"),
        ];
        for (line, tip) in cases {
            let error = read(line).expect_err(line).to_string();
            let said = error
                .lines()
                .find(|one| one.trim_start().starts_with("tip:"));
            assert!(said.is_some_and(|one| one.contains(tip)), "{line}: {error}");
        }
    }

    #[test]
    fn an_unknown_option_has_no_tip_that_is_not_like_it() {
        for (line, tip) in [
            ("steward --bogus", None),
            ("steward drive --zzz 3", None),
            ("steward run --bogus -- true", None),
            ("steward check --direkt", Some("'--direct'")),
            ("steward run --stack -- true", Some("'--stacks'")),
        ] {
            let error = read(line).expect_err(line).to_string();
            let is_there = error.contains("a similar argument exists");
            assert_eq!(is_there, tip.is_some(), "{line}: {error}");
            assert!(tip.is_none_or(|tip| error.contains(tip)), "{line}: {error}");
        }
    }

    #[test]
    fn options_behind_the_program_are_the_programs() {
        let run = |line: &str| match read(line) {
            Ok(Cli {
                command: Some(Command::Run(options)),
                output,
                ..
            }) => {
                let words = options
                    .program
                    .iter()
                    .map(|word| word.to_string_lossy().into_owned());
                (
                    words.collect::<Vec<_>>().join(" "),
                    options.stacks,
                    output.json,
                )
            }
            other => panic!("{line}: {other:?}"),
        };
        for (line, program, stacks) in [
            ("steward run ./p", "./p", false),
            ("steward run -- ./p --stacks", "./p --stacks", false),
            (
                "steward run --stacks ./p --stacks --json x",
                "./p --stacks --json x",
                true,
            ),
            ("steward run ./p -- --help -V", "./p -- --help -V", false),
            (
                "steward run --stacks -- -odd --version",
                "-odd --version",
                true,
            ),
            ("steward run drive --rounds 0", "drive --rounds 0", false),
        ] {
            assert_eq!(run(line), (program.to_owned(), stacks, None), "{line}");
        }
        let json = run("steward --json a run --findings ./p --json b").2;
        assert_eq!(json.as_deref(), Some(std::path::Path::new("a")));
        assert!(read("steward run").is_err() && read("steward run --stacks").is_err());
    }

    #[test]
    fn a_wrong_number_is_answered_with_the_option_and_its_range() {
        for (line, option, range) in [
            ("drive --seed abc", "--seed", "from 0 to 4294967295"),
            ("drive --seed=-1", "--seed", "from 0 to 4294967295"),
            ("drive --rounds 0", "--rounds", "from 1 to"),
            ("check --rounds 1.5", "--rounds", "from 1 to"),
            ("drive --depth 4", "--depth", "from 0 to 3"),
            ("top --interval 0", "--interval", "from 0.1 to 86400"),
            ("top --interval NaN", "--interval", "from 0.1 to 86400"),
            ("top x", "[PID]", "from 1 to"),
            ("run --time-limit x p", "--time-limit", "from 0 to 86400"),
            ("run --fail=each=0 p", "--fail", "1 or more"),
            ("diff --top 0 a b", "--top", "from 1 to"),
            ("diff --threshold x a b", "--threshold", "0 or more"),
        ] {
            let error = read(&format!("steward {line}"))
                .expect_err(line)
                .to_string();
            assert!(
                error.contains(option) && error.contains(range),
                "{line}: {error}"
            );
        }
        let top = read("steward top --interval 0.2").expect("a part of a second");
        let Some(Command::Top(options)) = top.command else {
            panic!("{top:?}");
        };
        assert_eq!(options.interval.as_millis(), 200);
    }

    #[test]
    fn completions_offer_values_and_others_are_parsed() {
        let mut script = Vec::new();
        clap_complete::generate(
            clap_complete::Shell::Bash,
            &mut Cli::for_completions(),
            "steward",
            &mut script,
        );
        let script = String::from_utf8(script).expect("text");
        for values in [
            "fence strict cookie sampled",
            "all reference lavapipe radv",
            "each nth=",
        ] {
            assert!(script.contains(values), "{values}");
        }
        for command in Cli::for_completions().get_subcommands() {
            let line = format!("        steward__subcmd__{})", command.get_name());
            let options = script.split(&line).nth(1);
            assert!(options.is_some_and(|of| of.contains("--color")), "{line}");
        }
        for hidden in ["--layer", "--page-part"] {
            assert!(!script.contains(hidden), "{hidden}");
        }
        for line in [
            "steward drive --driver /path/icd.json --guard=sampled=7 --fail=nth=9",
            "steward check --driver 1 --guard=STRICT",
        ] {
            assert!(read(line).is_ok(), "{line}");
        }
        let wrong = read("steward drive --guard=x")
            .expect_err("no mode")
            .to_string();
        assert!(
            wrong.contains("expected fence, strict, cookie, sampled or sampled=N"),
            "{wrong}"
        );
    }

    #[test]
    fn help_is_no_longer_than_a_screen() {
        let mut command = Cli::shown().term_width(100);
        let lines = |command: &mut clap::Command| command.render_help().to_string();
        let text = lines(&mut command);
        let count = text.lines().count();
        assert!((24..=40).contains(&count), "{count} lines\n{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        for one in command.get_subcommands_mut() {
            let text = lines(one);
            let count = text.lines().count();
            assert!(count <= 60, "{}: {count} lines\n{text}", one.get_name());
        }
    }

    #[test]
    fn commands_below_a_command_show_no_options_that_mean_nothing_to_them() {
        let mut shown = Cli::shown();
        let layer = shown.find_subcommand_mut("layer").expect("it is there");
        for name in ["install", "uninstall"] {
            let one = layer.find_subcommand_mut(name).expect("it is there");
            let text = one.render_help().to_string();
            assert!(
                text.contains("--user") && text.contains("--color"),
                "{text}"
            );
            for option in ["--guard", "--fail", "--html", "--depth"] {
                assert!(!text.contains(option), "{name} {option}: {text}");
            }
        }
    }

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
        for command in shown.get_subcommands().filter(|one| !one.is_hide_set()) {
            if let Some(is_shown) = html(command) {
                let name = format!("`{}`", command.get_name());
                assert_eq!(help.contains(&name), is_shown, "{name}: {help}");
            }
        }
        assert!(help.contains("`run`"), "{help}");
    }
}
