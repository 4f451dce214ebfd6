//! The program as people and scripts call it: first lines, exit codes, files.
//!
//! What needs a driver is skipped without one; `STEWARD_REQUIRE=lavapipe` forbids that. With
//! `STEWARD_SWIFTSHADER=<manifest>` the tests of two drivers run as well.

mod recorded;
mod two_drivers;

use std::fs;
use std::io::pipe;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::{Child, Finished, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const BUNDLED: &str = "lavapipe-workload";

fn steward(args: &[&str]) -> Child {
    Child::new(STEWARD).args(args)
}

fn run(args: &[&str]) -> Finished {
    steward(args).run()
}

/// The loader is there, and no driver is.
fn without_driver(child: Child) -> Child {
    ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"]
        .iter()
        .fold(child, |child, name| child.env(name, "/nonexistent/icd.json"))
        .env_remove("VK_ADD_DRIVER_FILES")
}

fn without_loader(child: Child) -> Child {
    child.env("STEWARD_LOADER", "/nonexistent/libvulkan.so")
}

/// The drivers that `steward drivers` lists, or a skip.
fn drivers(test: &str, what: &str) -> Option<Vec<Value>> {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("drivers.json");
    let done = steward(&["drivers", "--json"]).args([&json]).run();
    let listed: Vec<Value> = match fs::read(&json) {
        Ok(text) => serde_json::from_slice(&text).expect("JSON"),
        Err(_) => {
            assert_eq!(done.code, Some(2), "{done}");
            Vec::new()
        }
    };
    let id = if what == "swiftshader" { "GOOGLE_SWIFTSHADER" } else { "MESA_LLVMPIPE" };
    if listed.iter().any(|driver| driver["id"] == id) {
        return Some(listed);
    }
    skip(what, test, &format!("`steward drivers` lists no {what}"));
    None
}

fn json_of(args: &[&str]) -> (Finished, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let done = steward(args).args([Path::new("--json"), &json]).run();
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}\n{done}"));
    let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "nothing but the report: {left:?}");
    (done, serde_json::from_str(&text).expect("JSON"))
}

#[track_caller]
fn assert_one_sentence(done: &Finished, parts: &[&str]) {
    done.assert_code(2);
    assert!(done.stderr.starts_with("steward: ") && done.stderr.lines().count() == 1, "{done}");
    for part in parts {
        assert!(done.stderr.contains(part), "{part:?}\n{done}");
    }
}

#[test]
fn with_a_driver_the_first_line_names_it() {
    if drivers("with_a_driver_the_first_line_names_it", "lavapipe").is_none() {
        return;
    }
    let (done, report) = json_of(&[]);
    done.assert_code(0);
    let [name, version] = ["name", "version"].map(|of| report["source"][of].as_str().expect("text").to_owned());
    assert!(done.stdout.starts_with(&format!("driver: {name} {version}\n")), "{done}");
    assert!(!name.is_empty() && version.chars().any(|c| c.is_ascii_digit()), "{done}");
    for part in ["\ncontexts, live", "\n    VkInstance ", "\nphases, live", "\npeak: ", "\nleftovers: none"] {
        assert!(done.stdout.contains(part), "{part:?}\n{done}");
    }
    let said = done.stderr.trim_end();
    assert!(said.starts_with("wrote ") && said.lines().count() == 1, "{done}");
    let kinds = report["source"]["objects"].as_array().map(Vec::len);
    assert!(kinds >= Some(20), "{kinds:?} kinds of object");
    let commands: u64 =
        report["phases"].as_array().into_iter().flatten().filter_map(|phase| phase["commands"].as_u64()).sum();
    assert_eq!(report["source"]["commands"], commands, "each command is in one phase");
    let samples = report["timeline"].as_array().expect("a list");
    assert!(samples.len() as u64 >= commands.min(200), "one after each command, or of many some");
    for (index, phase) in report["phases"].as_array().expect("a list").iter().enumerate() {
        let last = samples.iter().rfind(|sample| sample["phase"] == index).expect("a sample of each phase");
        assert_eq!(last["live_by_scope"], phase["live_by_scope"], "at the end of {}", phase["name"]);
    }
}

