//! What another user of the machine may try with the program's inputs and outputs, and pipes at both.
//! `vk-report/src/files` and `vk-layer/tests/it/security.rs` have more of it.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use testkit::{Child, Finished, skip};

const STEWARD: &str = env!("CARGO_BIN_EXE_steward");
/// The user `nobody`.
const OTHER: u32 = 65534;

fn steward(arguments: &[&Path]) -> Finished {
    let child = Child::new(STEWARD).args(arguments);
    child.limit(Duration::from_secs(50)).run()
}

/// A trace of one owner.
fn trace(folder: &Path) -> PathBuf {
    let file = folder.join("trace");
    fs::write(&file, TRACE).expect("a file");
    file
}

const TRACE: &str = "# steward host trace 2\n# driver: d\no,1,0,VkBuffer\ne,1,1,vkCreateBuffer\na,1,1,1,8,8,1\nl,1,0\ne,1,1,vkDestroyBuffer\nf,1,1,1\nl,1,0\nz,9\n";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o7777
}

fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

/// The outputs of a run.
const OUTPUTS: [&str; 3] = ["--json", "--html", "--profile"];

fn replay(trace: &Path, output: &str, file: &Path) -> Finished {
    steward(&["replay".as_ref(), trace, output.as_ref(), file])
}

#[test]
fn an_output_passes_no_link_of_another_user() {
    let test = "an_output_passes_no_link_of_another_user";
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let trace = trace(folder.path());
    fs::create_dir(at("home")).expect("a folder");
    fs::write(at("home/bashrc"), "alias\n").expect("a file");
    fs::set_permissions(at("home/bashrc"), Permissions::from_mode(0o640)).expect("own");
    for (target, link) in [("home/bashrc", "to_file"), ("home", "to_folder"), ("home/new", "to_nothing")] {
        symlink(at(target), at(link)).expect("a link");
        if lchown(at(link), Some(OTHER), None).is_err() {
            return skip("root", test, "links of another user can be made as root alone");
        }
    }
    for output in OUTPUTS {
        for name in ["to_file", "to_folder/new", "to_nothing"] {
            let done = replay(&trace, output, &at(name));
            done.assert_code(2);
            assert!(done.stderr.contains("is a link of another user"), "{done}");
        }
    }
    // The layer's two files as well; a folder is not made through it either.
    let to_folder = at("to_folder");
    let install = ["layer", "install", "--dir"].map(Path::new);
    let done = steward(&[&install[..], &[&to_folder]].concat());
    done.assert_code(2);
    assert_eq!(fs::read_dir(at("home")).expect("a folder").count(), 1, "{done}");
    let left = fs::read_to_string(at("home/bashrc")).expect("a file");
    assert_eq!((left.as_str(), mode(&at("home/bashrc"))), ("alias\n", 0o640));
}

#[test]
fn a_new_output_is_private_and_an_old_one_keeps_its_mode() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let trace = trace(folder.path());
    for output in OUTPUTS {
        let file = at(output);
        replay(&trace, output, &file).assert_code(0);
        assert_eq!(mode(&file), 0o600, "{output}");
        fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("own");
        replay(&trace, output, &file).assert_code(0);
        assert_eq!(mode(&file), 0o644, "{output}");
        // This user's own link leads to it, and stays.
        let link = at("link");
        symlink(&file, &link).expect("a link");
        let before = fs::metadata(&file).expect("a file").modified().expect("a time");
        thread::sleep(Duration::from_millis(20));
        replay(&trace, output, &link).assert_code(0);
        assert!(link.is_symlink());
        assert_ne!(fs::metadata(&file).expect("a file").modified().expect("a time"), before);
        fs::remove_file(&link).expect("there");
    }
    let left = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, OUTPUTS.len() + 1, "no part is left");
}

#[test]
fn pipes_are_written_and_read_and_a_pipe_without_an_other_end_ends_the_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path());
    let name = folder.path().join("pipe");
    pipe(&name);
    for done in [
        replay(&trace, "--json", &name),
        steward(&["replay".as_ref(), &name]),
        steward(&["diff".as_ref(), &name, &trace]),
        steward(&["check".as_ref(), "--trace".as_ref(), &trace, "--expect".as_ref(), &name]),
    ] {
        done.assert_code(2);
        assert!(done.stderr.contains(" this pipe: start its "), "{done}");
    }
    // No plain file: not opened.
    let top = ["top", "--once", "--state"].map(Path::new);
    let done = steward(&[&top[..], &[&name]].concat());
    done.assert_code(2);
    assert!(done.stderr.contains("no plain file"), "{done}");
    // With another end, which may come a little later.
    let reader = name.clone();
    let reading = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        fs::read_to_string(reader)
    });
    replay(&trace, "--json", &name).assert_code(0);
    let json = reading.join().expect("it ends").expect("text");
    assert!(json.contains("steward report"), "{json}");
    let writer = name.clone();
    let writing = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        fs::write(writer, TRACE)
    });
    steward(&["replay".as_ref(), &name]).assert_code(0);
    writing.join().expect("it ends").expect("written");
    assert!(!name.is_file());
}

#[test]
fn the_standard_output_is_written_in_place_under_each_of_its_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(folder.path());
    let is_json = |text: &str| text.contains("\"steward report 4\"");
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let done = replay(&trace, "--json", Path::new(name));
        done.assert_code(0);
        assert!(is_json(&done.stdout), "{name}: {done}");
        let file = folder.path().join("file");
        let to = fs::File::create(&file).expect("a file");
        let mut child = Command::new(STEWARD);
        let child = child.arg("replay").arg(&trace).args(["--json", name]);
        let status = child.stdout(to).stderr(Stdio::null()).status();
        assert!(status.expect("it runs").success());
        let mut text = String::new();
        fs::File::open(&file).and_then(|mut file| file.read_to_string(&mut text)).expect("text");
        assert!(is_json(&text), "{name}: {text}");
    }
}
