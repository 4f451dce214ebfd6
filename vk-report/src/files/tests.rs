use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testkit::skip;

use super::{FilePlace, PRIVATE, SHARED, Written, append, check, create_folders, open, write};

/// The user `nobody`.
const OTHER: u32 = 65534;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").mode() & 0o7777
}

fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

/// A device that swallows all. As root one of this test alone: a fault would replace the system's own, which nobody
/// else can.
fn device(folder: &Path) -> PathBuf {
    let own = folder.join("device");
    let made = Command::new("mknod").arg(&own).args(["c", "1", "3"]).output();
    let is_usable = || OpenOptions::new().write(true).open(&own).is_ok();
    match made.expect("mknod").status.success() {
        true if is_usable() => own,
        true => panic!("{} holds no devices: set TMPDIR", folder.display()),
        false => PathBuf::from("/dev/null"),
    }
}

/// Makes the file another user's; `false` where that takes root.
fn to_other(test: &str, path: &Path) -> bool {
    let is_done = lchown(path, Some(OTHER), Some(OTHER)).is_ok();
    if !is_done {
        skip("root", test, "files of another user can be made as root alone");
    }
    is_done
}

#[track_caller]
fn assert_foreign<T>(result: io::Result<T>) {
    let error = result.err().expect("an error");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("another user"), "{error}");
}

#[test]
fn a_file_is_replaced_as_a_whole_and_nothing_is_left_of_a_failure() {
    let folder = folder();
    let name = folder.path().join("report");
    for text in ["first, and longer", "second"] {
        assert_eq!(check(&name).expect("it can be written"), Written::File);
        let written = write(&name, text.as_bytes(), PRIVATE);
        assert_eq!(written.expect("a folder that can be written to"), Written::File);
        assert_eq!((read(&name).as_str(), mode(&name)), (text, 0o600));
    }
    // Whoever has the old one open keeps it.
    let before = File::open(&name).expect("a file");
    write(&name, b"third", PRIVATE).expect("written");
    assert_eq!(io::read_to_string(before).expect("text"), "second");
    let taken = folder.path().join("folder");
    fs::create_dir_all(taken.join("file")).expect("a folder");
    for path in [&taken, Path::new("."), Path::new("/")] {
        let error = write(path, b"text", PRIVATE).expect_err("no file can be there");
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }
    let missing = folder.path().join("missing").join("report");
    write(&missing, b"text", PRIVATE).expect_err("no folder is made");
    check(&missing).expect_err("no folder is made");
    write(&name.join("below"), b"text", PRIVATE).expect_err("no folder");
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    left.sort();
    assert_eq!(left, ["folder", "report"]);
}

#[test]
fn a_file_keeps_its_mode_and_a_new_one_has_the_mode_that_is_named() {
    let folder = folder();
    let file = folder.path().join("file");
    for kept in [0o644, 0o400, 0o666, 0o4755] {
        fs::write(&file, "").expect("a file");
        fs::set_permissions(&file, Permissions::from_mode(kept)).expect("own");
        write(&file, b"text", PRIVATE).expect("written");
        // Its owner's rights in another's name are not carried over to other contents.
        assert_eq!(mode(&file), kept & 0o777);
        fs::remove_file(&file).expect("there");
    }
    write(&file, b"text", SHARED).expect("written");
    assert_eq!(mode(&file) & !0o022, 0o644, "less the mask");
    // Another name of the file keeps the old contents.
    let second = folder.path().join("second");
    fs::hard_link(&file, &second).expect("a second name");
    write(&file, b"new", PRIVATE).expect("written");
    assert_eq!((read(&file), read(&second)), ("new".into(), "text".into()));
    let mut added = append(&second).expect("own");
    io::Write::write_all(&mut added, b" and more").expect("written");
    assert_eq!(read(&second), "text and more");
}

