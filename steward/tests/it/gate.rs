//! What fails a run: leaks and unknown findings where an exit code is asked for, and everything that tested nothing.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Finished, compile_c, skip};

use crate::ended::client;
use crate::observers_agree::{is_lavapipe_there, plain_workload};
use crate::run::{json, steward};
use crate::support::parts::text_of;

/// `steward run OPTIONS CLIENT MODE`.
fn run(options: &[&str], client: &Path, mode: &str) -> Finished {
    steward(&["run"]).args(options).args([client.as_os_str(), mode.as_ref()]).run()
}

/// A layer of another version may lie where this one is looked for.
#[test]
fn a_report_of_another_format_fails_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = folder.path().join("good.json");
    let replayed = steward(&["replay", "lavapipe-workload", "--json"]).args([&good]).run();
    assert!(replayed.code == Some(0), "{}", replayed.stderr);
    let write = "d=${VK_STEWARD_MEMORY_JSON%/*}; cp \"$1\" \"$d/1.json\"; \
                 sed \"s/steward report [0-9]*/steward report $2/\" \"$1\" > \"$d/2.json\"";
    let run = |options: &[&str], format: &str| {
        let program = ["sh", "-c", write, "sh"].map(Path::new);
        steward(&["run"]).args(options).args(program).args([&good, Path::new(format)]).run()
    };
    let gate = ["--exit-code", "--no-check"];
    let same = run(&gate, "4");
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    let expect = folder.path().join("expect.toml");
    let write_expect = format!("--write-expect={}", expect.display());
    let gates = [&gate[..], &["--exit-code"], &["--expect=lavapipe-22.3"], &[&write_expect]];
    for options in gates {
        let other = run(options, "3");
        assert_eq!(other.code, Some(1), "{options:?}: {}", other.stderr);
        let said = "a report cannot be read (\"steward report 3\" instead of \"steward report 4\")";
        let times = other.stderr.matches(said).count();
        assert_eq!(times, 1, "{options:?}: {}", other.stderr);
    }
    // Without a gate it is said, and the exit code is the program's.
    let ungated = run(&[], "3").assert_code(0).stderr.clone();
    assert_eq!(ungated.matches("a report cannot be read").count(), 1);
}

#[test]
fn what_tested_nothing_is_not_green() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let head = "# steward host trace 2\n# driver: x\nz,2\n";
    let [empty, no_calls, none, failed] = [
        file("empty.trace", ""),
        file("head.trace", head),
        file("none.json", "[]"),
        file("failed.json", "[{\"format\": \"steward report 4\", \"driver\": \"d\", \"error\": \"it crashed\"}]"),
    ];
    // The other word size of this machine: the layer cannot be loaded.
    let executable = |name: &str, text: &[u8]| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its owner");
        path.display().to_string()
    };
    let elf = {
        let mut elf = [0_u8; 64];
        elf[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        (elf[16], elf[18]) = (2, 3);
        executable("other", &elf)
    };
    let [plain, odd] =
        [("plain", "exit 0\n"), ("odd", "#!/nonexistent\n")].map(|(name, text)| executable(name, text.as_bytes()));
    let cases: &[(&[&str], i32, &str)] = &[
        (&["run", "--fail=each", "true"], 1, "nothing was tested: no report: true created no instance"),
        (&["run", "--fail=each", "sh", "-c", "exit 3"], 1, "nothing was tested: no report: sh created"),
        (&["run", "--fail=each", "--time-limit", "0", "sleep", "9"], 1, "time limit"),
        (&["run", "--fail=each", &elf], 126, "cannot be run"),
        (
            &["run", "./no\u{1b}[2J"],
            127,
            "steward: ./no [2J cannot be run (No such file or directory (os error 2)): give its path",
        ),
        (&["run", "/"], 126, "chmod +x"),
        (&["run", &plain], 126, "begin with `#!`"),
        (&["run", &odd], 127, "it is there, but not the interpreter"),
        (&["run", "--fail=nth=0", "true"], 1, "met the plan nth=0"),
        (&["run", "--guard=strict", "true"], 1, "guarded no block, so nothing was tested"),
        (&["run", "--guard=sampled", "true"], 1, "guarded no block"),
        (&["run", "--exit-code", "true"], 1, "no report came, so nothing was tested"),
        (&["run", "--expect", "lavapipe-22.3", "true"], 1, "no report came, so nothing was compared"),
        (&["run", "--write-expect", "/dev/null", "true"], 1, "was not written: no report came"),
        (&["run", "--fail=each=0", "true"], 2, "1 or more"),
        (&["drive", "--rounds", "0"], 2, "from 1 to"),
        (&["check", "--rounds", "0"], 2, "from 1 to"),
        (&["check", "--trace", &empty], 2, "this is no host trace"),
        (&["check", "--trace", &no_calls], 2, "holds no call"),
        (&["replay", &no_calls], 2, "holds no call"),
        (&["diff", &none, &none, "--exit-code"], 2, "neither file holds a report"),
        (&["diff", &none, &failed], 2, "neither file holds a report"),
        (&["diff", &failed, &failed, "--exit-code"], 2, "neither file holds a report"),
    ];
    for (arguments, code, said) in cases {
        let done = steward(arguments).run();
        done.assert_code(*code);
        let text = format!("{}{}", done.stdout, done.stderr);
        assert!(text.contains(said), "{arguments:?}: {done}");
    }
    // Without any of these options a program without Vulkan is run, and that is all.
    steward(&["run", "true"]).run().assert_code(0);
}

