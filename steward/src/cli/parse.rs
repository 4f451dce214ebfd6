//! Parses words into a [`Cli`]. Without a command it is `drive`; for mistyped words there are tips.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use strsim::normalized_levenshtein;

use super::{Cli, Command, Drive, FailArg, help};

/// An option that is less like the word than this is no tip: a third of its letters are others.
const MIN_LIKENESS: f64 = 2.0 / 3.0;

/// The ids of options that name a file, how errors call each, and whether it is written. Inputs come first: errors name
/// them first.
const FILES: [(&str, &str, bool); 14] = [
    ("recording", "the trace", false),
    ("reports", "the reports", false),
    ("before", "the report before", false),
    ("after", "the report after", false),
    ("report", "--report", false),
    ("driver", "--driver", false),
    ("trace", "--trace", false),
    ("expect", "--expect", false),
    ("write_expect", "--write-expect", true),
    ("text", "--text", true),
    ("record", "--record", true),
    ("json", "--json", true),
    ("html", "--html", true),
    ("profile", "--profile", true),
];

/// Ids of options that mean nothing beside `--fail=each`.
const NOT_IN_SWEEP: [&str; 11] = [
    "all_rounds",
    "depth",
    "no_coverage",
    "html",
    "profile",
    "findings",
    "expect",
    "write_expect",
    "record",
    "meter",
    "stacks",
];
const OF_ONE_DRIVER: [&str; 4] = ["record", "profile", "expect", "write_expect"];

/// A file and the option that names it.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// The option, for a sentence.
    pub by: &'static str,
    /// The file.
    pub file: PathBuf,
    /// It is an output.
    pub is_written: bool,
}

