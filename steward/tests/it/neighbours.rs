//! `steward run` beside other layers, beside installed copies of the layer, and from folders with odd names. A client
//! in C runs on lavapipe.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};
use testkit::{Child, Finished, compile_c, compile_c_library, layer_order, skip};

use crate::run::{STEWARD, is_program, json as read_json, steward, with_our_layer};

const OURS: &str = "VK_LAYER_STEWARD_memory";
const OTHER: &str = "VK_LAYER_TEST_other";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../vk-layer/tests");

/// The client, or a skip.
fn client(test: &str) -> Option<&'static Path> {
    static CLIENT: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let source = Path::new(SOURCES).join("client.c");
        compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR")))
    });
    static RUNS: LazyLock<bool> = LazyLock::new(|| {
        let run = |client: &PathBuf| with_our_layer(Child::new(client)).args(["plain"]).run().code == Some(0);
        CLIENT.as_ref().is_some_and(run)
    });
    let Some(client) = CLIENT.as_deref() else {
        skip("cc", test, "there is no compiler for C");
        return None;
    };
    if !*RUNS {
        skip("lavapipe", test, "the client finds no lavapipe");
        return None;
    }
    Some(client)
}

/// `steward run --json FILE -- CLIENT MODE`.
fn run(report: &Path, client: &Path, mode: &[&str]) -> Child {
    steward(&["run", "--json"]).args([report, Path::new("--"), client]).args(mode)
}

fn manifest(name: &str, library: &Path) -> String {
    json!({
        "file_format_version": "1.2.1",
        "layer": {
            "name": name,
            "type": "GLOBAL",
            "library_path": library,
            "api_version": "1.4.0",
            "implementation_version": "1",
            "description": "",
        },
    })
    .to_string()
}

