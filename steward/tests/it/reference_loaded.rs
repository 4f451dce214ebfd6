//! The reference driver as a driver: its shared library, which cargo has built for these tests, opened by the loader.
//! Skipped where there is no loader, and what needs `vulkaninfo` without it.

#[path = "../support/manifest.rs"]
pub(crate) mod manifest;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use fake_driver::{Defect, PLANTABLE};
use serde_json::{Value, json as value};
use testkit::{Child, Finished, skip};
use vk_callbacks::check::{FindingKind, RuleLevel};

use manifest::Manifest;

use crate::observers_agree::plain_workload_on;
use crate::run::{STEWARD, is_program, json, steward};

impl Manifest {
    /// `steward COMMAND --driver MANIFEST`, once the loader is there.
    fn steward(&self, command: &str) -> Child {
        steward(&[command, "--driver"])
            .args([&self.path])
            .env_remove("VK_LOADER_DRIVERS_SELECT")
            .env_remove("VK_ADD_DRIVER_FILES")
    }

    /// The list of this driver and another with that library.
    fn and_another(&self, name: &str, library: &Path) -> OsString {
        let other = self.path.with_file_name(name);
        let icd = value!({ "library_path": library, "api_version": "1.1.0" });
        let text = value!({ "file_format_version": "1.0.0", "ICD": icd });
        fs::write(&other, text.to_string()).expect("room");
        std::env::join_paths([&self.path, &other]).expect("no colons")
    }

    /// Any program that asks the loader for drivers, and finds this one.
    fn program(&self, program: &str) -> Child {
        Child::new(program)
            .env("VK_DRIVER_FILES", &self.path)
            .env("VK_ICD_FILENAMES", &self.path)
            .env_remove("VK_LOADER_DRIVERS_SELECT")
            .env_remove("VK_ADD_DRIVER_FILES")
            .env_remove("VK_INSTANCE_LAYERS")
    }
}

/// Whether there is a loader that opens the driver.
fn is_loader_there(test: &str, manifest: &Manifest) -> bool {
    let done = manifest.steward("check").run();
    if done.stderr.contains("there is no Vulkan loader") {
        skip("loader", test, done.stderr.lines().next().unwrap_or_default());
        return false;
    }
    true
}

/// Rules and kinds of what was found that is not expected, and of notes. What a bridge counts by itself has no kind.
fn found(data: &Value) -> BTreeSet<(String, String)> {
    let list = |name: &str| data[name].as_array().expect("a list").clone();
    let differences = list("differences").into_iter().map(|each| each["finding"].clone());
    let rows = differences.chain(list("notes")).filter(|row| row.is_object());
    let text = |row: &Value, name: &str| row[name].as_str().expect("text").to_owned();
    rows.map(|row| (text(&row, "rule"), text(&row, "kind"))).filter(|(_, kind)| !kind.is_empty()).collect()
}

/// What the driver does at the end of a thread that is not the workload's one: a program with a second thread shows it.
fn is_between_commands(defect: Defect) -> bool {
    let between = [Defect::NotifiedBetweenCommands, Defect::AskedBetweenCommands, Defect::FreedBetweenCommands];
    between.contains(&defect)
}

/// What names the defect that is planted.
fn variable() -> &'static str {
    fake_driver::VARIABLE.to_str().expect("plain")
}

fn rules(kind: FindingKind) -> Vec<String> {
    kind.rules().iter().map(|rule| format!("V{rule}")).collect()
}

/// `steward run` of a program with a second thread, on a driver with the defect.
fn planted_in_threads(manifest: &Manifest, client: &Path, defect: Defect) -> Result<(), String> {
    let file = manifest.path.with_file_name(format!("{defect}.json"));
    let done = steward(&["run", "--exit-code", "--json"])
        .args([&file, Path::new("--"), client, Path::new("second-thread")])
        .env_remove("VK_LOADER_DRIVERS_SELECT")
        .env_remove("VK_ADD_DRIVER_FILES")
        .env("VK_DRIVER_FILES", &manifest.path)
        .env("VK_ICD_FILENAMES", &manifest.path)
        .env(variable(), defect.to_string())
        .run();
    let report = fs::read(&file).ok();
    let report: Option<Value> = report.and_then(|text| serde_json::from_slice(&text).ok());
    let rows = report.as_ref().and_then(|it| it["findings"].as_array());
    // What the driver takes in a command to free it later is a note.
    let rows = rows.into_iter().flatten();
    let found: Vec<_> = rows.filter(|row| row["level"] != "note").collect();
    let is_it = |row: &Value| {
        row["kind"] == defect.finding().name() && row["sentence"].to_string().contains(", between commands")
    };
    match &found[..] {
        [row] if is_it(row) && done.code == Some(1) => Ok(()),
        _ => Err(format!("{defect}: not that alone: {found:?}: {done}")),
    }
}

