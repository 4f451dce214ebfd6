//! What a terminal shows that a file does not, on a terminal: colours, widths, progress; and what is said beside the
//! results.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::{Child, TerminalOutput, skip};
use vk_steward::replay::bundled::TRACES;

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");

/// What the program shows on a terminal of so many columns; its other output is dropped.
fn shown(args: &[&str], columns: u16, output: TerminalOutput, variables: &[(&str, &str)]) -> String {
    let child = Child::new(STEWARD).args(args);
    let child = child.env_remove("NO_COLOR").env("TERM", "xterm");
    let set = |child: Child, (name, value): &(&str, &str)| child.env(name, value);
    variables.iter().fold(child, set).run_on_terminal(columns, output)
}

/// Without escape codes.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[test]
fn a_terminal_has_colours_unless_somebody_wants_none() {
    let args = ["replay", TRACES[0].name];
    let coloured = shown(&args, 120, TerminalOutput::Output, &[]);
    assert!(coloured.contains("\u{1b}[1mtrace\u{1b}[0m: "), "{coloured}");
    let bare = [
        shown(&args, 120, TerminalOutput::Output, &[("NO_COLOR", "1")]),
        shown(&args, 120, TerminalOutput::Output, &[("TERM", "dumb")]),
        shown(&[&args[..], &["--color=never"]].concat(), 120, TerminalOutput::Output, &[]),
        Child::new(STEWARD).args(args).run().stdout,
    ];
    for text in bare {
        assert!(text.contains("trace: ") && !text.contains('\u{1b}'), "{text}");
    }
    let piped = Child::new(STEWARD).args(args).args(["--color=always"]).run();
    assert!(piped.assert_code(0).stdout.contains("\u{1b}[1mtrace"), "{piped}");
}