/// The library of a layer that wraps physical devices.
fn other_library() -> PathBuf {
    let source = Path::new(SOURCES).join("layer.c");
    compile_c_library(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("the client was compiled")
}

/// Both layers, as the loader has put them; the one next to the program first.
fn order(done: &Finished) -> Vec<String> {
    let order = layer_order(&done.stderr).into_iter().map(|(name, _)| name);
    order.filter(|name| [OURS, OTHER].contains(&&**name)).collect()
}

#[test]
fn ly42_the_layer_stands_below_the_other_explicit_layers_or_says_who_is_below() {
    let test = "ly42_the_layer_stands_below_the_other_explicit_layers_or_says_who_is_below";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let manifests = folder.path().join("vulkan/explicit_layer.d");
    fs::create_dir_all(&manifests).expect("a folder");
    fs::write(manifests.join("other.json"), manifest(OTHER, &other_library())).expect("a file");
    let report = folder.path().join("report.json");
    let both = format!("{OURS}:{OTHER}");
    // The drivers' manifests are there, too.
    let system = format!("{}:/usr/local/share:/usr/share", folder.path().display());
    // The variable that names the folder, and the one that names the layer.
    for (path, at) in [
        ("VK_ADD_LAYER_PATH", &*manifests),
        ("VK_LAYER_PATH", &manifests),
        ("XDG_CONFIG_HOME", folder.path()),
        ("XDG_CONFIG_DIRS", folder.path()),
        ("XDG_DATA_HOME", folder.path()),
        ("XDG_DATA_DIRS", Path::new(&system)),
    ] {
        for (named_by, value) in [
            ("VK_INSTANCE_LAYERS", OTHER),
            ("VK_INSTANCE_LAYERS", &both),
            ("VK_LOADER_LAYERS_ENABLE", "*test_other"),
            // The program itself.
            ("", ""),
        ] {
            let mode = if named_by.is_empty() { &["named", OTHER][..] } else { &["plain"] };
            let child = run(&report, client, mode).env(path, at).env("VK_LOADER_DEBUG", "layer");
            let child = if named_by.is_empty() { child } else { child.env(named_by, value) };
            let done = child.run();
            done.assert_code(0);
            let report = read_json(&report);
            let order = order(&done);
            let case = format!("{path} {named_by} {value}");
            let is_below = order == [OURS, OTHER];
            assert!(is_below || order == [OTHER, OURS], "{case}: {order:?}");
            assert!(!is_below || named_by != "VK_INSTANCE_LAYERS", "{case}: {order:?}");
            // Who is below is said, in one line of the text, too.
            let below = report["source"]["layers_below"].as_array().expect("a list");
            assert_eq!(below.len(), usize::from(is_below), "{case}: {below:?}");
            let said = done.stderr.lines().filter(|line| line.starts_with("layers below,"));
            assert_eq!(said.count(), usize::from(is_below), "{case}: {done}");
            let named = json!(if named_by == "VK_LOADER_LAYERS_ENABLE" { vec![] } else { vec![OTHER] });
            assert_eq!(report["source"]["layers"], named, "{case}");
        }
    }
}

#[test]
fn ly42_ly43_folders_and_libraries_with_odd_names_have_a_report() {
    let test = "ly42_ly43_folders_and_libraries_with_odd_names_have_a_report";
    let Some(client) = client(test) else { return };
    // Beside the library, so that it can have another name there.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let report = folder.path().join("report.json");
    let ours = std::env::current_exe().expect("a path").with_file_name("libVkLayer_steward_memory.so");
    let names = [
        "plain",
        "co:lon",
        ":",
        "100%",
        "%p",
        "spa ce ",
        "new\nline",
        "quo\"te",
        "back\\slash",
        "\u{e9}\u{1f980}",
        "a;b,c#d'e$(f)",
    ];
    let long = "long".repeat(60);
    let names = names.iter().map(|name| OsString::from(*name));
    let names = names.chain([OsStr::from_bytes(b"\xff\xfe").to_owned(), format!("{long}/{long}/{long}/{long}").into()]);
    for name in names {
        let odd = folder.path().join(&name);
        fs::create_dir_all(&odd).expect("a folder");
        let in_folder = run(&report, client, &["plain"]).env("TMPDIR", &odd).run();
        let library = odd.join("libVkLayer_steward_memory.so");
        fs::hard_link(&ours, &library).expect("the same file system");
        let with_library = run(&report, client, &["plain"]).env("STEWARD_LAYER", &library).run();
        for done in [in_folder, with_library] {
            done.assert_code(0);
            assert!(done.stderr.contains("VkBuffer"), "{name:?}: {done}");
            assert!(!done.stderr.contains("steward: "), "{name:?}: {done}");
            assert!(read_json(&report)["source"]["process"].is_number());
        }
        fs::remove_file(&library).expect("a file");
        assert_eq!(fs::read_dir(&odd).expect("a folder").count(), 0, "{name:?}");
    }
    // Relative to a working folder with such a name.
    let odd = folder.path().join("co:lon");
    fs::create_dir(odd.join("t")).expect("a folder");
    let script = format!("cd '{}' && TMPDIR=t exec '{STEWARD}' run -- '{}' plain", odd.display(), client.display());
    let done = with_our_layer(Child::new("sh")).args(["-c", &script]).run();
    done.assert_code(0);
    assert!(done.stderr.contains("VkBuffer"), "{done}");
}

#[test]
fn ly42_of_several_libraries_the_named_one_is_loaded_or_the_other_is_named() {
    let test = "ly42_of_several_libraries_the_named_one_is_loaded_or_the_other_is_named";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let loaded = |child: Child| {
        let done = child.env("XDG_DATA_HOME", folder.path()).run();
        done.assert_code(0);
        let library = read_json(&report)["program"]["library"].clone();
        (done, library.as_str().expect("a file").to_owned())
    };
    let install = |action: &str| steward(&["layer", action, "--user"]).env("XDG_DATA_HOME", folder.path()).run();
    install("install").assert_code(0);
    let installed = folder.path().join("vulkan/explicit_layer.d/VkLayer_steward_memory.json");
    let copy = folder.path().join("steward/libVkLayer_steward_memory.so");
    let (done, library) = loaded(run(&report, client, &["plain"]));
    assert!(!copy.display().to_string().ends_with(&library), "{library}");
    assert!(!done.stderr.contains("steward: "), "{done}");
    // The installed manifest names another library, or none that exists.
    for library in [other_library(), "/nonexistent/lib.so".into()] {
        let text = fs::read_to_string(&installed).expect("a manifest");
        fs::write(&installed, manifest(OURS, &library)).expect("a file");
        let (done, _) = loaded(run(&report, client, &["plain"]));
        assert!(!done.stderr.contains("steward: "), "{done}");
        fs::write(&installed, text).expect("a file");
    }
    // A program that sets the loader's variable itself.
    let script = format!("VK_ADD_LAYER_PATH= exec '{}' plain", client.display());
    let (done, library) = loaded(run(&report, Path::new("sh"), &["-c", &script]));
    assert!(copy.display().to_string().ends_with(&library), "{library}");
    let lines: Vec<_> = done.stderr.lines().filter(|line| line.starts_with("steward: ")).collect();
    let [line] = lines[..] else { panic!("{done}") };
    assert!(line.contains("the loader has loaded the layer from"), "{line}");
    assert!(line.contains(&library) && line.contains(&installed.display().to_string()), "{line}");
    assert_eq!(install("uninstall").code, Some(0));
}

#[test]
fn ly55_a_manifest_of_another_version_is_replaced_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let layer = |action: &str| {
        let done = steward(&["layer", action, "--user"]).env("XDG_DATA_HOME", folder.path()).run();
        done.assert_code(0);
        done.stdout
    };
    layer("install");
    let installed = folder.path().join("vulkan/explicit_layer.d/VkLayer_steward_memory.json");
    let now = fs::read_to_string(&installed).expect("a manifest");
    let copy = folder.path().join("steward/libVkLayer_steward_memory.so");
    let older = manifest(OURS, &copy);
    assert_ne!(older, now);
    fs::write(&installed, &older).expect("a file");
    layer("install");
    assert_eq!(fs::read_to_string(&installed).expect("a manifest"), now);
    fs::write(&installed, older).expect("a file");
    layer("uninstall");
    assert!(!installed.exists() && !copy.exists());
}

