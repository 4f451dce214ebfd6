//! What a command line names: files that may not be written over, the standard input, paths of manifests, variables
//! that are set.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::{Child, Finished, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const BUNDLED: &str = "lavapipe-workload";

fn run(args: &[&str]) -> Finished {
    Child::new(STEWARD).args(args).run()
}

#[track_caller]
fn assert_refused(done: &Finished, parts: &[&str]) {
    done.assert_code(2);
    assert!(done.stderr.starts_with("steward: ") && done.stderr.lines().count() == 1, "{done}");
    for part in parts {
        assert!(done.stderr.contains(part), "{part:?}\n{done}");
    }
    assert_eq!(done.stdout, "", "nothing ran");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A trace as a file, in a folder of its own.
fn trace(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("run.trace.gz");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join("lavapipe-workload.trace.gz"), &file)
        .expect("a file");
    file
}

#[test]
fn a_file_of_another_kind_is_not_written_over_with_expectations() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("precious");
    let write = |file: &Path| run(&["check", "--trace", BUNDLED, "--write-expect", text(file)]);
    let damaged = "driver = \"d\"\n[[finding]]\nrule = \"V1\"\n";
    for (bytes, why) in [
        (&b"\x89PNG\r\n\x1a\n\xff\xfe"[..], "UTF-8"),
        (b"\x1f\x8b\x08\x00\xff", "UTF-8"),
        (b"dear diary", "line 1: "),
        (damaged.as_bytes(), "missing field"),
    ] {
        fs::write(&file, bytes).expect("a file");
        assert_refused(
            &write(&file),
            &["precious holds something else than expectations", why, "would destroy it; name another file"],
        );
        assert_eq!(fs::read(&file).expect("a file"), bytes, "left as it was");
    }
    // Causes that somebody found out about another driver.
    let other = "driver = \"SwiftShader driver *\"\n\n[[finding]]\nrule = \"V41\"\nkind = \"LiveAfterDestroy\"\nowner = \"VkFence\"\n\
                 command = \"vkDestroyFence\"\nscope = \"object\"\ncause = \"dear to me\"\n";
    fs::write(&file, other).expect("a file");
    assert_refused(&write(&file), &["precious is about the driver \"SwiftShader driver *\"", "name another file"]);
    assert_eq!(fs::read_to_string(&file).expect("a file"), other, "left as it was");
    fs::write(&file, damaged).expect("a file");
    // With `--expect` the same file may be mended.
    let done = run(&["check", "--trace", BUNDLED, "--expect", text(&file)]);
    assert!(
        done.stderr.contains("line 2: ") && done.stderr.contains("correct that line; else name another file"),
        "{done}"
    );
    // What is empty, or not there, loses nothing; what was written is written again.
    fs::write(&file, "").expect("a file");
    let there_is_none = folder.path().join("new.toml");
    for file in [&file, &there_is_none, &there_is_none] {
        write(file).assert_code(0);
        assert!(fs::read_to_string(file).expect("a file").contains("[[finding]]"));
    }
}

#[test]
fn a_file_that_is_named_twice_is_refused_before_anything_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path());
    let json = folder.path().join("one.json");
    run(&["replay", text(&trace), "--json", text(&json)]).assert_code(0);
    let new = folder.path().join("x");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&json, &link).expect("a link");
    let roundabout = format!("{}/./x", folder.path().display());
    let (trace_name, json_name) = (text(&trace), text(&json));
    for (args, first, second) in [
        (&["drive", "--record", text(&new), "--html", text(&new)][..], "--record", "--html"),
        (&["drive", "--record", text(&new), "--json", &roundabout], "--record", "--json"),
        (&["replay", trace_name, "--json", trace_name], "the trace", "--json"),
        (&["check", "--trace", trace_name, "--write-expect", trace_name], "--trace", "--write-expect"),
        (&["check", "--expect", json_name, "--json", json_name], "--expect", "--json"),
        (&["drive", "--driver", json_name, "--json", json_name], "--driver", "--json"),
        (&["check", "--driver", json_name, "--write-expect", json_name], "--driver", "--write-expect"),
        (&["diff", json_name, trace_name, "--json", json_name], "the report before", "--json"),
        (&["diff", trace_name, text(&link), "--json", json_name], "the report after", "--json"),
        (&["replay", trace_name, "--json", text(&new), "--html", &roundabout], "--json", "--html"),
    ] {
        let before = [&trace, &json].map(|file| fs::read(file).expect("a file"));
        assert_refused(&run(args), &[&format!("{first} and {second} both name "), "name two files"]);
        assert_eq!([&trace, &json].map(|file| fs::read(file).expect("a file")), before, "{args:?}");
        assert!(!new.exists(), "{args:?}");
    }
    // What is only read may be named twice, and what swallows all may swallow all.
    run(&["diff", json_name, json_name, "--exit-code"]).assert_code(0);
    run(&["replay", BUNDLED, "--json", "/dev/null", "--html", "/dev/null"]).assert_code(0);
}

/// `/dev/shm` is a folder like any other, unlike the devices beside it.
#[test]
fn shared_memory_holds_files() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return skip("shm", "shared_memory_holds_files", "there is no /dev/shm to write to");
    };
    let json = folder.path().join("r.json");
    for _ in 0..2 {
        run(&["replay", BUNDLED, "--json", text(&json)]).assert_code(0);
        run(&["diff", text(&json), text(&json), "--exit-code"]).assert_code(0);
    }
}

