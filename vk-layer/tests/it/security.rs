//! What another user of the machine may try: settings in a shared folder, links, pipes, and files that are no state.
//! Over the fake driver.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, ptr};

use testkit::{Child, Finished, skip};
use vk_callbacks::raw::RawCallbacks;

use crate::driver::{Layer, create_object, destroy_object};

const NONE: *const RawCallbacks = ptr::null();
/// The working folder of the child.
const WORKING_FOLDER: &str = "STEWARD_TEST_WORKING_FOLDER";
const SETTINGS: &str = "vk_layer_settings.txt";
/// The user `nobody`.
const OTHER: u32 = 65534;

/// Runs the instance, device and buffer of a child; in the parent `false`.
fn is_child(test: &str) -> bool {
    if !Child::is_child(test) {
        return false;
    }
    if let Some(folder) = env::var_os(WORKING_FOLDER) {
        env::set_current_dir(folder).expect("a folder");
    }
    let layer = Layer::new();
    let instance = layer.create_instance(NONE).expect("an instance");
    let device = layer.create_device(instance, NONE).expect("a device");
    let function = |name| layer.of_device(device, name).expect("a hook");
    let (create, destroy) = (function(c"vkCreateBuffer"), function(c"vkDestroyBuffer"));
    // A plan may refuse it.
    if let Ok(buffer) = create_object(create, device, NONE) {
        destroy_object(destroy, device, buffer, NONE);
    }
    layer.destroy_device(device, NONE);
    layer.destroy_instance(instance, NONE);
    true
}

/// A child that may not wait for anything.
fn child(test: &str) -> Child {
    Child::this_test(test).limit(Duration::from_secs(30))
}

fn ended(child: Child) -> Finished {
    let done = child.run();
    done.assert_code(0);
    done
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("its owner's");
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
    let is_usable = || fs::OpenOptions::new().write(true).open(&own).is_ok();
    match made.expect("mknod").status.success() {
        true if is_usable() => own,
        true => panic!("{} holds no devices: set TMPDIR", folder.display()),
        false => PathBuf::from("/dev/null"),
    }
}

/// Whether this process can make files of another user; a skip is printed where it cannot.
fn plays_others(test: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let may = chown(folder.path(), Some(OTHER), None).is_ok();
    if !may {
        skip("root", test, "files of another user can be made as root alone");
    }
    may
}

/// A folder below a new one that is this user's alone.
fn folder_with_mode(folder: &Path, name: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir(&path).expect("a new folder");
    set_mode(&path, mode);
    path
}

#[test]
fn ly80_settings_that_another_user_could_have_written_are_left_out() {
    let test = "ly80_settings_that_another_user_could_have_written_are_left_out";
    if is_child(test) {
        return;
    }
    let has_others = plays_others(test);
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let report = folder.join("report");
    let put = |place: &Path| {
        let setting = format!("steward_memory.text = {}\n", report.display());
        fs::write(place, setting).expect("a file");
    };
    let of_other = |path: &Path| lchown(path, Some(OTHER), Some(OTHER)).expect("as root");
    let in_working_folder = |folder: &Path| ended(child(test).env(WORKING_FOLDER, folder));
    let named = |path: &Path| ended(child(test).env("VK_LAYER_SETTINGS_PATH", path));
    #[track_caller]
    fn assert_left_out(done: &Finished, report: &Path) {
        assert!(!report.exists(), "{done}");
        assert_eq!(done.stderr.matches(" are left out: ").count(), 1, "{done}");
    }
    // What is this user's alone holds, and is named in one line.
    let own = folder_with_mode(folder, "own", 0o755);
    put(&own.join(SETTINGS));
    let runs: [&dyn Fn() -> Finished; 3] =
        [&|| in_working_folder(&own), &|| named(&own), &|| named(&own.join(SETTINGS))];
    for run in runs {
        let done = run();
        let line = format!("settings are read from {}", own.join(SETTINGS).display());
        assert_eq!(done.stderr.matches(&line).count(), 1, "{line}: {done}");
        fs::remove_file(&report).expect("a report");
    }
    // The file.
    set_mode(&own.join(SETTINGS), 0o666);
    assert_left_out(&in_working_folder(&own), &report);
    assert_left_out(&named(&own.join(SETTINGS)), &report);
    set_mode(&own.join(SETTINGS), 0o600);
    // Its folder, and one above it.
    for (name, mode) in [("sticky", 0o1777), ("open", 0o777), ("group", 0o775)] {
        let shared = folder_with_mode(folder, name, mode);
        if mode == 0o775 {
            if !has_others {
                continue;
            }
            chown(&shared, None, Some(OTHER)).expect("as root");
        }
        put(&shared.join(SETTINGS));
        assert_left_out(&in_working_folder(&shared), &report);
        assert_left_out(&named(&shared), &report);
        let below = folder_with_mode(&shared, "below", 0o755);
        put(&below.join(SETTINGS));
        let done = in_working_folder(&below);
        if name == "sticky" {
            // Nobody else can exchange what is this user's in there.
            fs::remove_file(&report).unwrap_or_else(|_| panic!("{done}"));
        } else {
            assert_left_out(&done, &report);
        }
    }
    // A pipe is not read, and not waited for.
    let with_pipe = folder_with_mode(folder, "pipe", 0o755);
    pipe(&with_pipe.join(SETTINGS));
    assert_left_out(&in_working_folder(&with_pipe), &report);
    if !has_others {
        return;
    }
    let shared = folder.join("sticky");
    let foreign = shared.join("foreign");
    put(&foreign);
    of_other(&foreign);
    of_other(&shared.join(SETTINGS));
    assert_left_out(&in_working_folder(&shared), &report);
    assert_left_out(&named(&foreign), &report);
    // Links: this user's to a file of another user, and another user's to a file of this user.
    let [to_foreign, to_own] = ["to_foreign", "to_own"].map(|name| folder.join(name));
    symlink(&foreign, &to_foreign).expect("a link");
    assert_left_out(&named(&to_foreign), &report);
    symlink(own.join(SETTINGS), &to_own).expect("a link");
    named(&to_own);
    fs::remove_file(&report).expect("this user's link holds");
    of_other(&to_own);
    assert_left_out(&named(&to_own), &report);
    // A folder of another user, who may write to it later.
    let theirs = folder_with_mode(folder, "theirs", 0o755);
    put(&theirs.join(SETTINGS));
    of_other(&theirs);
    assert_left_out(&in_working_folder(&theirs), &report);
}

