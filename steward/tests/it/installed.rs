//! The program where it is installed alone, as `cargo install` leaves it: it has its layer with it. A client in C runs
//! on lavapipe.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Child, Finished, skip};

use crate::ended::client;
use crate::run::{STEWARD, files, json};

const LIBRARY: &str = "libVkLayer_steward_memory.so";

/// A copy of the program, with no layer beside it, and folders of its own for data and temporary files.
struct Installed {
    folder: TempDir,
}

impl Installed {
    fn new() -> Self {
        // Beside the program, so that a link is a copy.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        for name in ["bin", "data", "temporary"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        fs::hard_link(STEWARD, folder.path().join("bin/steward")).expect("the same file system");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn steward(&self) -> Child {
        self.with_environment(Child::new(self.path("bin/steward")))
    }

    fn with_environment(&self, child: Child) -> Child {
        child
            .env_remove("STEWARD_LAYER")
            .env_remove("VK_ADD_LAYER_PATH")
            .env_remove("VK_LAYER_PATH")
            .env_remove("VK_INSTANCE_LAYERS")
            .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
            .env("XDG_DATA_HOME", self.path("data"))
            .env("TMPDIR", self.path("temporary"))
    }

    fn layer(&self, arguments: &[&str]) -> Finished {
        self.steward().args(["layer"]).args(arguments).run()
    }

    /// The files that a run or an installation has left.
    fn left(&self) -> Vec<PathBuf> {
        ["data", "temporary"].map(|name| files(&self.path(name))).concat()
    }
}

#[test]
fn ly43_a_program_that_is_installed_alone_has_its_layer_with_it() {
    let installed = Installed::new();
    let script = format!("stat -c '%a %n' \"$VK_ADD_LAYER_PATH/{LIBRARY}\" \"$VK_ADD_LAYER_PATH\"");
    let done = installed.steward().args(["run", "sh", "-c", &script]).run();
    done.assert_code(0);
    let [library, folder] = done.stdout.lines().collect::<Vec<_>>()[..] else {
        panic!("{done}");
    };
    assert!(library.starts_with("600 ") && folder.starts_with("700 "), "{done}");
    let temporary = installed.path("temporary").display().to_string();
    assert!(folder["700 ".len()..].starts_with(&temporary), "{done}");
    assert_eq!(installed.left(), [""; 0].map(PathBuf::from));

    let test = "ly43_a_program_that_is_installed_alone_has_its_layer_with_it";
    let Some(client) = client(test) else { return };
    let report = installed.path("report.json");
    // Another library where `steward layer install` puts one: of another version, or somebody else's.
    fs::create_dir(installed.path("data/steward")).expect("a folder");
    let other = installed.path("data/steward").join(LIBRARY);
    fs::write(&other, "no library").expect("a file");
    // A name that no manifest may have.
    for name in ["temporary", "quo\"te"] {
        let temporary = installed.path(name);
        fs::create_dir_all(&temporary).expect("a folder");
        let done = installed
            .steward()
            .args(["run", "--json"])
            .args([report.as_os_str(), client.as_os_str(), OsStr::new("plain")])
            .env("TMPDIR", &temporary)
            .run();
        done.assert_code(0);
        assert!(done.stderr.contains("VkBuffer"), "{name}: {done}");
        assert!(!done.stderr.contains("steward: "), "{name}: {done}");
        let library = json(&report)["program"]["library"].clone();
        let library = library.as_str().expect("a file");
        assert!(library.contains("steward-run-"), "{name}: {library}");
        assert_eq!(files(&temporary), [""; 0].map(PathBuf::from), "{name}");
    }
    assert_eq!(installed.left(), [other]);
}

