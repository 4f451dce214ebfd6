//! The house rules that a machine can check: who imports whom, what each library's face must hold, how long a file may
//! be.

use std::collections::BTreeSet;

use crate::common::{LIBRARIES, denied, files, metadata, root, text};
use cargo_metadata::{DependencyKind, Metadata, Package};

fn package<'a>(metadata: &'a Metadata, directory: &str) -> &'a Package {
    let manifest = root().join(directory).join("Cargo.toml");
    let found = metadata.packages.iter().find(|package| package.manifest_path.as_std_path() == manifest);
    found.unwrap_or_else(|| panic!("no package in {directory}"))
}

/// Names of the dependencies that are built into the package itself.
fn imports(package: &Package) -> BTreeSet<&str> {
    let built_in = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
    built_in.map(|dependency| dependency.name.as_str()).collect()
}

/// Who only allocates compiles no hash: with the cache it is there, so it would be seen.
#[test]
fn di11_the_allocator_alone_is_few_packages() {
    let packages = |features: &[&str]| -> BTreeSet<String> {
        let listed = std::process::Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--package=gpu-suballoc"])
            .args(["--edges=normal,build", "--prefix=none", "--format={p}"])
            .arg("--no-default-features")
            .args(features)
            .current_dir(root())
            .output()
            .expect("cargo runs");
        assert!(listed.status.success(), "{listed:?}");
        let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
        let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        lines.lines().map(name).collect()
    };
    let alone = packages(&[]);
    assert!(alone.contains("gpu-suballoc") && alone.len() <= 8, "{alone:?}");
    assert!(packages(&["--features=cache"]).contains("blake3"));
}

#[test]
fn nobody_imports_a_sibling() {
    let metadata = metadata();
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let ours_in = |directory: &str| -> BTreeSet<&str> {
        imports(package(&metadata, directory)).into_iter().filter(|name| ours.contains(name)).collect()
    };
    assert_eq!(ours_in("alloc-core"), BTreeSet::new());
    for directory in ["debug-guard", "vk-callbacks", "gpu-suballoc", "testkit"] {
        assert_eq!(ours_in(directory), ["alloc-core"].into(), "{directory}");
    }
    assert_eq!(
        ours_in("vk-report"),
        ["alloc-core", "debug-guard", "vk-callbacks"].into(),
        "vk-report joins the siblings and knows nothing of the program"
    );
    assert_eq!(
        ours_in("vk-layer"),
        ["alloc-core", "debug-guard", "vk-report", "vk-callbacks"].into(),
        "what the loader loads into any program stays small"
    );
    assert_eq!(
        ours_in("steward-c"),
        ["alloc-core", "debug-guard", "gpu-suballoc", "vk-callbacks"].into(),
        "the C interface converts and calls"
    );
    assert!(ours_in("steward").is_disjoint(&["testkit", "steward-fuzz", "steward-benches"].into()));
}

/// Folders and files of `src` by floor, lowest first, of the crates without a circle. Who is on one floor does not know
/// its neighbour.
///
/// Beside each crate how many imports there are at the least, so that a crate that was not read is seen.
const FLOORS: [(&str, usize, &[&[&str]]); 5] = [
    (
        "vk-callbacks",
        60,
        &[
            &["commands", "fence", "header", "level", "live", "raw", "sync"],
            &["command", "pinned", "realloc_rules", "sink", "trace"],
            &["error", "keyed_hash"],
            &["driver"],
            &["ash", "bridge", "check", "recorder"],
        ],
    ),
    (
        "vk-report",
        10,
        &[&["files"], &["command_mark", "pattern", "units"], &["report"], &["guard_run", "meter", "state_file"]],
    ),
    (
        "steward",
        50,
        &[
            &["input", "os", "progress", "table"],
            &["drivers", "expectations", "profile", "symbols"],
            &["replay", "report", "workload"],
            &["diff"],
            &["workload_child"],
            &["callback_coverage"],
            &["cli"],
            &["program"],
        ],
    ),
    (
        "gpu-suballoc",
        100,
        &[
            &["flags", "on_drop"],
            &["threads"],
            &["id", "map_count", "shared_box", "sync", "waiting"],
            &["cache", "group", "host_memory", "memory_type"],
            &["growable_vec"],
            &["device"],
            &["request"],
            &["range"],
            &["error", "region"],
            &["view"],
            &["pool"],
            &["region_metadata"],
            &["allocator"],
            &["context", "report"],
            &["ash"],
        ],
    ),
    (
        "debug-guard",
        100,
        &[
            &["changed", "fold", "segments"],
            &["mode", "report_kind", "sampling"],
            &["block", "os"],
            &["modules"],
            &["call_sites", "cookie", "slots"],
            &["report"],
            &["stack_depot"],
            &["guard"],
            &["fault_injection"],
        ],
    ),
];