#[test]
fn ly81_reports_states_and_refusals_pass_no_link_of_another_user() {
    let test = "ly81_reports_states_and_refusals_pass_no_link_of_another_user";
    if is_child(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let has_others = plays_others(test);
    for setting in ["TEXT", "JSON", "STATE", "REFUSALS"] {
        let variable = format!("VK_STEWARD_MEMORY_{setting}");
        let run = |path: &Path| {
            let child = child(test).env("VK_STEWARD_MEMORY_FAIL", "nth=2");
            ended(child.env(&variable, path))
        };
        let here = folder_with_mode(folder, setting, 0o755);
        let keeps_mode = setting != "STATE";
        // A new file is for this user alone.
        let file = here.join("file");
        let done = run(&file);
        assert_eq!(mode(&file), 0o600, "{setting}: {done}");
        assert!(fs::metadata(&file).expect("a file").len() > 0, "{setting}");
        if keeps_mode {
            set_mode(&file, 0o640);
            run(&file);
            assert_eq!(mode(&file), 0o640, "{setting}");
        }
        // A link of this user is followed, also to what is not there yet.
        let target = here.join("target");
        let link = here.join("link");
        symlink(&target, &link).expect("a link");
        let done = run(&link);
        assert!(link.is_symlink() && target.is_file(), "{setting}: {done}");
        // A pipe is not waited for, and stays.
        let waiting = here.join("pipe");
        pipe(&waiting);
        let done = run(&waiting);
        assert!(!waiting.is_file() && waiting.exists(), "{setting}: {done}");
        assert!(done.stderr.contains("pipe cannot be written"), "{done}");
        // Devices stay what they are.
        let device = device(&here);
        run(&device);
        let after = fs::metadata(&device).expect("a device");
        assert!(!after.is_file(), "{setting} replaces a device");
        if !has_others {
            continue;
        }
        let kept = here.join("kept");
        fs::write(&kept, "").expect("a file");
        let below = folder_with_mode(&here, "below", 0o755);
        let shared = folder_with_mode(&here, "shared", 0o1777);
        symlink(&kept, shared.join("file")).expect("a link");
        symlink(here.join("missing"), shared.join("to_nothing")).expect("a link");
        symlink(&below, shared.join("folder")).expect("a link");
        for (name, path) in [("file", "file"), ("to_nothing", "to_nothing"), ("folder", "folder/file")] {
            lchown(shared.join(name), Some(OTHER), None).expect("as root");
            let done = run(&shared.join(path));
            let why = "is a link of another user, which is not followed";
            assert!(done.stderr.contains(why), "{setting}, {name}: {done}");
            assert!(shared.join(name).is_symlink(), "{setting}: {name}");
        }
        assert_eq!(fs::read(&kept).expect("a file"), b"", "{setting}");
        assert!(!here.join("missing").exists(), "{setting}");
        assert_eq!(fs::read_dir(&below).expect("a folder").count(), 0);
        // Another user's file would hold this user's lines.
        let theirs = shared.join("theirs");
        fs::write(&theirs, "").expect("a file");
        set_mode(&theirs, 0o666);
        lchown(&theirs, Some(OTHER), None).expect("as root");
        run(&theirs);
        let after = fs::metadata(&theirs).expect("a file");
        let is_private = after.uid() != OTHER && after.mode() & 0o777 == 0o600;
        assert!(is_private || after.len() == 0, "{setting}: {after:?}");
    }
}

#[test]
fn ly82_only_a_state_file_or_an_empty_one_is_replaced_by_a_state() {
    let test = "ly82_only_a_state_file_or_an_empty_one_is_replaced_by_a_state";
    if is_child(test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let run = || ended(child(test).env("VK_STEWARD_MEMORY_STATE", &file));
    let is_state = || fs::read(&file).expect("a file").starts_with(b"STEWARD");
    for contents in ["thesis", "S", "STEWAR", "stewards of the world\n"] {
        fs::write(&file, contents).expect("a file");
        let done = run();
        assert_eq!(fs::read_to_string(&file).expect("a file"), contents);
        let remedy = "it is no state file of this layer and stays as it is: remove it";
        assert!(done.stderr.contains(remedy), "{done}");
    }
    // One of any version, and one that holds nothing.
    for contents in ["STEWARD\x01 of long ago", ""] {
        fs::write(&file, contents).expect("a file");
        let done = run();
        assert!(is_state() && file.metadata().expect("a file").len() > 100, "{done}");
    }
    run();
    assert!(is_state());
}
