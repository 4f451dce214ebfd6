//! `steward run` and `steward layer` as people and scripts call them. What needs lavapipe, `vulkaninfo` or `strace` is
//! skipped without.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::{Child, Finished, compile_c, skip};

pub(crate) const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
const LAYER: &str = "VK_LAYER_STEWARD_memory";

/// With the layer that cargo has built for these tests, and lavapipe alone.
pub(crate) fn steward(args: &[&str]) -> Child {
    with_our_layer(Child::new(STEWARD)).args(args)
}

/// The environment of such a run.
pub(crate) fn with_our_layer(child: Child) -> Child {
    let test = std::env::current_exe().expect("a path");
    let library = test.with_file_name("libVkLayer_steward_memory.so");
    assert!(library.is_file(), "{} is not built", library.display());
    child
        .env("STEWARD_LAYER", library)
        .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
        .env_remove("VK_INSTANCE_LAYERS")
        .env_remove("VK_LAYER_PATH")
        .env_remove("VK_ADD_LAYER_PATH")
}

/// `steward run -- sh -c SCRIPT`.
fn shell(script: &str) -> Child {
    steward(&["run", "--", "sh", "-c", script])
}

pub(crate) fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// What `vulkaninfo --summary` prints without the layer, or a skip.
fn vulkaninfo(test: &str) -> Option<Finished> {
    if !is_program("vulkaninfo") {
        skip("vulkaninfo", test, "there is no vulkaninfo");
        return None;
    }
    let without = Child::new("vulkaninfo").args(["--summary"]).env("VK_LOADER_DRIVERS_SELECT", "lvp*").run();
    if without.code == Some(0) && without.stdout.contains("llvmpipe") {
        return Some(without);
    }
    skip("lavapipe", test, "vulkaninfo shows no lavapipe");
    None
}

pub(crate) fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("a report")).expect("JSON")
}

#[test]
fn ly42_what_is_set_stays_and_drivers_are_not_chosen() {
    let script = "echo \"$VK_ADD_LAYER_PATH $VK_LAYER_PATH $VK_INSTANCE_LAYERS\"; env";
    let done = shell(script)
        .env("VK_ADD_LAYER_PATH", "/added")
        .env("VK_LAYER_PATH", "/only")
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_A:VK_LAYER_B")
        .env("XDG_DATA_HOME", "/data")
        .env("XDG_DATA_DIRS", "/one:/two")
        .env_remove("XDG_CONFIG_DIRS")
        .env_remove("VK_DRIVER_FILES")
        .env_remove("VK_ICD_FILENAMES")
        .env_remove("VK_LOADER_LAYERS_DISABLE")
        .run();
    done.assert_code(0);
    let first = done.stdout.lines().next().expect("a line");
    let [added, only, layers] = first.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{first}");
    };
    // First and last: loaders take the first manifest of a name or the last one, and order layers as they find them.
    let (folder, _) = added.split_once(":/added:").expect("in front");
    assert!(added.ends_with(&format!(":/etc/xdg/vulkan/explicit_layer.d:/etc/vulkan/explicit_layer.d:/data/vulkan/explicit_layer.d:/one/vulkan/explicit_layer.d:/two/vulkan/explicit_layer.d:{folder}/.")), "{added}");
    assert_eq!(only, format!("{folder}:/only:{folder}/."));
    assert_eq!(layers, format!("VK_LAYER_A:VK_LAYER_B:{LAYER}"));
    for name in ["VK_DRIVER_FILES=", "VK_ICD_FILENAMES=", "VK_LOADER_LAYERS_DISABLE="] {
        assert!(!done.stdout.contains(name), "{done}");
    }
    let again = shell("echo \"$VK_INSTANCE_LAYERS\"").env("VK_INSTANCE_LAYERS", format!("{LAYER}::VK_LAYER_A"));
    assert_eq!(again.run().stdout, format!("VK_LAYER_A:{LAYER}\n"), "the last one");
    let bare = shell("echo \"[$VK_LAYER_PATH]$VK_INSTANCE_LAYERS\"").run();
    assert_eq!(bare.stdout, format!("[]{LAYER}\n"), "no other is hidden");
    let driver = ["run", "--driver", "*", "--", "sh", "-c"];
    let driver = steward(&driver).args(["echo \"$VK_LOADER_DRIVERS_SELECT\""]);
    assert_eq!(driver.run().stdout, "*\n");
}