#[test]
fn no_folder_imports_one_above_it() {
    let files = files();
    for (library, least, floors) in FLOORS {
        let floor_of = |name: &str| floors.iter().position(|floor| floor.contains(&name));
        let sources = format!("{library}/src/");
        let mut imports = 0;
        for (path, text) in &files {
            let Some(path) = path.strip_prefix(&sources) else {
                continue;
            };
            let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
            if ["lib", "main"].contains(&module) || path.contains("tests") || !path.ends_with(".rs") {
                continue;
            }
            let floor = floor_of(module).unwrap_or_else(|| panic!("{library}: {module} is on no floor"));
            let production = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
            for line in production.lines().filter(|line| !line.trim().starts_with("//")) {
                for (at, import) in line.match_indices("crate::") {
                    if line[..at].ends_with(|c: char| c == '$' || c == '_' || c.is_alphanumeric()) {
                        continue;
                    }
                    let rest = &line[at + import.len()..];
                    let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
                    let imported = &rest[..end];
                    assert!(
                        imported == module || floor_of(imported).is_some_and(|of| of < floor),
                        "{library}: {path} imports {imported:?}, which is not below it: {line}"
                    );
                    imports += 1;
                }
            }
        }
        assert!(imports > least, "{library}: {imports} imports were read");
    }
}

#[test]
fn libraries_import_little() {
    let metadata = metadata();
    let allowed = |directory: &str, allowed: &[&str], optional: &[&str]| {
        for dependency in &package(&metadata, directory).dependencies {
            let name = dependency.name.as_str();
            let fine = dependency.kind != DependencyKind::Normal
                || allowed.contains(&name)
                || dependency.optional && optional.contains(&name);
            assert!(fine, "{directory} may not import {name} (optional: {})", dependency.optional);
        }
    };
    allowed("alloc-core", &["allocator-api2", "hashbrown"], &["serde", "thiserror"]);
    // Tables that the checker finds by hash and an equality that is no key.
    allowed("vk-callbacks", &["alloc-core", "hashbrown"], &["ash"]);
    // blake3, which takes no memory and needs no system: a file of shaders is hashed as a whole, and contents are keys.
    // Who only allocates does not compile it.
    allowed("gpu-suballoc", &["alloc-core"], &["ash", "blake3"]);
    allowed("debug-guard", &["alloc-core", "libc"], &["libc"]);
    allowed(
        "vk-report",
        &[
            "alloc-core",
            "debug-guard",
            "libloading",
            "rustix",
            "serde",
            "serde_json",
            "tempfile",
            "thiserror",
            "vk-callbacks",
        ],
        &[],
    );
    allowed("steward-c", &["alloc-core", "ash", "debug-guard", "gpu-suballoc", "libc", "vk-callbacks"], &[]);
    allowed("vk-layer", &["alloc-core", "debug-guard", "libc", "vk-report", "vk-callbacks", "windows-sys"], &[]);
}

#[test]
fn ash_stays_in_its_folder() {
    for (name, text) in files() {
        let library =
            LIBRARIES.iter().chain(&["vk-report"]).find(|library| name.starts_with(&format!("{library}/src/")));
        if library.is_none() || !name.ends_with(".rs") || name.split('/').any(|part| part == "ash" || part == "ash.rs")
        {
            continue;
        }
        let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        for line in code {
            let names_ash = line.match_indices("ash::").any(|(at, _)| {
                let before = line.get(..at).and_then(|before| before.chars().next_back());
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
            });
            assert!(!names_ash, "{name} names ash outside of its folder: {line}");
        }
    }
}

#[test]
fn libraries_take_no_memory_of_their_own() {
    for library in LIBRARIES {
        let face = text(&format!("{library}/src/lib.rs"));
        assert!(face.lines().any(|line| line == "#![no_std]"), "{library} is not no_std");
        for lint in [
            "clippy::disallowed_types",
            "clippy::disallowed_methods",
            "clippy::disallowed_macros",
            "clippy::unwrap_used",
            "clippy::expect_used",
            "clippy::panic",
            "clippy::indexing_slicing",
        ] {
            assert!(denied(&face).contains(&lint), "{library} does not deny {lint}");
        }
    }
    for (name, text) in files() {
        if name.ends_with(".rs") && LIBRARIES.iter().any(|library| name.starts_with(&format!("{library}/src/"))) {
            let line = text.lines().find(|line| line.trim_start().starts_with("extern crate alloc"));
            assert_eq!(line, None, "{name} links alloc");
            // Clippy sees `Global` as a type, not as a value.
            let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            let global = code
                .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
                .any(|word| word == "Global");
            assert!(!global, "{name} names the global allocator");
        }
    }
}

#[test]
fn files_have_one_idea_each() {
    const THINK_AGAIN: usize = 450;
    const TOO_LONG: usize = 800;
    // A list of tests is read in parts.
    const TESTS_TOO_LONG: usize = 900;
    let mut too_long = Vec::new();
    for (name, text) in files().into_iter().filter(|(name, _)| name.ends_with(".rs")) {
        let lines = text.lines().count();
        let most = if name.contains("tests/") || name.ends_with("tests.rs") { TESTS_TOO_LONG } else { TOO_LONG };
        if lines > most {
            too_long.push(format!("{name}: {lines} lines"));
        } else if lines > THINK_AGAIN {
            println!("warning: {name} has {lines} lines: does it hold more than one idea?");
        }
    }
    assert!(
        too_long.is_empty(),
        "split these, the limit is {TOO_LONG} lines, of tests {TESTS_TOO_LONG}: {too_long:#?}"
    );
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let mut machine = vec![format!("{}/", root().display())];
    machine.extend(
        ["HOME", "CARGO_HOME", "CARGO_TARGET_DIR"]
            .iter()
            .filter_map(|key| std::env::var(key).ok())
            .map(|dir| format!("{dir}/")),
    );
    machine.retain(|dir| dir.len() > 4);
    for (name, text) in files() {
        for dir in &machine {
            assert!(!text.contains(dir.as_str()), "{name} names {dir}");
        }
    }
}
