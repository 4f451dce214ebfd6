//! The layer in a program of ours in C, on lavapipe: how it lives and how it ends.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{Child, compile_c, compile_c_library, layer_order, skip};
use vk_report::state_file;

use crate::client::{library, with_layer};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client.c");
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// The program, where there is a compiler.
static CLIENT: LazyLock<Option<PathBuf>> = LazyLock::new(|| compile_c(Path::new(SOURCE), Path::new(FOLDER)));

/// The program on lavapipe, without the layer.
pub(crate) fn client(program: &Path, mode: &str) -> Child {
    Child::new(program).args([mode]).env("VK_LOADER_DRIVERS_SELECT", "lvp*")
}

/// Why the test cannot run.
pub(crate) fn program(test: &str) -> Option<&'static Path> {
    static IS_THERE: LazyLock<bool> = LazyLock::new(|| {
        let run = |program: &PathBuf| client(program, "plain").run().code == Some(0);
        CLIENT.as_ref().is_some_and(run)
    });
    let Some(program) = CLIENT.as_deref() else {
        skip("cc", test, "there is no compiler for C");
        return None;
    };
    if !*IS_THERE {
        skip("lavapipe", test, "the client finds no lavapipe");
        return None;
    }
    Some(program)
}

/// The program with the layer; its reports and states lie in the folder.
fn in_folder(program: &Path, mode: &str, folder: &TempDir) -> Child {
    let file = |extension| folder.path().join(format!("%p.{extension}"));
    with_layer(client(program, mode), folder.path())
        .env("VK_STEWARD_MEMORY_TEXT", file("txt"))
        .env("VK_STEWARD_MEMORY_JSON", file("json"))
        .env("VK_STEWARD_MEMORY_STATE", file("state"))
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == extension));
    files
}

fn reports(folder: &TempDir) -> Vec<Value> {
    let read = |path: &PathBuf| fs::read(path).expect("a report");
    let files = files(folder.path(), "json");
    let reports = files.iter().filter(|path| !path.ends_with("layer.json"));
    reports.map(|path| serde_json::from_slice(&read(path)).expect("JSON")).collect()
}