#[test]
fn a_run_that_was_not_judged_says_so() {
    if drivers("a_run_that_was_not_judged_says_so", "lavapipe").is_none() {
        return;
    }
    for (options, judged) in
        [(&["drive", "--no-coverage"][..], true), (&["drive", "--no-coverage", "--no-check"], false)]
    {
        let done = run(options);
        done.assert_code(0);
        assert_eq!(done.stdout.contains("\nnote: --no-check: callbacks were not judged"), !judged, "{done}");
        assert_eq!(done.stdout.contains("\nfindings: none\n"), !judged, "{done}");
        assert!(!done.stdout.contains("\ncallback coverage"), "{done}");
    }
}

#[test]
fn rd17_without_a_driver_or_a_loader_the_programs_own_driver_runs_and_says_what_it_is() {
    let loader = without_loader(steward(&[])).run();
    let driver = without_driver(steward(&[])).run();
    for (done, reason) in [(&loader, "there is no Vulkan loader (/nonexistent/libvulkan.so: "), (&driver, "")] {
        done.assert_code(0);
        let first = done.stdout.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("driver: reference ")
                && first.ends_with(" (Steward's own driver: this shows nothing of yours)"),
            "{done}"
        );
        let no_driver = format!("no driver: {reason}");
        // A note is folded to the width of a page.
        let words: Vec<_> = done.stdout.split_whitespace().collect();
        let text = words.join(" ");
        assert!(text.contains(no_driver.trim_end()) && text.contains("install"), "says what to do: {done}");
        for section in
            ["20220 results read back and right", "\n    VkInstance ", "\nleftovers: none", "\nfindings: none"]
        {
            assert!(done.stdout.contains(section), "{section}: {done}");
        }
        assert_eq!(done.stderr, "");
    }
}

/// A false finding of the checker would be seen here at once.
#[test]
fn rd11_rd13_the_checker_finds_nothing_in_the_programs_own_driver() {
    let args = ["check", "--driver", "reference", "--seed", "7"];
    let done = without_loader(steward(&args)).run();
    done.assert_code(0);
}

#[test]
fn rd14_every_block_of_the_programs_own_driver_can_be_guarded() {
    for mode in ["--guard=fence", "--guard=strict"] {
        let args = ["drive", "--driver", "reference", "--no-coverage", mode];
        let done = without_loader(steward(&args)).run();
        done.assert_code(0);
        assert!(done.stdout.contains("unguarded = 0") && done.stdout.contains("20220 results"), "{done}");
    }
}

/// The loader's library is not there, nor is any manifest: what runs is part of the program. Where the meter can be
/// had, not one byte of the driver's goes past the callbacks.
#[test]
fn rd12_rd16_rd18_the_programs_own_driver_needs_no_loader_is_right_and_asks_callbacks_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    let args = ["drive", "--driver", "Reference", "--seed", "7", "--json"];
    let done = without_driver(without_loader(steward(&args).args([&json]))).run();
    done.assert_code(0);
    assert!(
        done.stdout.contains("20220 results read back and right")
            && done.stdout.contains("\nleftovers: none")
            && !done.stdout.contains("no driver:"),
        "{done}"
    );
    let report: Value = serde_json::from_slice(&fs::read(&json).expect("it is there")).expect("JSON");
    let coverage = &report["callback_coverage"]["without_loader"];
    if coverage.is_null() {
        return skip("meter", "rd12", &report["callback_coverage"]["absent"].to_string());
    }
    assert!(coverage["callback_bytes"].as_u64() > Some(10_000), "{coverage}");
    for past in ["in_command_bytes", "never_issued_bytes"] {
        assert_eq!(coverage[past].as_u64(), Some(0), "{coverage}");
    }
}

#[test]
fn every_line_but_notes_and_reasons_fits_120_columns() {
    let mut all =
        vec![run(&["replay", BUNDLED]), run(&["replay", "lavapipe-22.3"]), run(&["replay", "nvidia-580-h200"])];
    all.push(run(&["drive", "--rounds", "2"]));
    for done in all {
        for line in done.stdout.lines().filter(|line| !line.starts_with("note: ")) {
            assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
        }
        let named =
            |line: &str| ["command", "object", "cache", "device", "instance"].iter().all(|scope| line.contains(scope));
        let heads = done.stdout.lines().filter(|line| named(line)).count();
        assert!(heads == 2 || done.code != Some(0), "both tables name every scope\n{done}");
    }
}