#[test]
fn ly55_an_installed_program_installs_its_layer_and_takes_it_away() {
    let installed = Installed::new();
    let print = installed.layer(&["--print-manifest"]);
    print.assert_code(2);
    assert!(print.stderr.contains("steward layer install --user"), "{print}");
    let place = "/usr/lib/steward/lib.so";
    let print = installed.layer(&["--print-manifest", "--library", place]);
    let manifest: Value = serde_json::from_str(&print.assert_code(0).stdout).expect("JSON");
    assert_eq!(manifest["layer"]["library_path"], place);

    installed.layer(&["install", "--user"]).assert_code(0);
    let library = installed.path("data/steward").join(LIBRARY);
    assert_eq!(installed.left().len(), 2);
    let is_elf = |file: &Path| fs::read(file).expect("a file").starts_with(b"\x7fELF");
    assert!(is_elf(&library));
    installed.layer(&["uninstall", "--user"]).assert_code(0);
    assert_eq!(installed.left(), [""; 0].map(PathBuf::from));
}

#[test]
fn a_layer_of_another_build_beside_the_program_is_not_used() {
    let installed = Installed::new();
    installed.layer(&["install", "--user"]).assert_code(0);
    let ours = fs::read(installed.path("data/steward").join(LIBRARY)).expect("the layer");
    installed.layer(&["uninstall", "--user"]).assert_code(0);
    let beside = installed.path("bin").join(LIBRARY);
    // As a package's, from which `strip` has taken something.
    let stripped = [&ours[..], b"\0"].concat();
    let cases = [(&b"of an older version"[..], false), (&ours, true), (&stripped, true)];
    for (library, is_used) in cases {
        fs::write(&beside, library).expect("a file");
        let script = "cat \"$VK_ADD_LAYER_PATH/steward.json\"";
        let done = installed.steward().args(["run", "sh", "-c", script]).run();
        let manifest: Value = serde_json::from_str(&done.assert_code(0).stdout).expect("JSON");
        let path = manifest["layer"]["library_path"].as_str().expect("a path");
        assert_eq!(Path::new(path) == beside, is_used, "{done}");
        let said = format!("steward: {} is the layer of another build", beside.display());
        let times = done.stderr.matches(&said).count();
        assert_eq!(times, usize::from(!is_used), "{done}");
    }
}

/// What the script does where `variable` names a file system of its own with these options. Nothing stays: it is in its
/// own mount namespace.
fn mounted(variable: &str, options: &str, script: &str, test: &str) -> Option<Finished> {
    let installed = Installed::new();
    let mount = format!("mount -t tmpfs -o {options} none \"${variable}\" || exit 77; {script}");
    let child = installed.with_environment(Child::new("unshare"));
    let done = child.args(["-rm", "sh", "-c", &mount, "sh"]).args([&installed.path("bin/steward")]).run();
    if done.code == Some(77) || done.stderr.contains("unshare") {
        skip("mount", test, "no file system can be mounted here");
        return None;
    }
    Some(done)
}

#[test]
fn a_folder_from_which_no_library_is_loaded_is_said() {
    let test = "a_folder_from_which_no_library_is_loaded_is_said";
    for (options, said) in [("exec", "created no instance"), ("noexec", "is mounted with `noexec`")] {
        let script = "exec \"$1\" run true";
        let Some(done) = mounted("TMPDIR", options, script, test) else {
            return;
        };
        assert!(done.stderr.contains(said), "{options}: {done}");
    }
}

#[test]
fn a_data_folder_from_which_no_library_is_loaded_gets_no_layer() {
    let test = "a_data_folder_from_which_no_library_is_loaded_gets_no_layer";
    let script = "\"$1\" layer install --user; code=$?; ls \"$XDG_DATA_HOME\"; exit $code";
    let Some(done) = mounted("XDG_DATA_HOME", "exec", script, test) else {
        return;
    };
    done.assert_code(0);
    let Some(done) = mounted("XDG_DATA_HOME", "noexec", script, test) else {
        return;
    };
    done.assert_code(2);
    assert!(
        done.stderr.contains("is mounted with `noexec`")
            && done.stderr.contains("name another folder with XDG_DATA_HOME or --dir"),
        "{done}"
    );
    assert_eq!(done.stdout, "", "nothing is written");
}