#[test]
fn ly43_the_exit_status_is_the_programs_and_the_folder_is_removed() {
    for (script, code) in [("exit 0", 0), ("exit 1", 1), ("exit 77", 77), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        shell(script).run().assert_code(code);
    }
    let there = "test -f \"$VK_ADD_LAYER_PATH/steward.json\" && stat -c '%a %n' \"$VK_ADD_LAYER_PATH\"";
    let done = shell(there).run();
    done.assert_code(0);
    let (mode, folder) = done.stdout.trim().split_once(' ').expect("two words");
    assert_eq!(mode, "700");
    assert!(!Path::new(folder).exists(), "{folder}");

    let missing = steward(&["run", "--", "/nonexistent/program"]).run();
    missing.assert_code(127);
    assert!(missing.stderr.contains("/nonexistent/program"), "{missing}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let not_runnable = steward(&["run", "--"]).args([file.path()]).run();
    not_runnable.assert_code(126);
}

#[test]
fn ly44_no_report_is_said_with_a_reason() {
    let done = shell("echo mine; echo own >&2").run();
    assert_eq!(done.stdout, "mine\n");
    assert!(done.stderr.starts_with("own\nsteward: no report: sh created no instance"), "{done}");
    let killed = shell("kill -9 $$").run();
    assert!(killed.stderr.contains("ended by SIGKILL"), "{killed}");
    let disabled = shell("true").env("VK_LOADER_LAYERS_DISABLE", "~all~").run();
    assert!(disabled.stderr.contains("VK_LOADER_LAYERS_DISABLE is set"), "{disabled}");
    let no_layer = shell("echo ran").env("STEWARD_LAYER", "/nonexistent").run();
    no_layer.assert_code(2);
    assert!(no_layer.stderr.contains("was found neither beside") && no_layer.stdout.is_empty());
}

#[test]
fn ly42_ly45_vulkaninfo_prints_the_same_and_each_process_has_a_report() {
    let test = "ly42_ly45_vulkaninfo_prints_the_same_and_each_process_has_a_report";
    let Some(without) = vulkaninfo(test) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let [report, text, page] = ["r.json", "r.txt", "r.html"].map(|name| folder.path().join(name));
    let devices = |done: &Finished| {
        let at = done.stdout.find("Devices:").expect("a list of devices");
        done.stdout[at..].to_owned()
    };
    let with = steward(&["run", "--expect", "lavapipe-22.3", "--json"])
        .args([&report])
        .args([Path::new("--text"), &text, Path::new("--html"), &page])
        .args(["--", "vulkaninfo", "--summary"])
        .env("VK_STEWARD_MEMORY_ARGUMENTS", "true")
        .run();
    with.assert_code(0);
    assert_eq!(devices(&with), devices(&without));
    assert!(with.stdout.contains(LAYER) && !without.stdout.contains(LAYER));
    let one = json(&report);
    assert!(one["program"]["instances"].is_array(), "one report, no list");
    assert_eq!(one["source"]["executable"], "vulkaninfo");
    assert_eq!(one["source"]["arguments"], serde_json::json!(["vulkaninfo", "--summary"]));
    let text = fs::read_to_string(text).expect("a report");
    assert!(text.contains("arguments: vulkaninfo --summary\n"), "{text}");
    // LY33: the program's own format, which its other commands read.
    assert_eq!(one["format"], vk_report::report::Report::FORMAT);
    assert_eq!(one["source"]["kind"], "program");
    let page = fs::read_to_string(page).expect("a page");
    assert!(page.contains("Arguments: vulkaninfo --summary") && page.contains("VkInstance"));
    let same = steward(&["diff"]).args([&report, &report]).run();
    same.assert_code(0);

    let two = steward(&["run", "--no-check", "--json"])
        .args([&report])
        .args(["--", "sh", "-c"])
        .args(["vulkaninfo --summary >/dev/null; vulkaninfo --summary"])
        .run();
    two.assert_code(0);
    assert_eq!(devices(&two), devices(&without), "its output is its own");
    let reports = json(&report);
    let reports = reports.as_array().expect("a list");
    assert_eq!(reports.len(), 2);
    assert_ne!(reports[0]["source"]["process"], reports[1]["source"]["process"]);
    for report in reports {
        assert_eq!(report["program"]["check"], Value::Null, "--no-check");
        assert_eq!(report["source"]["arguments"], Value::Null, "LY50: not asked for");
    }
    assert_eq!(two.stderr.matches("callbacks were not judged").count(), 2);
    let findings = two.stderr.matches("\nfindings: not checked\n").count();
    assert!(findings == 2 && !two.stderr.contains("findings: none"), "{two}");
}

#[test]
fn ly51_another_architecture_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("other");
    let mut elf = [0_u8; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    elf[16] = 2;
    elf[18] = 3;
    fs::write(&file, elf).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its owner");
    let done = steward(&["run", "--"]).args([&file]).run();
    done.assert_code(126);
    assert!(done.stderr.contains("is for another architecture than the layer"), "{done}");
    let same = shell("true").run();
    assert!(!same.stderr.contains("architecture"), "{same}");
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            files.extend(self::files(&entry.path()));
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    files
}

#[test]
fn ly55_installing_writes_two_files_and_can_be_undone() {
    let folder = tempfile::tempdir().expect("a folder");
    let layer = |args: &[&str]| steward(&["layer"]).args(args).env("XDG_DATA_HOME", folder.path()).run();
    layer(&[]).assert_code(2);
    layer(&["install"]).assert_code(2);
    let printed = layer(&["--print-manifest"]);
    printed.assert_code(0);
    assert!(files(folder.path()).is_empty());
    let kept = folder.path().join("steward/other");
    fs::create_dir(folder.path().join("steward")).expect("a folder");
    fs::write(&kept, "").expect("a file");

    let installed = layer(&["install", "--user"]);
    installed.assert_code(0);
    let [library, _, manifest] = &files(folder.path())[..] else {
        panic!("{:?}", files(folder.path()));
    };
    assert_eq!(installed.stdout, format!("wrote {}\nwrote {}\n", library.display(), manifest.display()));
    let printed: Value = serde_json::from_str(&printed.stdout).expect("JSON");
    let mut written = json(manifest);
    assert_eq!(written["layer"]["library_path"], library.to_str().expect("a name"));
    written["layer"]["library_path"] = printed["layer"]["library_path"].clone();
    assert_eq!(written, printed);
    if vulkaninfo("ly55_installing_writes_two_files_and_can_be_undone").is_some() {
        let named = Child::new("vulkaninfo")
            .args(["--summary"])
            .env("XDG_DATA_HOME", folder.path())
            .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
            .env("VK_INSTANCE_LAYERS", LAYER)
            .run();
        assert!(named.stderr.contains("Host memory that Vulkan"), "{named}");
    }
    layer(&["install", "--user"]).assert_code(0);
    layer(&["uninstall", "--user"]).assert_code(0);
    assert_eq!(files(folder.path()), [kept]);
    let again = layer(&["uninstall", "--user"]);
    again.assert_code(0);
    assert!(again.stdout.contains("nothing was removed"), "{again}");
    // Somebody else's manifest stays.
    let other = folder.path().join("vulkan/explicit_layer.d/VkLayer_steward_memory.json");
    fs::write(&other, "{}").expect("a file");
    for action in ["install", "uninstall"] {
        let refused = layer(&[action, "--user"]);
        refused.assert_code(2);
        assert_eq!(fs::read_to_string(&other).expect("a file"), "{}", "{refused}");
    }
}

#[test]
fn ly48_an_implicit_layer_is_off_unless_a_variable_switches_it_on() {
    let test = "ly48_an_implicit_layer_is_off_unless_a_variable_switches_it_on";
    if vulkaninfo(test).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let manifests = folder.path().join("vulkan/implicit_layer.d");
    fs::create_dir_all(&manifests).expect("a folder");
    let manifest = steward(&["layer", "--print-manifest", "--implicit"]).run();
    fs::write(manifests.join("steward.json"), manifest.stdout).expect("a file");
    for (set, is_on) in [(&[][..], false), (&["ENABLE"], true), (&["ENABLE", "DISABLE"], false)] {
        let child = Child::new("vulkaninfo")
            .args(["--summary"])
            .env("XDG_DATA_HOME", folder.path())
            .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
            .env_remove("VK_INSTANCE_LAYERS");
        let child = set.iter().fold(child, |child, name| child.env(&format!("{name}_{LAYER}"), "1"));
        let done = child.run();
        done.assert_code(0);
        assert_eq!(done.stderr.contains("Host memory that Vulkan"), is_on, "{set:?}");
    }
}

#[test]
fn ly49_no_file_socket_or_thread_but_the_named_files() {
    let test = "ly49_no_file_socket_or_thread_but_the_named_files";
    if vulkaninfo(test).is_none() {
        return;
    }
    let traced = |before: &[&str]| -> Option<Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let done = Child::new("strace")
            .args([
                "-f",
                "-qq",
                // Names of the folders in which files are opened.
                "-y",
                "-e",
                "trace=open,openat,creat,memfd_create,mkdir,mkdirat,socket,socketpair,clone,clone3,fork,vfork",
            ])
            .args(["-o".as_ref(), log.as_os_str()])
            .args(before)
            .args(["vulkaninfo", "--summary"])
            .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
            .run();
        if done.code != Some(0) {
            return None;
        }
        let log = fs::read_to_string(log).ok()?;
        // Without the number of the process, and addresses and handles of it.
        let call = |line: &str| Some(line.trim().split_once(' ')?.1.trim().to_owned());
        let writes = |line: &String| !line.contains("O_RDONLY") && !line.contains("ENOENT");
        let mut calls: Vec<_> = log.lines().filter_map(call).filter(writes).collect();
        calls.sort();
        Some(calls)
    };
    if !is_program("strace") {
        return skip("strace", test, "there is no strace");
    }
    let Some(without) = traced(&[]) else {
        return skip("strace", test, "strace may not trace here");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = steward(&["layer", "--print-manifest"]).run();
    fs::write(folder.path().join("layer.json"), manifest.stdout).expect("a file");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let set = [
        format!("VK_ADD_LAYER_PATH={}", folder.path().display()),
        format!("VK_INSTANCE_LAYERS={LAYER}"),
        format!("VK_STEWARD_MEMORY_TEXT={}", path("report.txt")),
        format!("VK_STEWARD_MEMORY_JSON={}", path("report.json")),
        format!("VK_STEWARD_MEMORY_STATE={}", path("state")),
        "VK_STEWARD_MEMORY_STACKS=true".to_owned(),
        "VK_STEWARD_MEMORY_GUARD=strict".to_owned(),
    ];
    let mut before = vec!["env"];
    before.extend(set.iter().map(String::as_str));
    let mut with = traced(&before).expect("as without");
    // A guard keeps what it reports in a file that has no name.
    let calls = with.len();
    with.retain(|call| !call.contains("O_TMPFILE"));
    assert_eq!(calls - with.len(), 1, "{with:#?}");
    let kind = |call: &str| call.split('(').next().unwrap_or_default().to_owned();
    let (ours, others): (Vec<_>, Vec<_>) =
        with.iter().partition(|call| call.contains(&folder.path().display().to_string()));
    let kinds = |calls: &[&String]| calls.iter().map(|call| kind(call)).collect::<Vec<_>>();
    assert_eq!(kinds(&others), kinds(&without.iter().collect::<Vec<_>>()), "{others:#?}\n{without:#?}");
    assert_eq!(ours.len(), 3, "{ours:#?}");
    for call in &ours {
        for flag in ["O_CREAT", "O_EXCL", "O_NOFOLLOW", "O_CLOEXEC", "0600"] {
            assert!(call.contains(flag), "{flag}: {call}");
        }
    }
    // A report comes whole; the state is there from the beginning.
    let parts = ours.iter().filter(|call| call.contains(".steward-part"));
    assert_eq!(parts.count(), 2, "{ours:#?}");
    let mut left: Vec<_> = files(folder.path());
    left.retain(|file| !file.ends_with("layer.json"));
    assert_eq!(left, [path("report.json"), path("report.txt"), path("state")].map(PathBuf::from));
}

#[test]
fn ly27_lavapipe_does_what_is_known_of_it_and_nothing_else() {
    let test = "ly27_lavapipe_does_what_is_known_of_it_and_nothing_else";
    if vulkaninfo(test).is_none() || !crate::observers_agree::is_lavapipe_there(test) {
        return;
    }
    let expect = ["--expect", "lavapipe-22.3"];
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("r.json");
    steward(&["run"])
        .args(expect)
        .args([Path::new("--json"), &report])
        .args(crate::observers_agree::plain_workload())
        .run()
        .assert_code(0);
    let report = json(&report);
    let findings = report["findings"].as_array().expect("findings");
    // Its worker frees what a submit took, and every command is bracketed then.
    let freed = findings
        .iter()
        .find(|finding| finding["kind"] == "FreedOnForeignThread" && finding["command"] == "vkQueueSubmit");
    assert_eq!(freed.map(|one| &one["level"]), Some(&Value::from("violation")), "{report}");
    let run = steward(&["run"]).args(expect);
    run.args(["--", "vulkaninfo", "--summary"]).run().assert_code(0);

    // Without what is known of it the same findings are differences.
    let none = folder.path().join("none.toml");
    fs::write(&none, "driver = \"none\"\n").expect("a file");
    let unknown =
        steward(&["run"]).args([Path::new("--expect"), &none]).args(crate::observers_agree::plain_workload()).run();
    unknown.assert_code(1);
    assert!(unknown.stderr.contains("not expected: V"), "{unknown}");
}

#[test]
fn ly31_each_request_is_refused_in_a_run_of_its_own() {
    let test = "ly31_each_request_is_refused_in_a_run_of_its_own";
    let each = |limit: &str, program: &[&str]| {
        let options = ["run", limit, "--time-limit", "0", "--json", "-", "--"];
        let done = steward(&options).args(program).run();
        let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
        (done.code, report)
    };
    // It is killed at once: how a program ends that would never.
    let (code, report) = each("--fail=each=2", &["sleep", "1000"]);
    assert_eq!((code, &report["is_complete"]), (Some(1), &Value::from(false)));
    // Also what it has started.
    let number = tempfile::NamedTempFile::new().expect("a file");
    let options = ["--fail=each=1", "--time-limit", "1", "--", "sh", "-c"];
    let script = "sleep 1000 & echo $! >\"$0\"; wait";
    let run = steward(&["run"]).args(options).args([script]);
    run.args([number.path()]).run().assert_code(1);
    let number = fs::read_to_string(number.path()).expect("a number");
    let status = fs::read_to_string(format!("/proc/{}/status", number.trim()));
    let is_running = |status: String| status.contains("sleep") && !status.contains("State:\tZ");
    assert!(!status.is_ok_and(is_running), "{number} goes on");
    let ended = |run: usize| report["runs"][run]["ended"].as_str();
    // Nothing was refused: another run would end in the same way.
    assert_eq!([ended(0), ended(1)], [Some("hang"), None]);

    let ends = |script: &str| {
        let run = steward(&["run", "--fail=each=1", "--json", "-", "--", "sh", "-c"]);
        let done = run.args([script]).run();
        let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
        (done.code, report["runs"][0]["ended"].clone())
    };
    assert_eq!(ends("kill -SEGV $$"), (Some(1), "crash".into()));
    assert_eq!(ends("exit 3"), (Some(1), Value::Null), "no request");
    assert_eq!(ends("exit 0"), (Some(1), Value::Null), "no request");
    let other = steward(&["check", "--fail=each"]).run();
    other.assert_code(2);
    assert!(other.stderr.contains("--fail=each is for"), "{other}");

    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vk-layer/tests/client.c");
    let client = compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR")));
    let (Some(client), Some(_)) = (client, vulkaninfo(test)) else {
        return;
    };
    let run = steward(&["run", "--fail=each=4", "--json", "-", "--"]);
    let done = run.args([client.as_os_str(), "plain".as_ref()]).run();
    done.assert_code(0);
    let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    let requests: Vec<_> = runs.iter().map(|run| run["request"].as_u64()).collect();
    assert_eq!(requests, [Some(0), Some(1), Some(2), Some(3)]);
    // The client gives up where it gets no instance or device.
    let gave_up = |run: &Value| run["ended"] == "clean_error" && run["status"] == 99;
    assert!(runs.iter().any(gave_up), "{report}");
    assert!(runs.iter().all(|run| gave_up(run) || run["ended"] == "ok"), "{report}");
    // It gives up by `_exit`, without a report: what was refused is known all the same.
    for run in runs {
        let refused = &run["refused"];
        assert!(
            refused["command"]
                .as_str()
                .is_some_and(|name| name.starts_with("vkCreate") || name.starts_with("vkEnumerate"))
                && refused["owner"].as_str().is_some_and(|name| name.starts_with("Vk"))
                && refused["bytes"].as_u64() > Some(0),
            "{run}"
        );
    }
    // And the plan was met.
    for (plan, met) in [("--fail=nth=0", true), ("--fail=nth=99999", false)] {
        let run = steward(&["run", plan, "--"]);
        let done = run.args([client.as_os_str(), "_exit".as_ref()]).run();
        done.assert_code(if met { 99 } else { 3 });
        assert_eq!(!done.stderr.contains("met the plan"), met, "{done}");
    }
    // The layer does not see how a program ends that was refused something.
    let run = steward(&["run", "--fail=nth=20", "--", "vulkaninfo", "--summary"]);
    let done = run.run();
    assert!(done.stderr.contains("refused on purpose (nth=20): 1 of ") && !done.stderr.contains("workload"), "{done}");
}