#[test]
fn a_driver_is_found_by_every_name_in_any_case() {
    let Some(listed) = drivers("a_driver_is_found_by_every_name_in_any_case", "lavapipe") else {
        return;
    };
    let lavapipe = listed.iter().find(|driver| driver["id"] == "MESA_LLVMPIPE").expect("listed");
    // drivers::names has all the ways to say it.
    let names = ["LavaPipe", &lavapipe["index"].to_string()];
    for name in names {
        let done = run(&["drive", "--driver", name, "--no-coverage", "--seed", "1"]);
        done.assert_code(0);
        assert!(done.stdout.starts_with("driver: llvmpipe Mesa "), "{name:?}\n{done}");
    }
    let done = run(&["drivers"]);
    done.assert_code(0);
    assert!(done.stdout.starts_with("index") && done.stdout.contains("MESA_LLVMPIPE"), "{done}");
}

#[test]
fn an_unknown_driver_is_answered_with_the_known_ones() {
    if drivers("an_unknown_driver_is_answered_with_the_known_ones", "lavapipe").is_none() {
        return;
    }
    for name in ["no such driver", "4711", ""] {
        let done = run(&["drive", "--driver", name]);
        done.assert_code(2);
        assert!(
            done.stderr.starts_with(&format!("steward: no driver is called {name:?}; choose one of these")),
            "{done}"
        );
        assert!(done.stderr.contains("\nindex") && done.stderr.contains("llvmpipe"), "{done}");
        assert_eq!(done.stdout, "");
    }
}

#[test]
fn drive_without_any_driver_is_one_sentence() {
    for args in [&["drive"][..], &["drive", "--driver", "lavapipe"], &["drive", "--driver", "all"], &["drivers"]] {
        assert_one_sentence(&without_loader(steward(args)).run(), &["no Vulkan loader", "install"]);
        let done = without_driver(steward(args)).run();
        assert_one_sentence(&done, &["install"]);
        assert_eq!(done.stdout, "");
    }
}

#[test]
fn all_drivers_are_run_and_reported_as_a_list() {
    let Some(listed) = drivers("all_drivers_are_run_and_reported_as_a_list", "lavapipe") else {
        return;
    };
    let (done, reports) = json_of(&["drive", "--driver", "ALL", "--seed", "9", "--rounds", "2"]);
    done.assert_code(0);
    let reports = reports.as_array().expect("a list");
    assert_eq!(reports.len(), listed.len(), "{done}");
    for (report, driver) in reports.iter().zip(&listed) {
        assert_eq!((&report["source"]["name"], &report["source"]["seed"]), (&driver["driver"], &9.into()));
        assert_eq!(report["source"]["rounds"], 2);
    }
    assert_eq!(done.stdout.lines().filter(|line| line.starts_with("peak: ")).count(), listed.len(), "{done}");
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = folder.path().join("no such folder").join("report");
    for option in ["--json", "--html"] {
        for target in [nowhere.as_path(), folder.path()] {
            let done = steward(&["replay", BUNDLED, option]).args([target]).run();
            assert_one_sentence(
                &done,
                &[&target.display().to_string(), "cannot be written", "name a file in a folder"],
            );
            assert_eq!(done.stdout, "", "nothing ran");
        }
        // What only writing shows: the report is printed all the same.
        let done = steward(&["replay", BUNDLED, option, "/dev/full"]).run();
        assert_one_sentence(&done, &["/dev/full", "cannot be written"]);
        assert!(done.stdout.contains("\nleftovers: none"), "{done}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing half-written");
    }
    for file in ["-", "same.json"] {
        assert_one_sentence(
            &run(&["replay", BUNDLED, "--json", file, "--html", file]),
            &["--json and --html both name", file],
        );
    }
    for command in ["drivers", "rules", "symbols"] {
        let help = run(&[command, "--help"]);
        help.assert_code(0);
        assert!(help.stdout.contains("--json <") && !help.stdout.contains("--guard <"), "{help}");
    }
    assert!(run(&["check", "--help"]).stdout.contains("--guard <"));
    // A file that is there stays as it is until the new one is whole, and is replaced then.
    let file = folder.path().join("report.json");
    fs::write(&file, "old").expect("a file");
    steward(&["replay", "no such trace", "--json"]).args([&file]).run().assert_code(2);
    assert_eq!(fs::read_to_string(&file).expect("a file"), "old");
    steward(&["replay", BUNDLED, "--json"]).args([&file]).run().assert_code(0);
    assert!(fs::read_to_string(&file).expect("a file").starts_with("{\n  \"format\": \"steward report 4\""));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    // With `-` there is nothing but what was asked for.
    let done = run(&["replay", BUNDLED, "--json", "-"]);
    done.assert_code(0);
    assert_eq!(done.stdout, fs::read_to_string(&file).expect("a file"));
    let page = run(&["replay", BUNDLED, "--html", "-", "--json", file.to_str().expect("a plain path")]);
    page.assert_code(0);
    assert!(page.stdout.starts_with("<!doctype html>") && page.stdout.trim_end().ends_with("</html>"), "{page}");
    // Where the output itself is the file, both are there.
    let done = run(&["replay", BUNDLED, "--json", "/dev/stdout"]);
    done.assert_code(0);
    assert!(done.stdout.starts_with("trace: ") && done.stdout.ends_with("}\n"), "{done}");
}