fn only_report(folder: &TempDir) -> Value {
    let mut reports = reports(folder);
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

/// A number of a kind, of all instances and devices together.
fn sum(report: &Value, kind: &str, number: &str) -> u64 {
    let rows = |accounts: &Value| accounts["kinds"].as_array().expect("rows").clone();
    let instances = report["program"]["instances"].as_array().expect("instances");
    let rows = instances.iter().flat_map(|instance| {
        let devices = instance["devices"].as_array().expect("devices");
        let of_devices = devices.iter().flat_map(rows);
        rows(instance).into_iter().chain(of_devices).collect::<Vec<_>>()
    });
    let of_kind = rows.filter(|row| row["kind"] == kind);
    of_kind.map(|row| row[number].as_u64().expect("a number")).sum()
}

#[test]
fn ly5_threads_with_instances_of_their_own_are_all_counted() {
    let test = "ly5_threads_with_instances_of_their_own_are_all_counted";
    let Some(program) = program(test) else { return };
    let folder = folder();
    in_folder(program, "threads", &folder).run().assert_code(0);
    let report = only_report(&folder);
    for (kind, created) in [("VkInstance", 48), ("VkDevice", 48), ("VkBuffer", 24_000)] {
        assert_eq!(sum(&report, kind, "objects_created"), created, "{kind}");
        assert!(sum(&report, kind, "total_bytes") > 0, "{kind}");
        for nothing in ["objects_alive", "live_bytes", "live_blocks"] {
            assert_eq!(sum(&report, kind, nothing), 0, "{kind} {nothing}");
        }
    }
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn ly15_each_buffer_brings_its_own_user_data_on_lavapipe() {
    let test = "ly15_each_buffer_brings_its_own_user_data_on_lavapipe";
    let Some(program) = program(test) else { return };
    for (mode, number) in [("app", 8), ("app5000", 5000)] {
        let without = client(program, mode).run();
        without.assert_code(0);
        let folder = folder();
        let with = in_folder(program, mode, &folder).run();
        with.assert_code(0);
        // Allocated, reallocated and freed through all of them: the client itself looks at each.
        assert_eq!(with.stdout, without.stdout, "{mode}");
        let report = only_report(&folder);
        let allocated = with.stdout.split(' ').next().and_then(|it| it.parse().ok());
        let blocks = sum(&report, "VkBuffer", "total_blocks");
        assert!(Some(blocks) == allocated && blocks >= number, "{report}");
        let commands = sum(&report, "VkBuffer", "foreign_commands");
        let created = sum(&report, "VkBuffer", "objects_created");
        assert_eq!((commands, created), (2 * number, number), "{mode}");
        for nothing in ["objects_alive", "live_bytes", "live_blocks"] {
            assert_eq!(sum(&report, "VkBuffer", nothing), 0, "{mode} {nothing}");
        }
        assert_eq!(report["findings"], json!([]), "{mode}");
        assert_eq!(report["program"]["check"]["unchecked_kinds"], 0, "{mode}");
    }
}

#[test]
fn ly5_instances_one_after_the_other_leave_nothing() {
    let test = "ly5_instances_one_after_the_other_leave_nothing";
    let Some(program) = program(test) else { return };
    let folder = folder();
    let ran = in_folder(program, "many", &folder).run();
    ran.assert_code(0);
    let grown: i64 = ran.stdout.trim().parse().expect("kilobytes");
    assert!(grown <= 1024, "{grown} kB more after 300 than after 10");
    let report = only_report(&folder);
    assert_eq!(sum(&report, "VkInstance", "objects_created"), 300);
    assert_eq!(report["program"]["instances"].as_array().map(Vec::len), Some(1));
}

#[test]
fn ly4_300_devices_live_at_once_in_one_process() {
    let test = "ly4_300_devices_live_at_once_in_one_process";
    let Some(program) = program(test) else { return };
    let folder = folder();
    in_folder(program, "devices", &folder).run().assert_code(0);
    let report = only_report(&folder);
    for (kind, created) in [("VkInstance", 1), ("VkDevice", 300), ("VkBuffer", 600)] {
        assert_eq!(sum(&report, kind, "objects_created"), created, "{kind}");
        for nothing in ["objects_alive", "live_bytes", "live_blocks"] {
            assert_eq!(sum(&report, kind, nothing), 0, "{kind} {nothing}");
        }
    }
    // Each had accounts of its own.
    let devices = report["program"]["instances"][0]["devices"].as_array().map(Vec::len);
    assert_eq!(devices, Some(300));
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn ly6_the_library_stays_when_the_loader_is_unloaded() {
    let test = "ly6_the_library_stays_when_the_loader_is_unloaded";
    let Some(program) = program(test) else { return };
    let folder = folder();
    let ran = in_folder(program, "dlclose", &folder).run();
    ran.assert_code(0);
    let (grown, mappings) = ran.stdout.trim().split_once(' ').expect("two numbers");
    let grown: i64 = grown.parse().expect("kilobytes");
    assert!(grown <= 1024, "{grown} kB more after 60 times than after 10");
    assert_eq!(mappings, "1");
    assert_eq!(sum(&only_report(&folder), "VkInstance", "objects_created"), 60);
}

#[test]
fn ly9_the_validation_layer_says_the_same_above_and_below() {
    let test = "ly9_the_validation_layer_says_the_same_above_and_below";
    let Some(program) = program(test) else { return };
    let (ours, validation) = ("VK_LAYER_STEWARD_memory", "VK_LAYER_KHRONOS_validation");
    // The rules that it says are broken, in the order of its messages; and where its manifest is.
    let rules = |mode: &str, layers: &[&str], theirs: &Path| {
        let folder = folder();
        let mut paths = [folder.path(), theirs];
        if layers.first() == Some(&validation) {
            paths.reverse();
        }
        let ran = with_layer(client(program, mode), folder.path())
            .env("VK_INSTANCE_LAYERS", layers.join(":"))
            .env("VK_ADD_LAYER_PATH", std::env::join_paths(paths).expect("no colons"))
            .env("VK_LOADER_DEBUG", "layer")
            .run();
        ran.assert_code(0);
        let is_ours = layers.contains(&ours);
        assert_eq!(folder.path().join("report.json").exists(), is_ours, "{ran}");
        let mut order = layer_order(&ran.stderr);
        order.retain(|(name, _)| [ours, validation].contains(&&**name));
        let names: Vec<_> = order.iter().map(|(name, _)| &**name).collect();
        let theirs = order.iter().find(|(name, _)| name == validation);
        if theirs.is_some() {
            assert_eq!(names, layers, "{ran}");
        }
        let lines = ran.stdout.lines().chain(ran.stderr.lines());
        let rules = lines.filter_map(|line| line.split("VUID-").nth(1)?.split(' ').next());
        let folder = theirs.and_then(|(_, manifest)| manifest.parent());
        (rules.map(str::to_owned).collect::<Vec<_>>(), folder.map(Path::to_owned))
    };
    let (alone, folder) = rules("mistake", &[validation], Path::new("/nonexistent"));
    let Some(folder) = folder else {
        return skip("validation", test, "there is no validation layer");
    };
    assert!(!alone.is_empty());
    for order in [[ours, validation], [validation, ours]] {
        for (mode, said) in [("mistake", &alone[..]), ("plain", &[])] {
            let (rules, found) = rules(mode, &order, &folder);
            assert_eq!((&rules[..], found.is_some()), (said, true), "{order:?}");
        }
    }
}

#[test]
fn ly12_a_messenger_that_is_left_does_no_harm() {
    let test = "ly12_a_messenger_that_is_left_does_no_harm";
    let Some(program) = program(test) else { return };
    let folder = folder();
    in_folder(program, "messenger", &folder).run().assert_code(0);
    let report = only_report(&folder);
    let messenger = |number| sum(&report, "VkDebugUtilsMessengerEXT", number);
    assert_eq!((messenger("objects_alive"), messenger("total_bytes")), (1, 0));
}

#[test]
fn ly34_a_signal_or_a_file_requests_a_report_and_the_next_command_writes_it() {
    let test = "ly34_a_signal_or_a_file_requests_a_report_and_the_next_command_writes_it";
    let Some(program) = program(test) else { return };
    for (mode, commands) in [("signal", 8), ("request", 64)] {
        let folder = folder();
        let report = folder.path().join("report.json");
        let request = folder.path().join("report.txt.request");
        let run = |settings: &[(&str, &str)]| {
            let child = client(program, mode).args([&request]);
            let child = with_layer(child, folder.path()).env("VK_STEWARD_MEMORY_JSON", &report);
            let child = settings.iter().fold(child, |child, (name, value)| child.env(name, value));
            child.run()
        };
        // It ends by `_exit`: there is no report but the one that was requested.
        run(&[("VK_STEWARD_MEMORY_SIGNAL", "USR2")]).assert_code(3);
        let report = fs::read(&report).expect("a report");
        let report: Value = serde_json::from_slice(&report).expect("JSON");
        assert_eq!(report["source"]["commands"], commands, "{mode}");
        assert!(!request.exists(), "{mode}: a request is for one report");
    }
    let folder = folder();
    let unset = in_folder(program, "signal", &folder).run();
    assert_eq!(unset.signal, Some(libc::SIGUSR2), "no handler without the setting");
}

#[test]
fn ly35_the_state_outlives_every_end_without_a_report() {
    let test = "ly35_the_state_outlives_every_end_without_a_report";
    let Some(program) = program(test) else { return };
    for (mode, code, signal) in [
        ("kill", None, Some(libc::SIGKILL)),
        ("abort", None, Some(libc::SIGABRT)),
        ("_exit", Some(3), None),
        ("segv", None, Some(libc::SIGSEGV)),
    ] {
        let folder = folder();
        let ran = in_folder(program, mode, &folder).run();
        assert_eq!((ran.code, ran.signal), (code, signal), "{mode}: {ran}");
        assert_eq!(reports(&folder), Vec::<Value>::new(), "{mode}");
        let files = files(folder.path(), "state");
        let [file] = &*files else { panic!("{mode}: {files:?}") };
        assert_eq!(fs::metadata(file).expect("a file").mode() & 0o777, 0o600);
        let state = state_file::read(file).expect("a state");
        // An instance, a device, four buffers, of which one was destroyed.
        assert_eq!((state.commands, state.started_commands), (7, 7), "{mode}");
        assert!(state.is_whole && state.reported_commands == 0, "{mode}");
        assert_eq!(state.last_command, Some("vkDestroyBuffer"));
        for (kind, created, alive) in [("VkInstance", 1, 1), ("VkDevice", 1, 1), ("VkBuffer", 4, 3)] {
            let row = state.kinds.iter().find(|row| row.kind == kind).expect(kind);
            assert_eq!((row.objects_created, row.objects_alive), (created, alive));
            assert!(row.usage.live_bytes > 0 && row.usage.peak_bytes >= row.usage.live_bytes);
        }
    }
}

#[test]
fn ly36_a_program_that_destroys_nothing_is_told_so_and_the_driver_not_blamed() {
    let test = "ly36_a_program_that_destroys_nothing_is_told_so_and_the_driver_not_blamed";
    let Some(program) = program(test) else { return };
    // What a guard knows of blocks that were never freed is no accusation either.
    for guard in ["", "fence", "strict", "cookie", "sampled=1"] {
        let folder = folder();
        let child = in_folder(program, "leave", &folder);
        let child = match guard {
            "" => child,
            guard => child.env("VK_STEWARD_MEMORY_GUARD", guard),
        };
        let ran = child.run();
        ran.assert_code(0);
        assert_eq!(ran.stderr, "", "{guard}");
        let report = only_report(&folder);
        for (kind, alive) in [("VkInstance", 1), ("VkDevice", 1), ("VkBuffer", 3)] {
            assert_eq!(sum(&report, kind, "objects_alive"), alive, "{guard}: {kind}");
            assert!(sum(&report, kind, "live_bytes") > 0, "{guard}: {kind}");
        }
        assert_eq!(report["findings"], json!([]), "{guard}");
        let text = files(folder.path(), "txt").remove(0);
        let text = fs::read_to_string(text).expect("a report");
        let sentence = "The program never destroyed 1 instance and 1 device";
        assert!(text.contains(sentence), "{guard}: {text}");
    }
}

#[test]
fn ly37_a_forked_child_has_a_report_only_for_an_instance_of_its_own() {
    let test = "ly37_a_forked_child_has_a_report_only_for_an_instance_of_its_own";
    let Some(program) = program(test) else { return };
    let folder = folder();
    in_folder(program, "fork", &folder).run().assert_code(0);
    let reports = reports(&folder);
    assert_eq!(reports.len(), 2, "{reports:?}");
    for report in &reports {
        assert_eq!(sum(report, "VkInstance", "objects_created"), 1, "{report}");
        assert_eq!(sum(report, "VkInstance", "objects_alive"), 0, "{report}");
    }
    assert_ne!(reports[0]["source"]["process"], reports[1]["source"]["process"]);
}

#[test]
fn ly37_a_program_that_executes_another_leaves_its_state_and_the_other_reports() {
    let test = "ly37_a_program_that_executes_another_leaves_its_state_and_the_other_reports";
    let Some(program) = program(test) else { return };
    // Itself, with another mode, as the same process: the environment and the process's number go on, and nothing else
    // does.
    let folder = folder();
    let child = in_folder(program, "exec", &folder).args(["plain"]);
    child.run().assert_code(0);
    let report = only_report(&folder);
    for (kind, created) in [("VkInstance", 1), ("VkDevice", 1), ("VkBuffer", 10)] {
        assert_eq!(sum(&report, kind, "objects_created"), created, "{kind}");
        assert_eq!(sum(&report, kind, "objects_alive"), 0, "{kind}");
    }
    // One process had two lives: the second one's state is in the place of the first one's.
    let states = files(folder.path(), "state");
    assert_eq!(states.len(), 1, "{states:?}");
    let state = state_file::read(&states[0]).expect("a state");
    assert_eq!(report["source"]["process"], state.process);
    assert!(state.is_whole && state.reported_commands == state.commands);
    // Another program that never opens Vulkan: what the first one left is its state alone.
    let folder = self::folder();
    let child = in_folder(program, "exec", &folder).args(["-c", "/bin/true"]);
    child.run().assert_code(0);
    assert_eq!(reports(&folder), Vec::<Value>::new());
    let states = files(folder.path(), "state");
    let state = state_file::read(&states[0]).expect("a state");
    assert_eq!((state.commands, state.reported_commands), (7, 0));
    let buffers = state.kinds.iter().find(|row| row.kind == "VkBuffer");
    assert_eq!(buffers.map(|row| row.objects_alive), Some(3));
}

#[test]
fn ly41_a_setting_that_is_no_text_is_named() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let test = "ly41_a_setting_that_is_no_text_is_named";
    let Some(program) = program(test) else { return };
    let folder = folder();
    let child = in_folder(program, "plain", &folder);
    let value = OsStr::from_bytes(b"bad\xff");
    let done = child.env("VK_STEWARD_MEMORY_RECORD", value).run();
    let said = "VK_STEWARD_MEMORY_RECORD=bad\\xff is left out: it is no UTF-8 text";
    assert!(done.stderr.contains(said), "{done}");
}

#[test]
fn ly38_instances_of_constructors_and_an_exit_from_a_thread_are_reported() {
    let test = "ly38_instances_of_constructors_and_an_exit_from_a_thread_are_reported";
    let Some(program) = program(test) else { return };
    for (mode, kind, alive) in [
        ("static", "VkInstance", 0),
        ("exit-from-thread", "VkBuffer", 3),
        // What a handler of the program ends that runs behind the layer's own.
        ("late", "VkDevice", 0),
    ] {
        let folder = folder();
        in_folder(program, mode, &folder).run().assert_code(0);
        let report = only_report(&folder);
        assert!(sum(&report, kind, "objects_created") > 0, "{mode}");
        assert_eq!(sum(&report, kind, "objects_alive"), alive, "{mode}");
    }
}

#[test]
fn ly38_instances_of_a_library_that_comes_and_goes_are_reported() {
    let test = "ly38_instances_of_a_library_that_comes_and_goes_are_reported";
    let Some(program) = program(test) else { return };
    let library = compile_c_library(Path::new(SOURCE), Path::new(FOLDER));
    let library = library.expect("it compiled the program");
    let folder = folder();
    let child = in_folder(program, "library", &folder).args([&library]);
    child.run().assert_code(0);
    // One life that ends while the library is there, and one whose objects it leaves when it is unloaded.
    let report = only_report(&folder);
    for (kind, created, alive) in [("VkInstance", 2, 1), ("VkDevice", 2, 1), ("VkBuffer", 14, 3)] {
        assert_eq!(sum(&report, kind, "objects_created"), created, "{kind}");
        assert_eq!(sum(&report, kind, "objects_alive"), alive, "{kind}");
    }
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn ly47_with_raised_privileges_nothing_is_replaced_or_written() {
    let test = "ly47_with_raised_privileges_nothing_is_replaced_or_written";
    let Some(program) = CLIENT.as_deref() else {
        return skip("cc", test, "there is no compiler for C");
    };
    // Another user has to reach the copies, and could write reports.
    let folder = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("our folder");
    let copies = [program.to_owned(), library()].map(|file| {
        let copy = folder.path().join(file.file_name().expect("a name"));
        fs::copy(file, &copy).expect("a copy");
        copy
    });
    let [program, library] = &copies;
    let run = || {
        let run = Child::new(program).args([Path::new("secure"), library]);
        let run = run.env("VK_STEWARD_MEMORY_STATE", folder.path().join("report.state"));
        let run = run.env("VK_STEWARD_MEMORY_JSON", folder.path().join("report.json")).run();
        run.assert_code(0);
        run.stdout
    };
    let written = || fs::read_dir(folder.path()).expect("a folder").count() - copies.len();
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return skip("root", test, "only root can make a copy of another user's");
    }
    let nobody = Some(65534);
    std::os::unix::fs::chown(program, nobody, nobody).expect("root may");
    fs::set_permissions(program, Permissions::from_mode(0o4755)).expect("our file");
    let said = run();
    if said.starts_with("privileged 0") {
        return skip("setuid", test, "the folder's file system raises no privileges");
    }
    assert_eq!((said.trim(), written()), ("privileged 1 replaced 0", 0));
    fs::set_permissions(program, Permissions::from_mode(0o755)).expect("our file");
    // Without them it is the layer that this would have caught.
    assert_eq!((run().trim(), written()), ("privileged 0 replaced 1", 2));
}

/// SwiftShader frees a pipeline layout in `vkDestroyPipeline`, through the pipeline's callbacks.
#[test]
fn ly61_layouts_that_swiftshader_frees_through_the_pipelines_callbacks_are_freed() {
    const ROUNDS: u64 = 300;
    let test = "ly61_layouts_that_swiftshader_frees_through_the_pipelines_callbacks_are_freed";
    let Some(program) = CLIENT.as_deref() else {
        return skip("cc", test, "there is no compiler for C");
    };
    let Some(manifest) = testkit::swiftshader() else {
        return skip("swiftshader", test, "STEWARD_SWIFTSHADER names no manifest");
    };
    for check in ["true", "false"] {
        let folder = folder();
        in_folder(program, "layouts", &folder)
            .env_remove("VK_LOADER_DRIVERS_SELECT")
            .env("VK_DRIVER_FILES", &manifest)
            .env("VK_ICD_FILENAMES", &manifest)
            .env("VK_STEWARD_MEMORY_CHECK", check)
            .run()
            .assert_code(0);
        let report = only_report(&folder);
        let layouts = |number| sum(&report, "VkPipelineLayout", number);
        assert_eq!((layouts("live_blocks"), layouts("total_blocks")), (0, ROUNDS));
        let one = layouts("total_bytes") / ROUNDS;
        assert_eq!(layouts("peak_bytes"), one, "never two at once");
        if check == "false" {
            continue;
        }
        let findings = report["findings"].as_array().expect("findings");
        let of_layouts = |row: &&Value| {
            let sentence = row["sentence"].as_str().expect("a sentence");
            sentence.contains("VkPipelineLayout's")
        };
        let found: Vec<_> = findings.iter().filter(of_layouts).collect();
        let [one] = *found else { panic!("{found:?}") };
        let numbers = (&one["kind"], &one["count"]);
        assert_eq!(numbers, (&json!("FreedThroughOther"), &json!(ROUNDS)));
    }
}