impl Cli {
    /// Parses the command line of the process. Ends the process for help and for errors.
    #[must_use]
    pub fn from_command_line() -> Self {
        Self::from_words(env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Parses words, the program's name first.
    ///
    /// # Errors
    /// A request for help, or invalid words, with a tip if a similar word exists.
    pub fn from_words(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        match Self::parsed(&words) {
            Err(error) if error.kind() != ErrorKind::UnknownArgument || names_command(&words) => Err(with_tip(error)),
            Ok(cli) if cli.command.is_some() => Ok(cli),
            _ => {
                let options = words.into_iter().skip(1);
                let words = ["steward".into(), "drive".into()].into_iter().chain(options);
                let mut cli = Self::parsed(&words.collect::<Vec<_>>()).map_err(with_tip)?;
                if let Some(Command::Drive(options)) = &mut cli.command {
                    options.is_implied = names_nothing_of_drive(options);
                }
                Ok(cli)
            }
        }
    }

    fn parsed(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut command = Self::shown();
        let matches = command.try_get_matches_from_mut(words)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Some((name, given)) = matches.subcommand() {
            if let Some(refusal) = refusal(name, given) {
                let kind = ErrorKind::ArgumentConflict;
                return Err(match command.find_subcommand_mut(name) {
                    Some(command) => command.error(kind, refusal),
                    None => command.error(kind, refusal),
                });
            }
            cli.files = files(given);
        }
        Ok(cli)
    }

    /// The command line as its help shows it.
    #[must_use]
    pub fn shown() -> clap::Command {
        help::grouped(Self::command())
    }
}

fn is_given(given: &ArgMatches, option: &str) -> bool {
    given.ids().any(|id| id == option) && given.value_source(option) == Some(ValueSource::CommandLine)
}

/// What clap's own rules cannot know: options that exclude each other by a value.
fn refusal(command: &str, given: &ArgMatches) -> Option<String> {
    let named = |options: &[&str]| {
        let option = options.iter().find(|option| is_given(given, option));
        option.map(|option| format!("--{}", option.replace('_', "-")))
    };
    let is_all = matches!(given.try_get_one::<String>("driver"), Ok(Some(name)) if super::is_all(name));
    let sweeps = matches!(given.try_get_one("fail"), Ok(Some(FailArg::Each(_))));
    if !sweeps && is_given(given, "time_limit") {
        return Some("--time-limit is for --fail=each: leave it out, or start the program with `timeout`".to_owned());
    }
    if sweeps && command == "check" {
        return Some(
            "--fail=each is for `run` and `drive`: use it with one of the two, or name one plan with --fail".to_owned(),
        );
    }
    let read = given.try_get_raw("report").ok().flatten();
    let reads = read.is_some_and(|files| files.count() > 0);
    if reads && is_given(given, "driver") {
        return Some("--report with files runs no driver: leave --driver out".to_owned());
    }
    let in_sweep = || named(&NOT_IN_SWEEP).or_else(|| is_all.then(|| "--driver all".to_owned()));
    if let Some(option) = sweeps.then(in_sweep).flatten() {
        return Some(format!(
            "--fail=each runs the program again and again and only lists how it ends: leave {option} out, or name one plan with --fail"
        ));
    }
    let option = is_all.then(|| named(&OF_ONE_DRIVER)).flatten()?;
    Some(format!("{option} names the file of one driver: name it with --driver, `steward drivers` lists them"))
}

/// A driver is a file if it is named by the path of its manifest.
fn files(given: &ArgMatches) -> Vec<NamedFile> {
    let named = FILES.into_iter().filter(|(id, ..)| is_given(given, id));
    let files = named.flat_map(|(id, by, is_written)| {
        let files = given.get_raw(id).into_iter().flatten().map(PathBuf::from);
        let files = files.filter(move |file| id != "driver" || file.components().count() > 1);
        files.map(move |file| NamedFile { by, file, is_written })
    });
    files.collect()
}

/// Who asks for a gate, a driver, a recording or a sweep wants a driver of their own.
fn names_nothing_of_drive(options: &Drive) -> bool {
    let sweeps = matches!(options.guarding.fail, Some(FailArg::Each(_)));
    let is_asked = sweeps || options.exit_code || options.direct || options.no_check || options.no_coverage;
    !is_asked && options.driver.is_none() && options.record.is_none() && options.seed.is_none() && options.rounds == 1
}

fn names_command(words: &[OsString]) -> bool {
    let command = Cli::command();
    let words = words.iter().skip(1).take_while(|word| *word != "--");
    words.into_iter().any(|word| command.get_subcommands().any(|one| *word == one.get_name()))
}

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
            && normalized_levenshtein(word, tip) < MIN_LIKENESS
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

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::*;

    fn read(line: &str) -> Result<Cli, clap::Error> {
        Cli::from_words(line.split(' ').map(OsString::from))
    }

    #[test]
    #[cfg(unix)]
    fn a_driver_whose_name_is_no_utf_8_is_refused_with_what_to_do() {
        use std::os::unix::ffi::OsStringExt as _;

        for command in ["drive", "check", "drivers"] {
            let words = ["steward", command, "--report", "--driver"];
            let words = words.iter().filter(|word| command == "drivers" || **word != "--report");
            let name = OsString::from_vec(b"/drivers/\xff_icd.json".to_vec());
            let refused = Cli::from_words(words.map(OsString::from).chain([name]));
            let said = refused.expect_err("it is no UTF-8").to_string();
            for part in ["--driver <NAME>", "name it as `steward drivers` lists it"] {
                assert!(said.contains(part), "{command}: {said}");
            }
        }
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
            assert_eq!((options.driver.as_deref(), options.rounds), (Some("lavapipe"), 3));
        }
        let is_implied = |line: &str| match read(line).expect("right").command {
            Some(Command::Drive(options)) => options.is_implied,
            other => panic!("{line}: {other:?}"),
        };
        for line in ["steward", "steward --guard=strict", "steward --color never"] {
            assert!(is_implied(line), "{line}");
        }
        for line in [
            "steward drive",
            "steward --exit-code",
            "steward --driver lavapipe",
            "steward --record t.gz",
            "steward --rounds 3",
            "steward --fail=each",
        ] {
            assert!(!is_implied(line), "{line}");
        }
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
            let said = error.lines().find(|one| one.trim_start().starts_with("tip:"));
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
            Ok(Cli { command: Some(Command::Run(options)), .. }) => {
                let words = options.program.iter().map(|word| word.to_string_lossy().into_owned());
                (words.collect::<Vec<_>>().join(" "), options.stacks, options.output.json)
            }
            other => panic!("{line}: {other:?}"),
        };
        for (line, program, stacks) in [
            ("steward run ./p", "./p", false),
            ("steward run -- ./p --stacks", "./p --stacks", false),
            ("steward run --stacks ./p --stacks --json x", "./p --stacks --json x", true),
            ("steward run ./p -- --help -V", "./p -- --help -V", false),
            ("steward run --stacks -- -odd --version", "-odd --version", true),
            ("steward run drive --rounds 0", "drive --rounds 0", false),
        ] {
            assert_eq!(run(line), (program.to_owned(), stacks, None), "{line}");
        }
        let json = run("steward run --json a --findings ./p --json b").2;
        assert_eq!(json.as_deref(), Some(std::path::Path::new("a")));
        assert!(read("steward run").is_err() && read("steward run --stacks").is_err());
    }

    #[test]
    fn a_wrong_number_is_answered_with_the_option_and_its_range() {
        for (line, option, range) in [
            ("drive --seed abc", "--seed", "from 0 to 4294967295"),
            ("drive --seed=-1", "--seed", "from 0 to 4294967295"),
            ("drive --rounds 0", "--rounds", "from 1 to"),
            ("drive --rounds 4294967296", "--rounds", "from 1 to"),
            ("drive --rounds=-1", "--rounds", "from 1 to"),
            ("drive --seed 4294967296", "--seed", "from 0 to 4294967295"),
            ("drive --guard sampled=4294967296", "--guard", "sampled="),
            ("drive --guard sampled=0", "--guard", "sampled="),
            ("drive --fail nth=18446744073709551616", "--fail", "nth="),
            ("drive --fail one-in=4294967296", "--fail", "one-in="),
            ("drive --fail one-in=0", "--fail", "one-in="),
            ("check --rounds 1.5", "--rounds", "from 1 to"),
            ("drive --depth 4", "--depth", "from 0 to 3"),
            ("top --interval 0", "--interval", "from 0.1 to 86400"),
            ("top --interval NaN", "--interval", "from 0.1 to 86400"),
            ("run --time-limit x p", "--time-limit", "from 0 to 86400"),
            ("run --fail=each=0 p", "--fail", "1 or more"),
            ("diff --top 0 a b", "--top", "from 1 to"),
            ("diff --threshold x a b", "--threshold", "0 or more"),
        ] {
            let error = read(&format!("steward {line}")).expect_err(line).to_string();
            assert!(error.contains(option) && error.contains(range), "{line}: {error}");
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
        clap_complete::generate(clap_complete::Shell::Bash, &mut Cli::shown(), "steward", &mut script);
        let script = String::from_utf8(script).expect("text");
        for values in ["fence strict cookie sampled", "all reference lavapipe radv", "each nth="] {
            assert!(script.contains(values), "{values}");
        }
        for command in Cli::shown().get_subcommands() {
            let line = format!("        steward__subcmd__{})", command.get_name());
            let options = script.split(&line).nth(1);
            assert!(options.is_some_and(|of| of.contains("--color")), "{line}");
        }
        for line in [
            "steward drive --driver /path/icd.json --guard=sampled=7 --fail=nth=9",
            "steward check --driver 1 --guard=STRICT",
        ] {
            assert!(read(line).is_ok(), "{line}");
        }
        let wrong = read("steward drive --guard=x").expect_err("no mode").to_string();
        assert!(wrong.contains("expected fence, strict, cookie, sampled or sampled=N"), "{wrong}");
    }

    #[test]
    fn an_option_that_would_be_ignored_is_refused() {
        let unexpected = |line: &str, option: &str| {
            let refused = read(line).expect_err(line).to_string();
            assert!(refused.contains(&format!("unexpected argument '{option}'")), "{line}: {refused}");
        };
        for command in ["drivers", "symbols f", "top", "mark 1", "rules", "completions bash"] {
            for option in ["--html", "--profile", "--findings", "--guard", "--fail", "--depth"] {
                unexpected(&format!("steward {command} {option}"), option);
            }
        }
        for (line, option) in [
            ("check --findings", "--findings"),
            ("diff a b --profile f", "--profile"),
            ("replay f --guard strict", "--guard"),
            ("report 1 --depth 2", "--depth"),
            ("layer install --user --json f", "--json"),
        ] {
            unexpected(&format!("steward {line}"), option);
        }
        for (line, words) in [
            ("drive --guard-back-end mprotect", "--guard <MODE>"),
            ("check --trace f --fail nth=1", "'--trace <FILE>' cannot be used with '--fail"),
            ("check --write-expect f --guard strict", "'--write-expect <FILE>' cannot be used with '--guard"),
            ("run --write-expect f --fail nth=1 p", "'--write-expect <FILE>' cannot be used with '--fail"),
            ("check --write-expect f --profile g", "'--write-expect <FILE>' cannot be used with '--profile"),
            ("check --fail each", "--fail=each is for `run` and `drive`"),
            ("run --fail=each --stacks p", "leave --stacks out"),
            ("run --fail=each --write-expect f p", "cannot be used with"),
            ("drive --fail=each --html f", "leave --html out"),
            ("drive --fail=each --driver all", "leave --driver all out"),
            ("drivers --report f g --driver lavapipe", "--report with files runs no driver"),
            ("drivers --driver lavapipe", "--report"),
            ("drive --fail=each --record f", "leave --record out"),
            ("run --fail=each --expect f p", "leave --expect out"),
            ("run --fail=each --meter p", "leave --meter out"),
            ("run --fail=each --profile f p", "leave --profile out"),
            ("run --fail=each --findings p", "leave --findings out"),
            ("run --time-limit 3 p", "--time-limit is for --fail=each"),
            ("run --time-limit 3 --fail nth=1 p", "--time-limit is for --fail=each"),
            ("drive --driver ALL --record f", "--record names the file of one driver"),
            ("drive --driver all --profile f", "--profile names the file"),
            ("check --driver all --expect f", "--expect names the file"),
            ("check --driver all --write-expect f", "--write-expect names the file"),
        ] {
            let refused = read(&format!("steward {line}")).expect_err(line).to_string();
            assert!(refused.contains(words), "{line}: {refused}");
        }
        for line in [
            "run --fail=each --time-limit 3 --json f --text g p",
            "drive --driver all --html f --fail nth=3",
            "check --driver lavapipe --profile f --expect g",
            "drivers --report --driver lavapipe --json f",
        ] {
            assert!(read(&format!("steward {line}")).is_ok(), "{line}");
        }
    }
}
