//! The child-process runner, on this very binary.

use std::time::Duration;

use testkit::{Child, Crash, skip};

#[test]
fn exit_code_and_text() {
    const NAME: &str = "exit_code_and_text";
    if Child::is_child(NAME) {
        print!("{}", "x".repeat(200_000));
        eprintln!("said");
        std::process::exit(7);
    }
    let finished = Child::this_test(NAME).run();
    finished.assert_code(7);
    assert!(finished.stdout.contains(&"x".repeat(200_000)), "a pipe that fills up does not stop the child");
    assert!(finished.stderr.contains("said"));
}

#[test]
fn a_crash_is_told() {
    const NAME: &str = "a_crash_is_told";
    if Child::is_child(NAME) {
        std::process::abort();
    }
    let finished = Child::this_test(NAME).run();
    finished.assert_crash(Crash::Abort);
    assert!(!finished.crashed(Crash::AccessViolation), "{finished}");
    if cfg!(unix) {
        finished.assert_signal(6);
    }
}

#[test]
fn a_child_that_hangs_is_killed() {
    const NAME: &str = "a_child_that_hangs_is_killed";
    if Child::is_child(NAME) {
        std::thread::sleep(Duration::from_secs(600));
    }
    let finished = Child::this_test(NAME).limit(Duration::from_millis(300)).run();
    assert!(finished.timed_out && finished.elapsed < Duration::from_secs(60), "{finished}");
}

#[test]
fn a_required_skip_fails() {
    const NAME: &str = "a_required_skip_fails";
    if Child::is_child(NAME) {
        skip("lavapipe", NAME, "it is not installed");
        return;
    }
    let finished = Child::this_test(NAME).env("STEWARD_REQUIRE", "swiftshader").run();
    finished.assert_code(0);
    assert!(finished.stdout.contains("SKIPPED a_required_skip_fails: it is not installed"), "{finished}");
    let finished = Child::this_test(NAME).env("STEWARD_REQUIRE", "swiftshader,lavapipe").run();
    finished.assert_code(101);
}

/// Whoever starts a copy that was just made may meet a descriptor of it that another thread's child has not closed yet.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_still_open_for_writing_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("true");
    std::fs::copy("/bin/true", &program).expect("a copy");
    let open = std::fs::File::options().append(true).open(&program);
    let started = std::thread::spawn({
        let program = program.clone();
        move || Child::new(&program).run()
    });
    std::thread::sleep(Duration::from_millis(20));
    drop(open.expect("our file"));
    assert_eq!(started.join().expect("no panic").code, Some(0));
}