/// As `| head` leaves it, only sooner: nobody reads from the start.
#[test]
fn an_output_that_nobody_reads_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("report.json");
    for args in [&["replay", BUNDLED][..], &["replay", "lavapipe-22.3"], &["--help"], &["drivers"], &[]] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(STEWARD);
        if args.is_empty() {
            command.arg("--json").arg(&json);
        }
        let done = command.args(args).stdout(writer).output().expect("the program starts");
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.replace(&format!("wrote {}\n", json.display()), "");
        // Without a driver there is nothing to list.
        if args == ["drivers"] && done.status.code() == Some(2) && said.contains("install") {
            continue;
        }
        assert_eq!((done.status.code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
    assert!(json.exists(), "the report's file is written all the same");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let done = Command::new(STEWARD).args(["replay", BUNDLED]).stdout(full).output().expect("the program starts");
    assert_eq!(done.status.code(), Some(2), "a full disk is an error");
    // Nobody hears the reason either.
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let done =
        Command::new(STEWARD).args(["replay", "no such trace"]).stderr(writer).output().expect("the program starts");
    assert_eq!(done.status.code(), Some(2));
}

#[test]
fn help_version_and_wrong_arguments() {
    let done = run(&["--help"]);
    done.assert_code(0);
    for part in ["drive", "replay", "drivers", "--color"] {
        assert!(done.stdout.contains(part), "{part}\n{done}");
    }
    let done = run(&["drive", "--help"]);
    for part in ["--json", "--html", "--findings", "--guard", "--color"] {
        assert!(done.stdout.contains(part), "{part}\n{done}");
    }
    let done = run(&["--version"]);
    done.assert_code(0);
    assert_eq!(done.stdout, format!("steward {}\n", env!("CARGO_PKG_VERSION")));
    for args in [&["dance"][..], &["drive", "--rounds", "many"], &["drive", "--seed", "-1"], &["replay"], &["--json"]] {
        let done = run(args);
        done.assert_code(2);
        assert!(done.stdout.is_empty() && done.stderr.starts_with("error: "), "{args:?}\n{done}");
    }
}

/// Whoever asks for help reads it without scrolling.
#[test]
fn the_help_of_each_command_fits_a_screen_and_speaks_of_that_command() {
    let own = run(&["--help"]);
    let listed = own.stdout.lines().take_while(|line| *line != "Options:");
    let commands: Vec<_> = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() >= 8, "{own}");
    let helps = commands.iter().map(|command| run(&[command, "--help"]));
    for help in helps.chain([run(&["--help"])]) {
        let lines = help.assert_code(0).stdout.lines().count();
        assert!((5..=48).contains(&lines), "{lines} lines: {help}");
        let fits = |line: &str| line.chars().count() <= 100;
        assert!(help.stdout.lines().all(fits), "{help}");
        assert!(!help.stdout.contains("Of `"), "{help}");
    }
}