#[test]
fn a_dash_is_read_once_and_is_no_name_of_a_file() {
    assert_refused(&run(&["diff", "-", "-"]), &["`-` is the standard input, which can be read once"]);
    for args in [&["drive", "--record", "-"][..], &["check", "--write-expect", "-"]] {
        assert_refused(&run(args), &["cannot write to the standard output: name a file"]);
    }
    assert!(!Path::new("-").exists());
    // A trace is read from it, by each command that reads one.
    let folder = tempfile::tempdir().expect("a folder");
    let packed = fs::read(trace(folder.path())).expect("a trace");
    for args in [&["replay", "-"][..], &["check", "--trace", "-"]] {
        let mut child =
            Command::new(STEWARD).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().expect("a pipe").write_all(&packed).expect("it reads");
        let done = child.wait_with_output().expect("it ends");
        assert_eq!(done.status.code(), Some(0));
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.contains("the standard input") && said.contains("llvmpipe Mesa"), "{said}");
    }
}

#[test]
fn variables_that_hide_drivers_and_the_loader_are_named() {
    let nowhere = "/nonexistent/icd.json";
    let child = Child::new(STEWARD).args(["drivers"]).env("VK_DRIVER_FILES", nowhere);
    let done = child.run();
    if !done.stderr.contains("no Vulkan loader") {
        assert_refused(
            &done,
            &["VK_DRIVER_FILES names /nonexistent/icd.json: unset it, or name a manifest that is there; or install"],
        );
    }
    let done = Child::new(STEWARD).args(["drivers"]).env("STEWARD_LOADER", "/nonexistent/libvulkan.so").run();
    assert_refused(
        &done,
        &["(/nonexistent/libvulkan.so: ", "STEWARD_LOADER names this library, unset it", "): install libvulkan1"],
    );
}

#[test]
fn a_driver_is_found_by_the_path_of_its_manifest() {
    const TEST: &str = "a_driver_is_found_by_the_path_of_its_manifest";
    let manifests = fs::read_dir("/usr/share/vulkan/icd.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let Some(lavapipe) = manifests.into_iter().find(|path| path.to_string_lossy().contains("lvp_icd")) else {
        return skip("lavapipe", TEST, "there is no /usr/share/vulkan/icd.d/lvp_icd*.json");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("mine.json");
    fs::copy(&lavapipe, &copy).expect("a file");
    // The copy is one that the loader does not list.
    for path in [&lavapipe, &copy] {
        let done = run(&["drive", "--driver", text(path), "--rounds", "1", "--no-coverage"]);
        if done.stderr.contains("no Vulkan loader") {
            return skip("lavapipe", TEST, done.stderr.trim());
        }
        done.assert_code(0);
        assert!(done.stdout.starts_with("driver: llvmpipe Mesa "), "{done}");
    }
    let done = run(&["check", "--driver", text(&copy), "--rounds", "1", "--direct"]);
    assert!(done.stdout.starts_with("driver: llvmpipe Mesa ") && done.code != Some(2), "{done}");
    let relative =
        Command::new(STEWARD).current_dir(&folder).args(["drive", "--driver", "./mine.json", "--rounds", "1"]).output();
    assert_eq!(relative.expect("it runs").status.code(), Some(0));
    fs::write(&copy, "{}").expect("a file");
    for (path, why) in
        [(text(&copy), "missing field `ICD`"), ("/nonexistent/icd.json", "No such file"), ("./nowhere/", "")]
    {
        let done = run(&["drive", "--driver", path]);
        assert_refused(&done, &[path, "is no driver's manifest (", why, "`steward drivers` lists"]);
    }
    let child = Child::new(STEWARD).args(["drive", "--driver", "no such"]);
    let done = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].into_iter().fold(child, Child::env_remove).run();
    assert!(done.stderr.contains("by index, driver, id, file or alias"), "{done}");
}

#[test]
fn a_pattern_that_is_no_text_chooses_drivers() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let folder = tempfile::tempdir().expect("a folder");
    let odd = OsStr::from_bytes(b"no\xfftext_icd.json");
    let odd = folder.path().join(odd);
    fs::write(&odd, "{\"ICD\": {\"library_path\": \"lib.so\"}}").expect("a file");
    let run = |pattern: &[u8]| {
        let script = "printf %s \"$VK_LOADER_DRIVERS_SELECT\" | od -An -tx1";
        crate::run::steward(&["run", "--driver"])
            .args([OsStr::from_bytes(pattern)])
            .args(["--", "sh", "-c", script])
            .env_remove("VK_LOADER_DRIVERS_SELECT")
            .env_remove("VK_ADD_DRIVER_FILES")
            .env("VK_DRIVER_FILES", &odd)
            .run()
    };
    let chosen = run(b"NO\xff*");
    assert_eq!(chosen.assert_code(0).stdout.trim(), "4e 4f ff 2a");
    assert_refused(
        &run(b"other\xff*"),
        &["no manifest of a driver fits --driver \"other\\xFF*\": there are no\u{fffd}text_icd"],
    );
}