/// `steward check` on a driver with the defect: a wrong answer says which.
fn planted(manifest: &Manifest, client: Option<&Path>, defect: Defect) -> Result<(), String> {
    if is_between_commands(defect) {
        return client.map_or(Ok(()), |client| planted_in_threads(manifest, client, defect));
    }
    let file = manifest.path.with_file_name(format!("{defect}.json"));
    let done = manifest
        .steward("check")
        .args(["--rounds", "1", "--json"])
        .args([&file])
        .env(variable(), defect.to_string())
        .run();
    let kind = defect.finding();
    let wrong = |what: &str| Err(format!("{defect}: {what}: {done}"));
    let Ok(text) = fs::read(&file) else {
        return wrong("nothing was written");
    };
    let data: Value = serde_json::from_slice(&text).expect("JSON");
    let faults: Vec<_> =
        data["faults"].as_array().expect("a list").iter().map(|fault| fault.as_str().unwrap_or_default()).collect();
    let code = if kind.level() == RuleLevel::Note { 0 } else { 1 };
    if done.code != Some(code) {
        return wrong("another exit");
    }
    let found: Vec<_> = found(&data).into_iter().collect();
    match &found[..] {
        [(rule, found)] if *found == kind.name() && rules(kind).contains(rule) && faults.is_empty() => Ok(()),
        _ => wrong("not that alone"),
    }
}