#[test]
fn a_sweep_writes_its_table_to_the_named_file_in_columns() {
    let Some(client) = client("a_sweep_writes_its_table_to_the_named_file_in_columns") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("table.txt");
    let option = format!("--text={}", file.display());
    let done = run(&["--fail=each=3", &option], &client, "plain");
    done.assert_code(0);
    let table = fs::read_to_string(&file).expect("a table");
    assert!(done.stdout.is_empty() && table.contains("3 runs, in each of which"), "{done}\n{table}");
    let mut rows = table.lines().take(4);
    let head = rows.next().expect("a head");
    let columns: Vec<_> = ["command", "of", "scope", "bytes", "ended"]
        .map(|name| head.find(&format!("  {name}")).expect(name) + 2)
        .into();
    for row in rows {
        for at in &columns {
            assert!(row[..*at].ends_with("  ") && !row[*at..].starts_with(' '), "{table}");
        }
    }
}

#[test]
fn an_exit_code_is_asked_for_and_a_leak_fails() {
    let Some(client) = client("an_exit_code_is_asked_for_and_a_leak_fails") else {
        return;
    };
    for (options, mode, code, said) in [
        (&["--exit-code"][..], "plain", 0, ""),
        (&["--exit-code", "--no-check"], "plain", 0, ""),
        (&["--exit-code", "--stacks"], "leave", 1, "never destroyed: 3 VkBuffer, 1 VkDevice, 1 VkInstance"),
        (&["--exit-code", "--no-check"], "leave", 1, "never destroyed: 3 VkBuffer, 1 VkDevice, 1 VkInstance"),
        (&[], "leave", 0, ""),
        // The program's own code stays, and the reason is said all the same.
        (&["--exit-code"], "_exit", 3, "and nothing was judged"),
        (&["--exit-code"], "abort", 134, "ended by SIGABRT"),
    ] {
        let done = run(options, &client, mode);
        done.assert_code(code);
        assert_eq!(done.stderr.contains("steward: --exit-code: "), !said.is_empty(), "{options:?} {mode}: {done}");
        assert!(done.stderr.contains(said), "{options:?} {mode}: {done}");
    }
}