#[test]
fn lines_fit_the_terminal_and_lose_no_word() {
    for args in [&["replay", TRACES[0].name, "--findings"][..], &["rules"], &["check", "--trace", TRACES[0].name]] {
        for columns in [60, 80] {
            let text = plain(&shown(args, columns, TerminalOutput::Output, &[]));
            assert!(text.lines().count() > 20, "{text}");
            for line in text.lines() {
                // One word may be longer.
                let words = line.split_whitespace().count();
                assert!(line.chars().count() <= usize::from(columns) || words == 1, "{columns}: {line}");
            }
        }
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let whole = Child::new(STEWARD).args(["rules"]).run();
    assert_eq!(words(&plain(&shown(&["rules"], 60, TerminalOutput::Output, &[]))), words(&whole.stdout));
}

#[test]
fn the_report_of_a_run_is_shown_on_the_error_output_as_a_terminal_wants_it() {
    let test = "the_report_of_a_run_is_shown_on_the_error_output_as_a_terminal_wants_it";
    if !crate::run::is_program("vulkaninfo") {
        return skip("vulkaninfo", test, "there is no vulkaninfo");
    }
    let run = |option: &str| {
        let args = ["run", option, "--", "vulkaninfo", "--summary"];
        crate::run::steward(&args).env_remove("NO_COLOR").env("TERM", "xterm")
    };
    let report = |text: &str| {
        let begin = text.find("Host memory that Vulkan allocated").map(|at| {
            // An escape code may stand before it.
            text[..at].rfind('\n').map_or(0, |end| end + 1)
        });
        begin.map(|begin| text[begin..].to_owned())
    };
    let piped = run("--color=auto").run();
    let Some(whole) = report(&piped.stderr) else {
        return skip("lavapipe", test, "vulkaninfo has no driver");
    };
    assert!(whole.contains("\nfindings: none\n") && !whole.contains('\u{1b}'), "{whole}");
    let columns = 60;
    let shown = |option| run(option).run_on_terminal(columns, TerminalOutput::ErrorOutput);
    let coloured = report(&shown("--color=auto")).expect("a report");
    assert!(coloured.contains("\u{1b}[32mfindings: none"), "{coloured}");
    assert!(
        report(&run("--color=always").run().stderr).is_some_and(|text| text.contains('\u{1b}')),
        "asked for, they are in a file too"
    );
    let folded = report(&shown("--color=never")).expect("a report");
    let words = |text: &str| {
        let words = text.split_whitespace().map(str::to_owned);
        // Numbers differ, and with them perhaps their units.
        let is_unit = |word: &String| ["B", "KiB", "MiB", "GiB"].contains(&&**word);
        words.filter(|word| !is_unit(word) && word.chars().any(char::is_alphabetic)).collect::<Vec<_>>()
    };
    let left_out = "left out for want of columns: ";
    let (before, after) = folded.split_once(left_out).expect("too narrow");
    let (titles, after) = after.split_once("; --json has all\n").expect("a list");
    // But for these columns it has what a text in a file has.
    let titles: Vec<_> = titles.split(", ").map(str::trim).collect();
    let (head, rest) = whole.split_once("alive\n").expect("the heading");
    let mut expected = words(&format!("{head} alive"));
    // vulkaninfo destroys all that it creates, and what is empty goes first, and is not missed.
    for title in titles.iter().chain(&["live", "alive"]) {
        let last = expected.iter().rposition(|word| word == title);
        expected.remove(last.expect("a column"));
    }
    expected.extend(words(rest));
    assert_eq!(words(&format!("{before}{after}")), expected, "{titles:?}");
    assert_eq!(words(&plain(&coloured)), words(&folded));
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    assert!(widest(&whole) > Some(columns.into()), "{whole}");
    assert!(widest(&folded) <= Some(columns.into()), "{folded}");
    // Where there is room for the columns each object has a line.
    let table = report(&run("--color=never").run_on_terminal(80, TerminalOutput::ErrorOutput));
    let table = table.expect("a report");
    let head = table.lines().find(|line| line.trim().starts_with("context "));
    assert!(head.is_some_and(|head| head.ends_with("objects")), "{table}");
}

#[test]
fn what_takes_longer_than_two_seconds_says_how_far_it_is() {
    let quick = ["drive", "--driver", "reference", "--no-coverage"];
    let text = shown(&quick, 100, TerminalOutput::ErrorOutput, &[]);
    assert_eq!(text, "", "nothing is said of what is quick");
    let slow = [&quick[..], &["--rounds", "600"]].concat();
    let text = shown(&slow, 100, TerminalOutput::ErrorOutput, &[]);
    assert!(text.contains("/600 rounds"), "{text:?}");
    // Not where nobody looks.
    let done = Child::new(STEWARD).args(quick).args(["--rounds", "1"]).run();
    assert_eq!(done.assert_code(0).stderr, "");
}

#[test]
fn each_file_that_is_written_is_named_on_the_error_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, html, trace] = ["a.json", "a.html", "a.trace"].map(|name| folder.path().join(name));
    let done = Child::new(STEWARD)
        .args(["--driver", "reference", "--no-coverage"])
        .args([Path::new("--record"), &trace, Path::new("--json"), &json, Path::new("--html"), &html])
        .run();
    done.assert_code(0);
    let wrote = |file: &Path| format!("wrote {}\n", file.display());
    assert_eq!(done.stderr, wrote(&trace) + &wrote(&json) + &wrote(&html));
    let done = Child::new(STEWARD).args(["rules", "--json", "-"]).run();
    assert_eq!(done.assert_code(0).stderr, "", "the standard output is no file");
    let done = Child::new(STEWARD).args(["rules", "--json", "/dev/null"]).run();
    assert_eq!(done.assert_code(0).stderr, "");
}

/// Each shell's own program reads its completions, where it is installed.
#[test]
fn completions_are_read_by_their_shell_and_name_no_hidden_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let done = Child::new(STEWARD).args(["completions", shell]).run();
        let script = &done.assert_code(0).stdout;
        assert!(script.contains("drive") && script.contains("no-coverage"), "{shell}");
        assert!(!script.contains("workload-child") && !script.contains("signal-probe"), "{shell}");
    }
    let script = Child::new(STEWARD).args(["completions", "bash"]).run().stdout;
    for (words, offered) in [
        (&["drive", "--ro"][..], "--rounds"),
        (&["drive", "--layer"], ""),
        (&["layer", "--print"], "--print-manifest"),
        (&["run", "--driver", "lav"], "lavapipe"),
        (&["run", "--driver", "refer"], ""),
        (&["run", "--guard", "str"], "strict"),
        (&["drive", "--fail", "eac"], "each"),
        (&["layer", "install", "--us"], "--user"),
        // Options of all commands that mean nothing to this one.
        (&["layer", "install", "--gu"], ""),
        (&["layer", "uninstall", "--ht"], ""),
    ] {
        let (last, place) = (words[words.len() - 1], words.len());
        let ask = format!(
            "{script}\nCOMP_WORDS=(steward {}); COMP_CWORD={place}; _steward steward {last} {}; echo \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words[place - 2]
        );
        match Command::new("bash").args(["-c", &ask]).output() {
            Ok(done) => {
                let answer = String::from_utf8_lossy(&done.stdout);
                assert_eq!(answer.trim_end(), offered, "{words:?}");
            }
            Err(error) => return skip("bash", "completions", &error.to_string()),
        }
    }
}