/// The table defect -> rule, through the real loader: each defect is found as its own kind, and as no other. Two at a
/// time: a process each.
#[test]
fn rd15_the_checker_finds_each_planted_defect_through_the_loader_and_no_other() {
    let manifest = Manifest::new();
    if !is_loader_there("rd15", &manifest) {
        return;
    }
    assert!(PLANTABLE.len() >= 40);
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vk-layer/tests/client.c");
    let client = testkit::compile_c(&client, Path::new(env!("CARGO_TARGET_TMPDIR")));
    if client.is_none() {
        skip("cc", "rd15, defects between commands", "there is no compiler for C");
    }
    let next = AtomicUsize::new(0);
    let lane = || {
        let next_one = || PLANTABLE.get(next.fetch_add(1, Relaxed));
        let wrong =
            std::iter::from_fn(next_one).filter_map(|defect| planted(&manifest, client.as_deref(), *defect).err());
        wrong.collect::<Vec<_>>()
    };
    let wrong = std::thread::scope(|threads| {
        let other = threads.spawn(lane);
        [lane(), other.join().expect("no panic")].concat()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without a defect nothing is found but what the loader does: alone, without the loader, and below Steward's layer.
#[test]
fn rd13_rd15_the_correct_driver_is_without_a_finding_also_below_the_layer() {
    let manifest = Manifest::new();
    if !is_loader_there("rd13", &manifest) {
        return;
    }
    let file = manifest.path.with_file_name("check.json");
    for options in [&["--direct"][..], &[]] {
        let done = manifest.steward("check").args(options).args(["--json"]).args([&file]).run();
        done.assert_code(0);
        let data = json(&file);
        assert_eq!((found(&data), &data["faults"]), (BTreeSet::new(), &Value::Array(Vec::new())), "{done}");
        let of_loader = |known: &Value| known["finding"]["owner"] == "VkInstance";
        let expected = data["expected"].as_array().expect("a list");
        assert!(expected.iter().all(of_loader) && (options.is_empty() || expected.is_empty()), "{data}");
    }
    let drivers = manifest.program(STEWARD).args(["drivers", "--json", "-"]).run();
    let drivers: Value = serde_json::from_str(&drivers.stdout).expect("JSON");
    let done =
        manifest.program(STEWARD).args(["run", "--json"]).args([&file]).args(plain_workload_on(&drivers[0])).run();
    done.assert_code(0);
    let report = json(&file);
    let kinds = report["program"]["instances"][0]["devices"][0]["kinds"].as_array().expect("rows").len();
    assert!(kinds > 15, "{report}");
    // With the layer between, the loader's list is the layer's finding too.
    let findings = report["findings"].as_array().expect("rows");
    let of_loader =
        |row: &Value| row["rule"] == "V28" && row["command"] == "vkCreateDevice" && row["scope"] == "command";
    assert!(findings.iter().all(of_loader), "{findings:?}");
    assert!(report["leftovers"].as_array().is_none_or(Vec::is_empty), "{report}");
}

/// Also the whole list, with every limit and format.
#[test]
fn rd4_vulkaninfo_and_its_summary_end_well() {
    let manifest = Manifest::new();
    if !is_program("vulkaninfo") {
        return skip("vulkaninfo", "rd4", "there is no vulkaninfo");
    }
    if !is_loader_there("rd4", &manifest) {
        return;
    }
    let run = |arguments: &[&str]| -> Finished { manifest.program("vulkaninfo").args(arguments).run() };
    for (arguments, says) in [(&["--summary"][..], "deviceName"), (&[], "maxImageDimension2D")] {
        let done = run(arguments);
        done.assert_code(0);
        for text in ["Steward reference device", says] {
            assert!(done.stdout.contains(text), "{text}: {done}");
        }
    }
}
/// The dynamic linker's share of a loaded library included.
#[test]
fn rd12_not_a_byte_of_the_loaded_library_goes_past_the_callbacks() {
    let manifest = Manifest::new();
    if !is_loader_there("rd12", &manifest) {
        return;
    }
    let file = manifest.path.with_file_name("report.json");
    let done = manifest.steward("drive").args(["--json"]).args([&file]).run();
    done.assert_code(0);
    let report = json(&file);
    let coverage = &report["callback_coverage"]["without_loader"];
    if coverage.is_null() {
        return skip("meter", "rd12", &report["callback_coverage"]["absent"].to_string());
    }
    assert!(coverage["callback_bytes"].as_u64() > Some(10_000), "{coverage}");
    for past in ["in_command_bytes", "never_issued_bytes"] {
        assert_eq!(coverage[past].as_u64(), Some(0), "{coverage}");
    }
}

/// A driver that leaves a block; one that leaves none; and without the option nothing fails.
#[test]
fn a_leftover_fails_a_run_that_asks_for_an_exit_code() {
    let manifest = Manifest::new();
    if !is_loader_there("a_leftover_fails_a_run_that_asks_for_an_exit_code", &manifest) {
        return;
    }
    let variable = variable();
    let run = |options: &[&str], defect: Option<Defect>| {
        let child = manifest.steward("drive").args(["--no-coverage"]).args(options);
        let child = defect.into_iter().fold(child, |child, defect| child.env(variable, defect.to_string()));
        child.run()
    };
    let leaves = Some(Defect::LiveAfterDestroy);
    let done = run(&["--exit-code"], leaves);
    done.assert_code(1);
    assert!(
        done.stdout.contains(
            "\nleftovers, never freed:\n  VkDescriptorUpdateTemplate: 1 block, 64 requested bytes (64 of scope object)\n"
        ),
        "{done}"
    );
    run(&[], leaves).assert_code(0);
    // A finding that is not known of the driver, which leaves nothing.
    let breaks = Some(Defect::CacheAsObject);
    let broken = run(&["--exit-code"], breaks);
    broken.assert_code(1);
    assert!(broken.stdout.contains("\nleftovers: none"), "{broken}");
    run(&[], breaks).assert_code(0);
    let clean = run(&["--exit-code"], None);
    clean.assert_code(0);
    assert!(clean.stdout.contains("\nleftovers: none"), "{clean}");
    // Of several drivers one is enough, and the other is still reported.
    let all = manifest.program(env!("CARGO_BIN_EXE_steward"));
    let all = all.args(["drive", "--driver", "all", "--no-coverage", "--exit-code"]);
    all.env(variable, Defect::LiveAfterDestroy.to_string()).run().assert_code(1);
}

/// A driver that is installed and shows no device is not an unknown name.
#[test]
fn rd15_an_installed_driver_without_a_device_is_named_as_such() {
    let manifest = Manifest::new();
    if !is_loader_there("rd15", &manifest) {
        return;
    }
    let library = Path::new("/nowhere/libvulkan_radeon.so");
    let both = manifest.and_another("radeon_icd.x86_64.json", library);
    for name in ["radv", "RADV", "MESA_RADV", "radeon_icd", "anv"] {
        let done = steward(&["check", "--driver", name])
            .env_remove("VK_LOADER_DRIVERS_SELECT")
            .env_remove("VK_ADD_DRIVER_FILES")
            .env("VK_DRIVER_FILES", &both)
            .env("VK_ICD_FILENAMES", &both)
            .run();
        done.assert_code(2);
        let known = format!("{name:?} is installed (radeon_icd.x86_64), and shows no device: ");
        let said = match name {
            "anv" => "no driver is called \"anv\"",
            _ => &known,
        };
        assert!(done.stderr.contains(said), "{done}");
    }
}

/// As the one who writes the driver does it: beside the manifest, its bare name, and once the library instead.
#[test]
fn a_driver_by_its_path_without_a_device_is_said_to_have_none() {
    let test = "a_driver_by_its_path_without_a_device_is_said_to_have_none";
    let manifest = Manifest::new();
    if !is_loader_there(test, &manifest) {
        return;
    }
    let library = Path::new("/nowhere/libvulkan_mine.so");
    manifest.and_another("mine.json", library);
    let folder = manifest.path.parent().expect("a folder");
    fs::write(folder.join("mine.so"), b"\x7fELF").expect("room");
    for (name, said) in [
        ("mine.json", "the driver of mine.json shows no device (ERROR_"),
        ("./mine.json", "the driver of ./mine.json shows no device (ERROR_"),
        ("none.json", "no driver is called \"none.json\""),
        ("./mine.so", "name the JSON file that has the driver's library_path"),
    ] {
        let done = Command::new(env!("CARGO_BIN_EXE_steward"))
            .args(["check", "--driver", name])
            .current_dir(folder)
            .env_remove("VK_ADD_DRIVER_FILES")
            .env("VK_DRIVER_FILES", &manifest.path)
            .env("VK_ICD_FILENAMES", &manifest.path)
            .output()
            .expect("it is there");
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(text.contains(said), "{text}");
        assert!(!text.contains("install a driver"), "{text}");
    }
}

/// Opened by the program itself, it would take the other drivers' reports with it.
#[test]
fn a_driver_that_crashes_as_it_is_opened_takes_no_other_with_it() {
    let test = "a_driver_that_crashes_as_it_is_opened_takes_no_other_with_it";
    let manifest = Manifest::new();
    if !is_loader_there(test, &manifest) {
        return;
    }
    let source = manifest.path.with_file_name("crashes.c");
    let code = "#include <stdlib.h>\n__attribute__((constructor)) static void begin(void) { abort(); }\n";
    fs::write(&source, code).expect("room");
    let folder = source.parent().expect("a folder");
    let Some(library) = testkit::compile_c_library(&source, folder) else {
        return skip("cc", test, "no cc");
    };
    let both = manifest.and_another("crashes_icd.json", &library);
    let run = |options: &[&str]| {
        let done = steward(options)
            .env_remove("VK_LOADER_DRIVERS_SELECT")
            .env_remove("VK_ADD_DRIVER_FILES")
            .env("VK_DRIVER_FILES", &both)
            .env("VK_ICD_FILENAMES", &both)
            .run();
        done.assert_code(0);
        done
    };
    let listed = run(&["drivers"]);
    assert!(listed.stdout.contains("reference"), "{listed}");
    let checked = run(&["check", "--driver", "all", "--direct"]);
    let crashed = "crashes_icd.json shows no device: its process crashed (SIGABRT)";
    assert!(checked.stdout.contains(crashed), "{checked}");
    assert!(checked.stdout.contains("as expected"), "{checked}");
}

/// The library of a driver that hands on to `manifest`'s, and runs `begin` as it is opened and `end` as its process
/// ends. None without `cc`.
fn forwarding_driver(manifest: &Manifest, name: &str, begin: &str, end: &str) -> Option<PathBuf> {
    let text = fs::read_to_string(&manifest.path).expect("written");
    let text: Value = serde_json::from_str(&text).expect("JSON");
    let driver = text["ICD"]["library_path"].as_str().expect("a path");
    let source = manifest.path.with_file_name(name).with_extension("c");
    let code = format!(
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n\
         static void *of(const char *name) {{ return dlsym(dlopen(\"{driver}\", RTLD_NOW), name); }}\n\
         __attribute__((constructor)) static void begin(void) {{ {begin} }}\n\
         __attribute__((destructor)) static void end(void) {{ {end} }}\n\
         int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version);\n\
         int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) {{\n\
           return ((int (*)(unsigned *))of(__func__))(version);\n\
         }}\n\
         void *vk_icdGetInstanceProcAddr(void *instance, const char *name);\n\
         void *vk_icdGetInstanceProcAddr(void *instance, const char *name) {{\n\
           return ((void *(*)(void *, const char *))of(__func__))(instance, name);\n\
         }}\n"
    );
    fs::write(&source, code).expect("room");
    testkit::compile_c_library(&source, source.parent().expect("a folder"))
}

/// `steward drivers` over the manifests of `list`.
fn listed(list: &OsStr) -> Finished {
    steward(&["drivers"])
        .env_remove("VK_LOADER_DRIVERS_SELECT")
        .env_remove("VK_ADD_DRIVER_FILES")
        .env("VK_DRIVER_FILES", list)
        .env("VK_ICD_FILENAMES", list)
        .run()
}

/// What it prints stays in the C library's buffer until its process ends, behind the answer.
#[test]
fn a_driver_that_prints_is_listed_all_the_same() {
    let test = "a_driver_that_prints_is_listed_all_the_same";
    let manifest = Manifest::new();
    if !is_loader_there(test, &manifest) {
        return;
    }
    let begin = "puts(\"first\"); printf(\"no end\");";
    let Some(library) = forwarding_driver(&manifest, "prints", begin, "puts(\"last\");") else {
        return skip("cc", test, "no cc");
    };
    let listed = listed(&manifest.and_another("prints_icd.json", &library));
    listed.assert_code(0);
    assert!(listed.stdout.contains("prints_icd"), "{listed}");
    assert!(!listed.to_string().contains("shows no device"), "{listed}");
}

/// It prints more than a pipe holds, and the driver in front of it waits until it has: answers are read from all
/// drivers at once.
#[test]
fn a_driver_that_prints_much_waits_for_no_other() {
    let test = "a_driver_that_prints_much_waits_for_no_other";
    let manifest = Manifest::new();
    if !is_loader_there(test, &manifest) {
        return;
    }
    let printed = manifest.path.with_file_name("printed");
    let waits = format!("while (access(\"{0}\", F_OK)) usleep(1000);", printed.display());
    let prints = format!(
        "for (int i = 0; i < 40000; i++) puts(\"words\"); fflush(stdout); fclose(fopen(\"{}\", \"w\"));",
        printed.display()
    );
    let drivers = [("waits", &waits), ("prints", &prints)];
    let libraries = drivers.map(|(name, begin)| forwarding_driver(&manifest, name, begin, ""));
    let [Some(waits), Some(prints)] = libraries else {
        return skip("cc", test, "no cc");
    };
    manifest.and_another("waits_icd.json", &waits);
    manifest.and_another("prints_icd.json", &prints);
    let files = ["waits_icd.json", "prints_icd.json"].map(|it| manifest.path.with_file_name(it));
    let listed = listed(&std::env::join_paths(files).expect("no colons"));
    listed.assert_code(0);
    for name in ["waits_icd", "prints_icd"] {
        assert!(listed.stdout.contains(name), "{listed}");
    }
    assert!(!listed.to_string().contains("shows no device"), "{listed}");
}

/// Where a manifest is, is bytes.
#[test]
fn rd15_a_manifest_whose_path_is_no_text_is_driven() {
    use std::os::unix::ffi::OsStrExt as _;

    let manifest = Manifest::new();
    if !is_loader_there("rd15", &manifest) {
        return;
    }
    let odd = OsStr::from_bytes(b"no\xfftext_icd.json");
    let odd = manifest.path.with_file_name(odd);
    fs::copy(&manifest.path, &odd).expect("room");
    // The loader does what is not expected, as for the other name.
    for (command, code) in [("drive", 0), ("check", 1)] {
        let done = steward(&[command])
            .env_remove("VK_LOADER_DRIVERS_SELECT")
            .env_remove("VK_ADD_DRIVER_FILES")
            .env("VK_DRIVER_FILES", &odd)
            .env("VK_ICD_FILENAMES", &odd)
            .run();
        done.assert_code(code);
        assert!(done.stdout.contains("no\u{fffd}text_icd"), "{done}");
    }
}

#[test]
fn drivers_are_listed_where_no_file_may_grow() {
    let manifest = Manifest::new();
    if !is_loader_there("drivers", &manifest) {
        return;
    }
    let listed = |limit: &str| {
        let script = format!("ulimit -f {limit}; exec \"$1\" drivers");
        let done = manifest.program("sh").args(["-c", &script, "sh", STEWARD]).run();
        done.assert_code(0);
        (done.stdout, done.stderr)
    };
    assert_eq!(listed("0"), listed("unlimited"));
}