#[test]
fn what_is_known_of_the_driver_is_not_the_programs_fault() {
    let test = "what_is_known_of_the_driver_is_not_the_programs_fault";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [report, page, none, written] =
        ["r.json", "r.html", "none.toml", "w.toml"].map(|name| folder.path().join(name));
    // lavapipe breaks rules, and the workload shows many of them.
    let program = |options: &[&str], files: &[(&str, &Path)]| {
        let mut child = steward(&["run"]).args(options);
        for (option, file) in files {
            child = child.args([Path::new(option), file]);
        }
        child.args(plain_workload()).run()
    };
    let done = program(&["--exit-code"], &[("--json", &report), ("--html", &page)]);
    done.assert_code(0);
    let line = done.stderr.lines().find(|line| line.starts_with("findings: ")).expect("findings");
    assert!(line.contains(" known of lavapipe 22.3, the driver's and not your program's"), "{line}");
    assert!(!done.stderr.contains("\n  violation"), "{done}");
    let read = json(&report);
    let known = &read["known_findings"];
    assert_eq!((&known["expectations"], &known["unknown"]), (&Value::from("lavapipe-22.3"), &Value::from(0)));
    assert!(known["known"].as_u64() > Some(3), "{known}");
    assert_eq!(
        read["source"]["drivers"][0].as_str().map(|name| name.starts_with("llvmpipe Mesa 22.3")),
        Some(true),
        "{read}"
    );
    let page = text_of(&fs::read_to_string(&page).expect("a page"));
    assert!(page.contains("All are known of lavapipe-22.3."), "{page}");
    let all = program(&["--findings"], &[]);
    assert!(all.stderr.contains(" known of the driver: lvp_"), "{all}");

    // What is not known fails, and can be written down.
    fs::write(&none, "driver = \"*\"\n").expect("a file");
    let unknown = program(&["--exit-code"], &[("--expect", &none)]);
    unknown.assert_code(1);
    assert!(
        unknown.stderr.contains("steward: not expected: V") && unknown.stderr.contains("\n  violation V"),
        "{unknown}"
    );
    program(&[], &[("--write-expect", &written)]).assert_code(0);
    let text = fs::read_to_string(&written).expect("expectations");
    assert!(text.contains("driver = \"llvmpipe Mesa 22.3") && text.contains("cause = \"lvp_"), "{text}");
    let own = folder.path().join("own.html");
    program(&["--exit-code"], &[("--expect", &written), ("--html", &own)]).assert_code(0);
    let own = text_of(&fs::read_to_string(&own).expect("a page"));
    assert!(own.contains(&format!("All are known of {}.", written.display())), "{own}");
    // Nothing in it is required, of another program either.
    if let Some(client) = client(test) {
        let option = format!("--expect={}", written.display());
        run(&["--exit-code", &option], &client, "plain").assert_code(0);
    }
    // Another kind of file is not overwritten.
    let source = folder.path().join("leaks.cpp");
    fs::write(&source, "int main() {}\n").expect("a file");
    let refused = program(&[], &[("--write-expect", &source)]);
    refused.assert_code(2);
    assert_eq!(fs::read_to_string(&source).expect("the file"), "int main() {}\n");
}

#[test]
fn ly84_a_run_is_recorded_and_its_trace_is_judged_as_the_run_was() {
    let test = "ly84_a_run_is_recorded_and_its_trace_is_judged_as_the_run_was";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [trace, live, judged] = ["t.trace.gz", "live.json", "judged.json"].map(|name| folder.path().join(name));
    let options = [Path::new("--record"), &trace, Path::new("--json"), &live];
    let done = steward(&["run"]).args(options).args(plain_workload()).run();
    done.assert_code(0);
    let done = steward(&["replay"]).args([trace.as_os_str(), "--json".as_ref(), judged.as_os_str()]).run();
    assert!(done.assert_code(0).stdout.contains("recorded on: llvmpipe Mesa "), "{done}");
    let findings = |file: &Path| {
        let report = json(file);
        let rows = report["findings"].as_array().expect("a list").clone();
        let key = |row: &Value| {
            ["rule", "kind", "owner", "command", "scope", "count"].map(|name| row[name].to_string()).to_vec()
        };
        let mut keys: Vec<_> = rows.iter().map(key).collect();
        keys.sort();
        keys
    };
    // Of a thread of lavapipe's that frees, whether a command runs meanwhile may change between the call and its line.
    let rows = |file: &Path| {
        let mut rows = findings(file);
        for row in &mut rows {
            if row[1] == "\"FreedOnForeignThread\"" {
                row[0].clear();
            }
        }
        rows.sort();
        rows
    };
    assert!(rows(&live).len() > 5);
    assert_eq!(rows(&judged), rows(&live));
    // Without a checker a trace has all commands too, and its judge says the same of another run, but for what
    // lavapipe's threads free: which of them has the last reference is chance.
    let places = |file: &Path| {
        let mut rows = findings(file);
        rows.retain(|row| row[1] != "\"FreedOnForeignThread\"");
        rows.iter_mut().for_each(|row| {
            row.remove(0);
        });
        rows.sort();
        rows
    };
    steward(&["run", "--no-check"]).args([Path::new("--record"), &trace]).args(plain_workload()).run().assert_code(0);
    steward(&["replay"]).args([trace.as_os_str(), "--json".as_ref(), judged.as_os_str()]).run().assert_code(0);
    assert_eq!(places(&judged), places(&live));
    let none = steward(&["run", "--record"]).args([trace.as_os_str(), "true".as_ref()]).run();
    assert!(none.assert_code(1).stderr.contains("no trace was written"), "{none}");
}