#[test]
fn a_mistyped_driver_is_told_what_it_is_like() {
    let done = Child::new(STEWARD).args(["drive", "--driver", "lavapip"]).run();
    done.assert_code(2);
    if done.stderr.contains("llvmpipe") {
        assert!(done.stderr.contains("(did you mean \"lavapipe\"?)"), "{done}");
    } else {
        skip("lavapipe", "a_mistyped_driver_is_told_what_it_is_like", "no such driver");
    }
}

/// A report of a run on lavapipe, with what the environment adds; or a skip.
fn report(test: &str, layers: Option<&str>) -> Option<(String, Value)> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.json");
    let args = ["--driver", "lavapipe", "--seed", "7", "--json"];
    let child = Child::new(STEWARD).args(args).args([&file]);
    let child = child.env_remove("VK_INSTANCE_LAYERS");
    let child = layers.into_iter().fold(child, |child, layers| child.env("VK_INSTANCE_LAYERS", layers));
    let done = child.run();
    if done.code == Some(2) {
        skip("lavapipe", test, done.stderr.lines().next().unwrap_or_default());
        return None;
    }
    done.assert_code(0);
    let text = std::fs::read(&file).expect("a report");
    Some((done.stdout, serde_json::from_slice(&text).expect("JSON")))
}

#[test]
fn the_report_names_loader_layers_driver_and_cache() {
    let test = "the_report_names_loader_layers_driver_and_cache";
    let Some((text, report)) = report(test, None) else {
        return;
    };
    let environment = &report["environment"];
    let loader = environment["loader"]["file"].as_str().expect("a file");
    assert!(Path::new(loader).is_file() && loader.contains("libvulkan"), "{loader}");
    let version = environment["loader"]["version"].as_str().expect("a version");
    assert!(text.contains(&format!("\nloader: {loader}, Vulkan {version}\n")), "{text}");
    assert!(version.starts_with("1.") && text.contains("\nlayers: none\n"), "{text}");
    let driver = environment["driver_files"][0].as_str().expect("a file");
    assert!(driver.contains("libvulkan_lvp"), "{driver}");
    assert_eq!(environment["disk_cache"]["on_in_coverage"], false);
    assert!(text.contains("off where callback coverage is measured"), "{text}");
    // What is known, beside the number; and the driver's library, which was opened before the first command.
    assert_eq!(report["known_findings"]["unknown"], 0, "{text}");
    assert!(text.contains(", all known of lavapipe 22.3 ("), "{text}");
    let coverage = &report["callback_coverage"]["without_loader"];
    if coverage.is_null() {
        skip("meter", test, &report["callback_coverage"]["absent"].to_string());
        return;
    }
    assert!(coverage["opening_bytes"].as_u64() > Some(10_000), "LLVM's initialisers: {coverage}");
    assert!(text.contains(" while its library was opened, "), "{text}");
    assert!(text.contains("\ncallback coverage: 0.2"), "{text}");
}

#[test]
fn a_layer_is_named_and_warned_of() {
    let test = "a_layer_is_named_and_warned_of";
    let name = "VK_LAYER_KHRONOS_validation";
    let Some((text, report)) = report(test, Some(name)) else {
        return;
    };
    let layers = report["environment"]["layers"].as_array().expect("a list");
    if layers.is_empty() {
        return skip("validation", test, "the layer is not installed");
    }
    assert_eq!(layers[0]["name"], name);
    assert!(text.contains(&format!("\nlayers: {name}\n")), "{text}");
    assert!(text.contains("\nnote: layers were active"), "{text}");
}