#[test]
fn ly39_a_program_may_enable_the_extension_of_the_settings_that_it_chains() {
    let test = "ly39_a_program_may_enable_the_extension_of_the_settings_that_it_chains";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let settings = || Child::new(client).args([OsStr::new("settings"), report.as_os_str()]);
    let file = report.display().to_string();
    let manifest = |options: &[&str]| steward(&["layer", "--print-manifest"]).args(options).run().stdout;
    let explicit = folder.path().join("explicit");
    fs::create_dir(&explicit).expect("a folder");
    fs::write(explicit.join("m.json"), manifest(&[])).expect("a file");
    // Loaders of 2023 would list it to every program, and then refuse it.
    assert!(!manifest(&["--implicit"]).contains("VK_EXT_layer_settings"));
    for (way, child) in [
        ("run", steward(&["run", "--"]).args([client]).args(["settings", &file])),
        ("explicit", with_our_layer(settings()).env("VK_ADD_LAYER_PATH", &explicit).env("VK_INSTANCE_LAYERS", OURS)),
    ] {
        // Loaders of 2023 refuse extensions that they do not know, whoever offers them.
        let done = child.env("VK_LOADER_DISABLE_INST_EXT_FILTER", "1").run();
        done.assert_code(0);
        assert_eq!(done.stdout, "VK_EXT_layer_settings 2\n", "{way}");
        // What it chains holds before what a run sets.
        let report_of_layer: Value = read_json(&report);
        let complaints = report_of_layer["program"]["settings"].as_array().expect("a list");
        let complaints: Vec<_> = complaints.iter().filter_map(Value::as_str).collect();
        for (name, fault) in [("check", "the unknown type 99"), ("stacks", "valueCount is 0"), ("interval", "2 values")]
        {
            let is_said = |line: &&str| line.contains(&format!("steward_memory.{name} ")) && line.contains(fault);
            assert!(complaints.iter().any(is_said), "{way} {name}: {complaints:?}");
        }
        assert_eq!(complaints.len(), 3, "{complaints:?}");
        fs::remove_file(&report).expect("a file");
    }
}

#[test]
fn ly44_what_keeps_the_loader_from_the_layer_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let no_report = |name: &str, value: &OsStr| steward(&["run", "--", "true"]).env(name, value).run().stderr;
    for (name, value) in [
        ("VK_LOADER_LAYERS_DISABLE", "~all~"),
        ("VK_LOADER_LAYERS_DISABLE", "~explicit~,x"),
        ("VK_LOADER_LAYERS_ALLOW", "*other*"),
        ("VK_STEWARD_MEMORY_MATCH", "another*"),
        ("VK_DRIVER_FILES", "/nonexistent"),
        ("VK_LOADER_DRIVERS_DISABLE", "*"),
    ] {
        let said = no_report(name, OsStr::new(value));
        assert!(said.contains(&format!("{name} is set ({value})")), "{said}");
    }
    let said = no_report("VK_LOADER_UNRELATED", OsStr::new("x"));
    assert!(said.contains("no report: true created no instance") && !said.contains("UNRELATED"), "{said}");
    assert!(said.contains("another user (sudo, su, setpriv)") && said.contains("a sandbox"), "{said}");
    let manifests = folder.path().join("vulkan/explicit_layer.d");
    fs::create_dir_all(&manifests).expect("a folder");
    let installed = manifests.join("any.json");
    fs::write(&installed, manifest(OURS, Path::new("/nonexistent/lib.so"))).expect("a file");
    let said = no_report("XDG_DATA_HOME", folder.path().as_os_str());
    assert!(said.contains(&installed.display().to_string()), "{said}");
}

#[test]
fn ly44_a_change_of_user_is_a_named_reason() {
    let test = "ly44_a_change_of_user_is_a_named_reason";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("client");
    fs::copy(client, &program).expect("a file");
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(folder.path(), open).expect("its owner");
    let alone = with_our_layer(Child::new(other[0])).args(&other[1..]).args([&program]).args(["plain"]);
    if !is_program("setpriv") || alone.run().code != Some(0) {
        return skip("setpriv", test, "a program cannot be run as another user here");
    }
    let done = steward(&["run", "--"]).args(other).args([&program]).args(["plain"]).run();
    done.assert_code(0);
    assert!(done.stderr.contains("become another user (sudo, su, setpriv)"), "{done}");
    // As that user, behind the change, there is a report.
    let behind = with_our_layer(Child::new(other[0])).args(&other[1..]).args([STEWARD, "run", "--"]);
    let behind = behind.args([&program]).args(["plain"]).run();
    assert!(behind.code != Some(0) || behind.stderr.contains("VkBuffer"), "{behind}");
}