#[test]
fn a_fresh_list_of_a_check_is_enough_for_a_program() {
    let test = "a_fresh_list_of_a_check_is_enough_for_a_program";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fresh.toml");
    let check = steward(&["check", "--driver", "lavapipe", "--write-expect"]).args([&file]).run();
    check.assert_code(0);
    let fresh = vk_steward::expectations::Expectations::parse(&fs::read_to_string(&file).expect("a file"))
        .expect("expectations");
    let bundled = vk_steward::expectations::named("lavapipe-22.3").expect("it is bundled");
    let bundled = vk_steward::expectations::Expectations::parse(bundled.text).expect("expectations");
    for one in bundled.findings.iter().filter(|one| one.sometimes) {
        let is_there = fresh
            .findings
            .iter()
            .any(|other| (&other.kind, &other.owner, &other.command) == (&one.kind, &one.owner, &one.command));
        assert!(is_there, "{one} may come in a program, and is not in the fresh list");
    }
    // And what the workload shows is required of the workload alone.
    if let Some(client) = client(test) {
        let option = format!("--expect={}", file.display());
        run(&["--exit-code", &option], &client, "plain").assert_code(0);
    }
}

#[test]
fn json_to_the_standard_output_is_all_that_is_there() {
    let Some(client) = client("json_to_the_standard_output_is_all_that_is_there") else {
        return;
    };
    let done = steward(&["run", "--json", "-", "sh", "-c", "echo mine; \"$0\" plain"]).args([&client]).run();
    done.assert_code(0);
    let report: Value = serde_json::from_str(&done.stdout).expect("JSON alone");
    assert_eq!(report["source"]["kind"], "program");
    assert_eq!(done.stderr, "mine\n", "no text of the report");
    let none = steward(&["run", "--json", "-", "echo", "mine"]).run();
    assert_eq!((none.stdout.trim(), none.stderr.lines().next()), ("[]", Some("mine")));
    let page = steward(&["run", "--html", "-"]).args([client.as_os_str(), "plain".as_ref()]).run();
    assert!(page.stdout.starts_with("<!doctype html>") && page.stderr.is_empty(), "{page}");
    // An older report does not pass for this run's.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("r.json");
    fs::write(&file, "{}").expect("a file");
    steward(&["run", "--json"]).args([&file]).args(["true"]).run().assert_code(0);
    assert_eq!(json(&file), serde_json::json!([]));
    // A file for the result leaves the program its output.
    let own = steward(&["run", "--json"]).args([&file]).args(["echo", "mine"]).run();
    assert_eq!(own.stdout, "mine\n");
}

#[test]
fn a_manifest_that_fits_nothing_and_a_full_disk_are_said_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = folder.path().join("own_icd.x86_64.json");
    let text =
        "{\"file_format_version\": \"1.0.0\", \"ICD\": {\"library_path\": \"libnone.so\", \"api_version\": \"1.1.0\"}}";
    fs::write(&manifest, text).expect("a manifest");
    let driver = |name: &str| {
        let done = steward(&["run", "--driver", name, "sh", "-c", "echo $VK_LOADER_DRIVERS_SELECT"]);
        done.env("VK_DRIVER_FILES", &manifest).run()
    };
    let none = driver("foo*");
    none.assert_code(2);
    assert!(none.stderr.contains("no manifest of a driver fits --driver \"foo*\": there are own_icd.x86_64"), "{none}");
    assert_eq!(driver("own*").stdout, "own*\n");
    assert_eq!(driver("own_icd").stdout, "own_icd.x86_64.json\n");

    let full = steward(&["run", "--write-expect", "/dev/full/x", "true"]).run();
    full.assert_code(2);
    if Path::new("/dev/full").exists() {
        let full = steward(&["rules", "--json", "/dev/full"]).run();
        full.assert_code(2);
        assert!(full.stderr.contains("free some space, or name a file on another disk"), "{full}");
    }
}

#[test]
fn the_meter_is_not_loaded_where_it_cannot_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("checked.c");
    fs::write(&source, "int main(void) { return 7; }\n").expect("a file");
    let program = folder.path().join("checked");
    let built =
        std::process::Command::new("cc").arg("-fsanitize=address").arg(&source).arg("-o").arg(&program).output();
    if !built.is_ok_and(|built| built.status.success()) {
        return skip("asan", "the_meter_is_not_loaded_where_it_cannot_work", "no compiler with AddressSanitizer");
    }
    let done = steward(&["run", "--meter"]).args([&program]).run();
    done.assert_code(7);
    assert!(done.stderr.contains("is built with AddressSanitizer, whose allocator must come first"), "{done}");
    assert!(!done.stderr.contains("ASan runtime does not come first"), "{done}");
    let plain = steward(&["run", "--meter", "sh", "-c", "echo $LD_PRELOAD"]).run();
    assert!(plain.stdout.contains("steward-meter-"), "{plain}");
}