#[test]
fn own_links_are_followed_in_every_part_and_a_circle_ends() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("a/b")).expect("folders");
    for (target, link) in [
        (PathBuf::from("a/b"), "to_b"),
        (PathBuf::from("../a/./b/../../to_b/file"), "a/to_file"),
        (at("a/to_file"), "absolute"),
        (PathBuf::from("circle"), "circle"),
    ] {
        symlink(target, at(link)).expect("a link");
    }
    for path in ["absolute", "to_b/file", "to_b/../../a/to_file", "a/to_file"] {
        write(&at(path), path.as_bytes(), PRIVATE).expect("written");
        assert_eq!(read(&at("a/b/file")), path);
        assert!(at("absolute").is_symlink() && at("a/to_file").is_symlink());
    }
    let error = write(&at("circle"), b"", PRIVATE).expect_err("no end");
    assert_eq!(error.raw_os_error(), Some(40), "ELOOP: {error}");
    create_folders(&at("to_b/new/and/newer")).expect("folders");
    create_folders(&at("to_b/new/and/newer")).expect("the same");
    assert!(at("a/b/new/and/newer").is_dir());
}

#[test]
fn links_and_files_of_another_user_are_not_passed() {
    let test = "links_and_files_of_another_user_are_not_passed";
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("own")).expect("a folder");
    fs::write(at("own/file"), "kept").expect("a file");
    symlink(at("own/file"), at("to_file")).expect("a link");
    symlink(at("own"), at("to_folder")).expect("a link");
    symlink(at("own/new"), at("to_nothing")).expect("a link");
    pipe(&at("pipe"));
    fs::write(at("theirs"), "").expect("a file");
    for name in ["to_file", "to_folder", "to_nothing", "pipe", "theirs"] {
        if !to_other(test, &at(name)) {
            return;
        }
    }
    // This user's link to another user's.
    symlink(at("to_file"), at("own_to_file")).expect("a link");
    for path in ["to_file", "to_folder/file", "to_folder/new", "to_nothing", "own_to_file", "pipe"] {
        assert_foreign(write(&at(path), b"text", PRIVATE));
        assert_foreign(check(&at(path)));
        assert_foreign(append(&at(path)));
    }
    assert_foreign(create_folders(&at("to_folder/new/newer")));
    assert_eq!(read(&at("own/file")), "kept");
    assert_eq!(fs::read_dir(at("own")).expect("a folder").count(), 1);
    // Root may replace the file of another user, and adds nothing to it; the new one is root's alone.
    assert_foreign(append(&at("theirs")));
    fs::set_permissions(at("theirs"), Permissions::from_mode(0o666)).expect("as root");
    write(&at("theirs"), b"text", PRIVATE).expect("as root");
    assert_eq!(mode(&at("theirs")), 0o600);
    // With a second name in a shared folder a file of this user may be any.
    fs::hard_link(at("own/file"), at("second")).expect("a second name");
    append(&at("second")).expect("in a folder of this user");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("own");
    assert_foreign(append(&at("second")));
    write(&at("second"), b"text", PRIVATE).expect("the other name stays");
    assert_eq!(read(&at("own/file")), "kept");
}

#[test]
fn pipes_and_devices_are_written_in_place_and_nothing_waits() {
    let folder = folder();
    let name = folder.path().join("pipe");
    pipe(&name);
    assert_eq!(check(&name).expect("own"), Written::InPlace);
    for refused in [write(&name, b"text", PRIVATE).map(drop), append(&name).map(drop)] {
        let error = refused.expect_err("nobody reads it");
        assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
    }
    let error = open(&name).expect_err("no plain file");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    // With a reader; more than a pipe holds, so that the reader is waited for.
    let text = vec![b'x'; 1 << 18];
    let mut reader = OpenOptions::new().read(true).write(true).open(&name).expect("a pipe");
    std::thread::scope(|scope| {
        let got = scope.spawn(|| {
            let mut got = vec![0; 1 << 18];
            reader.read_exact(&mut got).map(|()| got)
        });
        assert_eq!(write(&name, &text, PRIVATE).expect("it is read"), Written::InPlace);
        assert!(got.join().expect("it ends").expect("all") == text);
    });
    assert!(!name.is_file());
    let device = device(folder.path());
    let written = write(&device, b"x", PRIVATE).expect("a device");
    assert_eq!(written, Written::InPlace);
    open(&device).expect_err("no plain file");
    assert!(!device.is_file());
    // What the process has open, under the kernel's own link.
    let file = folder.path().join("open");
    let opened = File::create(&file).expect("a file");
    for link in ["/proc/self/fd", "/dev/fd"] {
        let link = PathBuf::from(link).join(opened.as_raw_fd().to_string());
        assert_eq!(write(&link, b"x", PRIVATE).expect("open"), Written::InPlace);
        open(&link).expect("a plain file");
    }
    assert_eq!(read(&file), "xx");
}