#[test]
fn memory_that_callbacks_do_not_see_has_a_hint() {
    let test = "memory_that_callbacks_do_not_see_has_a_hint";
    if !is_lavapipe_there(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("grow.c");
    let code = "#include <dlfcn.h>\n#include <stdlib.h>\n#include <string.h>\n\
        struct Info { int type; const void *next; unsigned flags; const void *application; unsigned layers; const void *names; unsigned extensions; const void *more; };\n\
        int main(int number, char **words) {\n\
        void *(*get)(void *, const char *) = dlsym(dlopen(\"libvulkan.so.1\", RTLD_NOW), \"vkGetInstanceProcAddr\");\n\
        (void)number; struct Info info = {.type = 1}; void *instance = 0;\n\
        if (((int (*)(void *, void *, void **))get(0, \"vkCreateInstance\"))(&info, 0, &instance)) return 9;\n\
        size_t size = (size_t)atoi(words[1]) << 20; char *lost = malloc(size); memset(lost, 1, size);\n\
        ((void (*)(void *, void *))get(instance, \"vkDestroyInstance\"))(instance, 0); return lost[size / 2] - 1; }\n";
    fs::write(&source, code).expect("a file");
    let Some(program) = compile_c(&source, folder.path()) else {
        return skip("cc", test, "there is no C compiler");
    };
    for (mebibytes, is_said) in [("1", false), ("64", true)] {
        let done = steward(&["run"]).args([program.as_os_str(), mebibytes.as_ref()]).run();
        done.assert_code(0);
        let line = done.stderr.lines().find(|line| line.starts_with("The process grew by "));
        assert_eq!(line.is_some(), is_said, "{done}");
        assert!(line.is_none_or(|line| line.contains(" MiB ") && line.contains("heaptrack")), "{done}");
    }
}

/// The same unit in the report of a program and in those of drivers: nobody compares bytes with KiB.
#[test]
fn bytes_have_units_in_the_report_of_a_program() {
    let Some(client) = client("bytes_have_units_in_the_report_of_a_program") else {
        return;
    };
    for mode in ["plain", "_exit"] {
        let done = run(&[], &client, mode);
        let row = done.stderr.lines().find(|line| line.contains("  VkDevice ")).expect("a row");
        assert!(row.contains("39.8 KiB") && !row.contains("40768"), "{done}");
    }
    let done = run(&[], &client, "plain");
    assert!(done.stderr.contains("\nLive: ") && done.stderr.contains(". Peak: "), "{done}");
}

#[test]
fn a_full_folder_for_reports_is_said_as_such() {
    let test = "a_full_folder_for_reports_is_said_as_such";
    let Some(client) = client(test) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    // A disk of its own, in a namespace of its own.
    let script = "mount -t tmpfs -o size=400k none \"$1\" || exit 77; head -c \"$4\" /dev/zero > \"$1/filled\"\n\
                  TMPDIR=\"$1\" exec \"$2\" run \"$3\" plain";
    let library = std::env::current_exe().expect("a path").with_file_name("libVkLayer_steward_memory.so");
    // With so little left it differs from run to run which of the files is the first without room.
    for filled in ["396k", "392k"] {
        let done = testkit::Child::new("unshare")
            .args(["-rm", "sh", "-c", script, "sh"])
            .args([folder.path(), Path::new(crate::run::STEWARD), &client])
            .args([filled])
            .env("STEWARD_LAYER", &library)
            .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
            .run();
        if done.code == Some(77) || done.stderr.contains("unshare") {
            return skip("mount", test, "no file system can be mounted here");
        }
        let remedies = ["a folder that has room", "with TMPDIR that has room", "has no room for it"];
        assert!(remedies.iter().any(|it| done.stderr.contains(it)), "{filled}: {done}");
        assert!(!done.stderr.contains("created no instance"), "{done}");
    }
}

#[test]
fn a_program_of_32_bits_is_named_where_nothing_is_tested_or_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let [source, program] = ["small.c", "small"].map(|name| folder.path().join(name));
    fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let built = std::process::Command::new("cc").arg("-m32").arg(&source).arg("-o").arg(&program).output();
    if !built.is_ok_and(|built| built.status.success()) {
        let test = "a_program_of_32_bits_is_named_where_nothing_is_tested_or_measured";
        return skip("m32", test, "no compiler for 32 bits");
    }
    for (options, code) in
        [(&["--fail=each"][..], 1), (&["--exit-code"], 1), (&["--guard=fence"], 1), (&["--meter"], 0)]
    {
        let done = steward(&["run"]).args(options).args([&program]).run();
        done.assert_code(code);
        assert!(done.stderr.contains("is for another architecture than the layer"), "{options:?}: {done}");
        // The dynamic linker would complain.
        assert!(!done.stderr.contains("ld.so"), "{options:?}: {done}");
    }
}