#[test]
fn a_place_is_that_of_a_file_until_another_one_has_the_name() {
    let folder = folder();
    let name = folder.path().join("file");
    let place = FilePlace::find(&name).expect("a folder");
    assert!(!place.is_there());
    let first = place.create_new().expect("a new file");
    assert!(place.is_of(&first) && mode(&name) == 0o600);
    let error = place.create_new().expect_err("it is there");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    place.remove().expect("it is there");
    assert!(!place.is_of(&first));
    let second = place.create_new().expect("a new file");
    assert!(place.is_of(&second) && !place.is_of(&first));
    assert!(FilePlace::find(&name).expect("a folder").is_there());
}

/// As of threads, so of processes with one number in two PID namespaces.
#[test]
fn writers_of_one_file_take_nothing_from_each_other() {
    let folder = folder();
    let name = folder.path().join("report");
    std::thread::scope(|scope| {
        for letter in ["a", "b", "c", "d"] {
            let name = &name;
            scope.spawn(move || {
                for _ in 0..50 {
                    let whole = letter.repeat(1 << 16);
                    write(name, whole.as_bytes(), PRIVATE).expect("a file of this writer");
                    let read = read(name);
                    let first = read.get(..1).expect("a letter");
                    assert_eq!(read, first.repeat(1 << 16), "one of them, as a whole");
                }
            });
            scope.spawn(move || {
                for _ in 0..200 {
                    check(name).expect("it could be written");
                }
            });
        }
    });
    let entries = fs::read_dir(folder.path()).expect("a folder");
    assert_eq!(entries.count(), 1);
    // A part that its writer has open is not touched, nor what only has its name.
    let parts = [0, 1, 2].map(|number| folder.path().join(format!(".report.{number}.steward-part")));
    fs::write(&parts[0], "another's").expect("a file");
    let open = File::open(&parts[0]).expect("a file");
    super::lock(&open).expect("nobody has it");
    symlink(&name, &parts[1]).expect("a link");
    fs::create_dir(&parts[2]).expect("a folder");
    write(&name, b"whole", PRIVATE).expect("another name");
    assert_eq!((read(&name).as_str(), read(&parts[0]).as_str()), ("whole", "another's"));
    assert!(parts[1].is_symlink() && parts[2].is_dir());
}

#[test]
fn the_part_of_a_killed_writer_is_removed_by_the_next_one() {
    let test = "files::tests::the_part_of_a_killed_writer_is_removed_by_the_next_one";
    if let Some(name) = std::env::var_os("STEWARD_TEST_FILE") {
        // Beyond the limit the kernel ends the process.
        let _ = write(Path::new(&name), &[b'x'; 1 << 20], PRIVATE);
        return;
    }
    let folder = folder();
    let name = folder.path().join("report");
    let own = std::env::current_exe().expect("a path");
    let entries = || fs::read_dir(folder.path()).expect("a folder").count();
    for killed in [1, 3] {
        for _ in 0..killed {
            let script = "ulimit -c 0; ulimit -f 8; exec \"$@\"";
            let ended = Command::new("sh")
                .args(["-c", script, "sh"])
                .arg(&own)
                .args(["--exact", test])
                .env("STEWARD_TEST_FILE", &name)
                .output()
                .expect("a shell");
            assert!(!ended.status.success(), "{ended:?}");
        }
        assert!(entries() >= 1, "nothing was left");
        write(&name, b"whole", PRIVATE).expect("written");
        assert_eq!((read(&name).as_str(), entries()), ("whole", 1));
        fs::remove_file(&name).expect("there");
    }
}
