//! `steward run` and its siblings where signals end them or their programs: the report is there, and nothing is left
//! behind.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testkit::{Child, skip};

use crate::ended::client;
use crate::run::STEWARD;

const SIGNALS: [(i32, &str); 4] =
    [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP"), (libc::SIGQUIT, "SIGQUIT")];

/// `steward` in a process group of its own, with a folder of its own for temporary files.
struct StewardRun {
    steward: std::process::Child,
    folder: TempDir,
    output: BufReader<ChildStdout>,
}

impl StewardRun {
    fn start(arguments: &[&str]) -> Self {
        Self::start_by(Command::new(STEWARD).args(arguments))
    }

    fn start_by(command: &mut Command) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        let mut steward = with_layer(command, &folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join("err")).expect("a file"))
            .spawn()
            .expect("the program is there");
        let output = BufReader::new(steward.stdout.take().expect("a pipe"));
        Self { steward, folder, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output");
        line.trim().to_owned()
    }

    /// The number that the program prints when it works.
    fn program(&mut self) -> i32 {
        let line = self.line();
        line.parse().unwrap_or_else(|_| panic!("{line:?}: {}", self.errors()))
    }

    fn number(&self) -> i32 {
        self.steward.id().cast_signed()
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.steward.try_wait().expect("ours") {
                return status;
            }
            if began.elapsed() > Duration::from_secs(60) {
                kill(-self.number(), libc::SIGKILL);
                panic!("it does not end: {}", self.errors());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("err")).expect("a file")
    }

    /// Names of files that are left in the folder for temporary files.
    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("tmp")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

fn with_layer<'c>(command: &'c mut Command, folder: &TempDir) -> &'c mut Command {
    let test = std::env::current_exe().expect("a path");
    command
        .env("STEWARD_LAYER", test.with_file_name("libVkLayer_steward_memory.so"))
        .env("VK_LOADER_DRIVERS_SELECT", "lvp*")
        .env("TMPDIR", folder.path().join("tmp"))
}

fn kill(process: i32, signal: i32) {
    // SAFETY: sends a signal to processes of this test.
    let sent = unsafe { libc::kill(process, signal) };
    assert_eq!(sent, 0, "{process} is there");
}

fn is_running(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_for_end(process: i32) {
    let began = Instant::now();
    while is_running(process) {
        assert!(began.elapsed() < Duration::from_secs(30), "{process} runs");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ly69_each_signal_to_group_or_steward_ends_with_a_report() {
    let test = "ly69_each_signal_to_group_or_steward_ends_with_a_report";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let case = |(signal, name): (i32, &str), to_group: bool, how: &str| {
        let case = format!("{name}, {}, {how}", if to_group { "group" } else { "steward" });
        let mut running = StewardRun::start(&["run", "--", client, "serve", how]);
        let program = running.program();
        let target = running.number();
        kill(if to_group { -target } else { target }, signal);
        let count = running.line();
        let status = running.wait();
        let errors = running.errors();
        if how == "handle" {
            assert_eq!(count, "1", "{case}: it came once");
            assert_eq!(status.code(), Some(0), "{case}: {errors}");
            assert!(errors.contains("\nfindings: "), "{case}: {errors}");
            assert!(!errors.contains("its state after"), "{case}: {errors}");
        } else {
            assert_eq!(status.code(), Some(128 + signal), "{case}: {errors}");
            let ended = format!(" ended by {name}; its state after command ");
            assert!(errors.contains(&ended), "{case}: {errors}");
        }
        assert_eq!(running.left(), [""; 0].map(PathBuf::from), "{case}");
        assert!(!is_running(program), "{case}");
    };
    for signal in SIGNALS {
        thread::scope(|scope| {
            for (to_group, how) in [(true, "handle"), (true, "default"), (false, "handle"), (false, "default")] {
                scope.spawn(move || case(signal, to_group, how));
            }
        });
    }
}

#[test]
fn ly69_timeout_ends_a_run_with_a_report_in_its_files() {
    let test = "ly69_timeout_ends_a_run_with_a_report_in_its_files";
    let Some(client) = client(test) else { return };
    if !crate::run::is_program("timeout") {
        return skip("coreutils", test, "there is no timeout");
    }
    for (signal, name) in [("TERM", "SIGTERM"), ("INT", "SIGINT")] {
        let mut command = Command::new("timeout");
        let files = tempfile::tempdir().expect("a folder");
        let file = |name: &str| files.path().join(name);
        command
            .args(["-s", signal, "2", STEWARD, "run", "--stacks", "--text"])
            .arg(file("r.txt"))
            .arg("--json")
            .arg(file("r.json"))
            .arg("--profile")
            .arg(file("r.folded"))
            .arg("--")
            .args([&client, Path::new("serve"), Path::new("default")]);
        let mut running = StewardRun::start_by(&mut command);
        let program = running.program();
        assert_eq!(running.wait().code(), Some(124), "{}", running.errors());
        let text = fs::read_to_string(file("r.txt")).expect("a report");
        assert!(text.contains(&format!("ended by {name}; its state after")), "{text}");
        assert!(text.contains("Missing: findings"), "{text}");
        let report = crate::run::json(&file("r.json"));
        assert_eq!(report["ended"], format!("ended by {name}"));
        assert_eq!(running.left(), [""; 0].map(PathBuf::from));
        assert!(!is_running(program));
    }
}

/// Starts `steward` in a session whose terminal this is. Its leader is a shell that stays, as in a terminal's window,
/// or `steward` itself.
fn on_terminal(leader: &str, arguments: &[&str]) -> (StewardRun, File) {
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: two places for descriptors, and no name, modes and size.
    let done = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null(), std::ptr::null()) };
    assert_eq!(done, 0, "a terminal");
    // SAFETY: just opened, and nobody else's.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: just opened by `openpty`, and owned by nothing else.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    // SAFETY: an open file.
    unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    let terminal = theirs.as_raw_fd();
    let mut command = Command::new(leader);
    if leader == "sh" {
        command.args(["-c", "trap '' INT QUIT; (trap - INT QUIT; exec \"$@\"); echo \"ended $?\" >&2", "sh", STEWARD]);
    }
    command.args(arguments);
    let own_terminal = move || {
        // SAFETY: a system call without pointers.
        unsafe { libc::setsid() };
        // SAFETY: `terminal` is open, and the request takes a number.
        unsafe { libc::ioctl(terminal, libc::TIOCSCTTY, 0) };
        Ok(())
    };
    // SAFETY: the closure makes system calls and nothing else.
    unsafe { command.pre_exec(own_terminal) };
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    let mut steward = with_layer(&mut command, &folder)
        .stdin(theirs)
        .stdout(Stdio::piped())
        .stderr(File::create(folder.path().join("err")).expect("a file"))
        .spawn()
        .expect("there is a shell");
    drop(command);
    let output = BufReader::new(steward.stdout.take().expect("a pipe"));
    let running = StewardRun { steward, folder, output };
    (running, ours)
}

#[test]
fn ly69_ctrl_c_on_a_terminal_reaches_the_program_once() {
    let test = "ly69_ctrl_c_on_a_terminal_reaches_the_program_once";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    for (key, code, name) in [("\x03", 130, "SIGINT"), ("\x1c", 131, "SIGQUIT")] {
        for how in ["handle", "default", "once"] {
            let (mut running, mut terminal) = on_terminal("sh", &["run", "--", client, "serve", how]);
            running.program();
            terminal.write_all(key.as_bytes()).expect("a key");
            if how == "once" {
                // The first one is handled; the second one ends the program.
                thread::sleep(Duration::from_millis(300));
                assert!(!running.errors().contains("ended"), "{}", running.errors());
                terminal.write_all(key.as_bytes()).expect("a key");
            }
            let count = running.line();
            running.wait();
            let errors = running.errors();
            if how == "handle" {
                assert_eq!(count, "1");
                assert!(errors.contains("\nfindings: ") && errors.ends_with("ended 0\n"), "{errors}");
            } else {
                let state = format!("ended by {name}; its state after");
                assert!(errors.contains(&state), "{errors}");
                assert!(errors.ends_with(&format!("ended {code}\n")), "{errors}");
            }
            assert_eq!(running.left(), [""; 0].map(PathBuf::from), "{errors}");
        }
    }
}

#[test]
fn ly69_a_closed_terminal_leaves_the_report_in_its_file() {
    let test = "ly69_a_closed_terminal_leaves_the_report_in_its_file";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let files = tempfile::tempdir().expect("a folder");
    let file = files.path().join("report.txt");
    let name = file.to_str().expect("a name");
    for leader in ["sh", STEWARD] {
        let arguments = ["run", "--text", name, "--", client, "serve", "default"];
        let (mut running, terminal) = on_terminal(leader, &arguments);
        let program = running.program();
        drop(terminal);
        wait_for_end(program);
        let began = Instant::now();
        let is_done = || file.exists() && running.left().is_empty();
        while !is_done() && began.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(5));
        }
        let text = fs::read_to_string(&file).expect("a report");
        assert!(text.contains("ended by SIGHUP; its state after"), "{text}");
        running.wait();
        assert_eq!(running.left(), [""; 0].map(PathBuf::from));
        fs::remove_file(&file).expect("there");
    }
}

#[test]
fn ly69_a_second_signal_to_steward_ends_a_program_that_handles_the_first() {
    let test = "ly69_a_second_signal_to_steward_ends_a_program_that_handles_the_first";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let mut running = StewardRun::start(&["run", "--", client, "serve", "once"]);
    let program = running.program();
    kill(running.number(), libc::SIGINT);
    thread::sleep(Duration::from_millis(300));
    assert!(is_running(program));
    kill(running.number(), libc::SIGINT);
    assert_eq!(running.wait().code(), Some(130), "{}", running.errors());
    assert!(!is_running(program));
    // Stopping and going on are the program's and steward's own, as without steward.
    let mut running = StewardRun::start(&["run", "--", client, "serve", "handle"]);
    let program = running.program();
    kill(-running.number(), libc::SIGTSTP);
    let state = |process: i32| fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let began = Instant::now();
    while ![program, running.number()].into_iter().all(|it| state(it).contains(") T ")) {
        assert!(began.elapsed() < Duration::from_secs(30), "it is not stopped");
        thread::sleep(Duration::from_millis(5));
    }
    kill(-running.number(), libc::SIGCONT);
    kill(-running.number(), libc::SIGTERM);
    assert_eq!(running.line(), "1");
    assert_eq!(running.wait().code(), Some(0), "{}", running.errors());
}

/// What a parent ignores, as `nohup` and a shell's background do, the program ignores too.
#[test]
fn ly69_an_ignored_signal_stays_ignored_in_the_program() {
    let run = format!("trap '' HUP INT; exec {STEWARD} run -- sh -c 'kill -HUP $$; kill -INT $$; echo went on'");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("sh");
    fs::create_dir(folder.path().join("tmp")).expect("a folder");
    let done = with_layer(command.args(["-c", &run]), &folder).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "went on\n");
}

/// So does the process that lists the drivers after the program's end, while the terminal of `nohup` may close.
#[test]
fn ly69_an_ignored_signal_stays_ignored_in_what_lists_the_drivers() {
    let test = "ly69_an_ignored_signal_stays_ignored_in_what_lists_the_drivers";
    let Some(client) = client(test) else { return };
    let files = tempfile::tempdir().expect("a folder");
    let (loader, known) = (files.path().join("loader"), files.path().join("known.toml"));
    let made = Command::new("mkfifo").arg(&loader).status();
    assert!(made.expect("a program").success());
    let script = "trap '' HUP; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh", STEWARD, "run", "--write-expect"])
        .args([&known, Path::new("--"), &client, Path::new("leave")])
        .env("STEWARD_LOADER", &loader);
    let mut running = StewardRun::start_by(&mut command);
    let of_kernel =
        |process: &str, file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    let own = running.number();
    let began = Instant::now();
    let lists = loop {
        let children = of_kernel(&own.to_string(), &format!("task/{own}/children"));
        let mut children = children.split_whitespace();
        let lists = children.find(|it| of_kernel(it, "cmdline").contains("\0show-devices\0"));
        if let Some(lists) = lists {
            break lists.to_owned();
        }
        assert!(
            began.elapsed() < Duration::from_secs(30) && is_running(own),
            "nobody lists the drivers: {}",
            running.errors()
        );
        thread::sleep(Duration::from_millis(5));
    };
    let status = of_kernel(&lists, "status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.expect("a mask").trim(), 16).expect("a number");
    // It waits for its loader until now.
    fs::write(&loader, "").expect("it reads");
    running.wait();
    assert_eq!(ignored & 1 << (libc::SIGHUP - 1), 1, "{status}");
}

#[test]
fn ly69_a_sweep_that_is_ended_says_what_it_has() {
    let test = "ly69_a_sweep_that_is_ended_says_what_it_has";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    for to_group in [true, false] {
        let mut running = StewardRun::start(&["run", "--fail=each", "--", client, "serve", "default"]);
        let tmp = running.folder.path().join("tmp");
        let folders = || fs::read_dir(&tmp).expect("a folder").count();
        let began = Instant::now();
        while folders() == 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "no run");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(500));
        let target = running.number();
        kill(if to_group { -target } else { target }, libc::SIGINT);
        let status = running.wait();
        let mut text = String::new();
        running.output.read_to_string(&mut text).expect("text");
        assert_eq!(status.code(), Some(130), "{text}{}", running.errors());
        assert!(text.contains("The sweep was ended by SIGINT"), "{text}");
        assert_eq!(running.left(), [""; 0].map(PathBuf::from));
    }
}

/// Commands that run this program again: nothing is left of their children and files.
#[test]
fn ly69_drive_and_check_leave_no_child_and_no_file() {
    for arguments in [
        &["drive", "--driver", "reference", "--rounds", "100000", "--fail=never"][..],
        &["check", "--driver", "reference", "--rounds", "100000", "--fail=never"],
        &["drive", "--driver", "all", "--rounds", "100000", "--no-coverage"],
    ] {
        for to_group in [true, false] {
            let mut running = StewardRun::start(arguments);
            let began = Instant::now();
            let child = loop {
                if let Some(child) = children(running.number()).first() {
                    break *child;
                }
                if running.steward.try_wait().expect("ours").is_some() {
                    return skip("drivers", "ly69_drive_and_check", &running.errors());
                }
                assert!(began.elapsed() < Duration::from_secs(30), "no child");
                thread::sleep(Duration::from_millis(5));
            };
            let target = running.number();
            kill(if to_group { -target } else { target }, libc::SIGTERM);
            let status = running.wait();
            assert_eq!(status.signal(), Some(libc::SIGTERM), "{arguments:?}: {}", running.errors());
            // What lists drivers ends by the kernel's signal when the program has ended, at once or a little later.
            wait_for_end(child);
            assert_eq!(running.left(), [""; 0].map(PathBuf::from), "{arguments:?}");
        }
    }
}

fn children(process: i32) -> Vec<i32> {
    let file = format!("/proc/{process}/task/{process}/children");
    let children = fs::read_to_string(file).unwrap_or_default();
    let children = children.split_whitespace();
    children.map(|it| it.parse().expect("a number")).collect()
}

/// At whatever moment it is ended: nothing is left. Without drivers a check is over in a few milliseconds: the moments
/// are parts of what an undisturbed run took.
#[test]
fn ly69_a_signal_at_any_moment_leaves_no_file() {
    const MOMENTS: u32 = 20;
    for arguments in
        [&["drive", "--driver", "reference", "--rounds", "1"][..], &["check", "--driver", "all", "--rounds", "1"]]
    {
        let began = Instant::now();
        let undisturbed = StewardRun::start(arguments).wait().code();
        let took = began.elapsed();
        let mut ended = 0;
        for moment in 0..MOMENTS {
            let mut running = StewardRun::start(arguments);
            thread::sleep(took * moment / MOMENTS);
            // SAFETY: sends a signal to a process of this test, which is not waited for yet.
            unsafe { libc::kill(running.number(), libc::SIGTERM) };
            let status = running.wait();
            let delay = took * moment / MOMENTS;
            assert_eq!(running.left(), [""; 0].map(PathBuf::from), "{delay:?}");
            match status.signal() {
                Some(signal) => {
                    assert_eq!(signal, libc::SIGTERM, "{delay:?}");
                    ended += 1;
                }
                // Its last moments are not to be ended any more.
                None => assert_eq!(status.code(), undisturbed, "{delay:?} of {took:?}: {}", running.errors()),
            }
        }
        assert!(ended > 2, "{arguments:?} was ended {ended} times");
    }
}

/// While a trace waits for its reader, the child and its folder are gone.
#[test]
fn ly69_drive_has_no_folder_any_more_when_it_writes() {
    let files = tempfile::tempdir().expect("a folder");
    let fifo = files.path().join("trace");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("a program").success());
    let fifo = fifo.to_str().expect("a name");
    let options = ["drive", "--driver", "reference", "--no-coverage", "--record"];
    let mut running = StewardRun::start(&[&options[..], &[fifo]].concat());
    let began = Instant::now();
    let mut had_child = false;
    while !had_child || !children(running.number()).is_empty() {
        had_child |= !children(running.number()).is_empty();
        assert!(began.elapsed() < Duration::from_secs(30), "{}", running.errors());
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(running.left(), [""; 0].map(PathBuf::from));
    kill(running.number(), libc::SIGTERM);
    assert_eq!(running.wait().signal(), Some(libc::SIGTERM));
    assert_eq!(running.left(), [""; 0].map(PathBuf::from));
}

#[test]
fn ly70_a_killed_drive_leaves_no_child_and_the_next_one_removes_its_folder() {
    for arguments in [
        &["drive", "--driver", "reference", "--rounds", "100000", "--no-coverage"][..],
        &["check", "--driver", "all", "--rounds", "100000"],
    ] {
        let mut running = StewardRun::start(arguments);
        let began = Instant::now();
        let tree = loop {
            let children = children(running.number());
            let below = children.iter().flat_map(|child| self::children(*child));
            let tree: Vec<_> = below.chain(children.iter().copied()).collect();
            if !tree.is_empty() && !running.left().is_empty() {
                break tree;
            }
            if running.steward.try_wait().expect("ours").is_some() {
                return skip("drivers", "ly70_a_killed_drive", &running.errors());
            }
            assert!(began.elapsed() < Duration::from_secs(30), "no child");
            thread::sleep(Duration::from_millis(5));
        };
        kill(running.number(), libc::SIGKILL);
        running.wait();
        tree.into_iter().for_each(wait_for_end);
        assert!(!running.left().is_empty(), "there is something to remove");
        let mut next = Command::new(STEWARD);
        let next = next.args(["drive", "--driver", "reference", "--no-coverage"]);
        let done = with_layer(next, &running.folder).output().expect("it runs");
        assert!(done.status.success(), "{done:?}");
        assert_eq!(running.left(), [""; 0].map(PathBuf::from));
    }
}

/// As the system does for lack of memory.
#[test]
fn ly69_a_workload_that_is_ended_from_outside_is_not_the_drivers_fault() {
    for (signal, name) in [(libc::SIGKILL, "SIGKILL"), (libc::SIGXCPU, "SIGXCPU")] {
        for command in ["drive", "check"] {
            let options = ["--driver", "reference", "--rounds", "100000"];
            let mut running = StewardRun::start(&[&[command][..], &options].concat());
            let began = Instant::now();
            // Until it has begun: before, a signal to it would be one to `steward`.
            let has_begun = || running.left().iter().any(|it| it.join("state").exists());
            while !has_begun() {
                assert!(began.elapsed() < Duration::from_secs(30), "no child");
                thread::sleep(Duration::from_millis(5));
            }
            kill(children(running.number())[0], signal);
            assert_eq!(running.wait().code(), Some(2), "{}", running.errors());
            let errors = running.errors();
            let said = format!(": the workload was ended by {name}, ");
            assert!(errors.contains(&said) && !errors.contains("maintainers"), "{errors}");
            assert_eq!(running.left(), [""; 0].map(PathBuf::from));
        }
    }
}

/// Signals that a program may use for its own ends go to it, and do not end `steward`.
#[test]
fn ly69_any_signal_that_ends_is_passed_on() {
    let test = "ly69_any_signal_that_ends_is_passed_on";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    for (signal, name) in [
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGPWR, "SIGPWR"),
    ] {
        for to_group in [true, false] {
            let mut running = StewardRun::start(&["run", "--", client, "serve", "default"]);
            let program = running.program();
            let target = running.number();
            kill(if to_group { -target } else { target }, signal);
            let status = running.wait();
            let errors = running.errors();
            assert_eq!(status.code(), Some(128 + signal), "{errors}");
            let ended = format!(" ended by {name}; its state after command ");
            assert!(errors.contains(&ended), "{errors}");
            assert_eq!(running.left(), [""; 0].map(PathBuf::from), "{name}");
            assert!(!is_running(program), "{name}");
        }
    }
}

#[test]
fn ly70_the_next_run_removes_what_a_killed_one_left() {
    let test = "ly70_the_next_run_removes_what_a_killed_one_left";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let mut running = StewardRun::start(&["run", "--meter", "--", client, "serve", "handle"]);
    let program = running.program();
    kill(running.number(), libc::SIGKILL);
    running.wait();
    let next = |running: &StewardRun| {
        let mut command = Command::new(STEWARD);
        let done = with_layer(command.args(["run", "--", "true"]), &running.folder).output();
        assert!(done.expect("it runs").status.success());
    };
    // What is not a folder of a run of this user stays in any case.
    let tmp = running.folder.path().join("tmp");
    fs::create_dir(tmp.join("steward-run-empty")).expect("a folder");
    std::os::unix::fs::symlink("/", tmp.join("steward-run-link")).expect("a link");
    next(&running);
    assert_eq!(running.left().len(), 3, "{:?}", running.left());
    thread::sleep(Duration::from_millis(300));
    assert!(is_running(program), "it is unharmed");
    kill(program, libc::SIGTERM);
    assert_eq!(running.line(), "1");
    wait_for_end(program);
    next(&running);
    let mut left = running.left();
    left.sort();
    assert_eq!(left, ["steward-run-empty", "steward-run-link"].map(|name| tmp.join(name)));
}

#[test]
fn ly71_a_process_that_outlives_its_program_is_named() {
    let test = "ly71_a_process_that_outlives_its_program_is_named";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    for (mode, report) in [("serve", "\nfindings: "), ("idle", " still runs; its state after command 7")] {
        let script = format!("{client} {mode} default & read -r line < {}; exit 3", "\"$1\"");
        let fifo = tempfile::tempdir().expect("a folder");
        let fifo = fifo.path().join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("a program").success());
        let name = fifo.to_str().expect("a name");
        let mut running = StewardRun::start(&["run", "--", "sh", "-c", &script, "sh", name]);
        let daemon = running.program();
        fs::write(&fifo, "end\n").expect("its reader is there");
        assert_eq!(running.wait().code(), Some(3), "{}", running.errors());
        let errors = running.errors();
        kill(daemon, libc::SIGKILL);
        let named = format!("steward: process {daemon} (client) still runs after sh has ended: ");
        assert!(errors.contains(&named) && errors.contains(report), "{errors}");
        // A report on request has all that the state has.
        let times = errors.matches("Host memory that Vulkan allocated").count();
        assert_eq!(times, 1, "{errors}");
        assert_eq!(running.left(), [""; 0].map(PathBuf::from));
    }
}

#[test]
fn ly72_a_run_whose_report_is_lost_fails() {
    let test = "ly72_a_run_whose_report_is_lost_fails";
    let Some(client) = client(test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let shell = |script: &str| {
        let layer = crate::run::with_our_layer(Child::new("sh")).env("TMPDIR", folder.path());
        let names = [Path::new(STEWARD), &client];
        layer.args(["-c", script, "sh"]).args(names).run()
    };
    shell("\"$1\" run -- \"$2\" leave 2>/dev/full").assert_code(2);
    // What its reader does not want is not lost.
    shell("\"$1\" run -- \"$2\" leave 2>&- ").assert_code(0);
    let limited = shell("ulimit -f 0; \"$1\" run -- \"$2\" leave");
    limited.assert_code(2);
    assert!(limited.stderr.contains("steward: ") && limited.stderr.contains("ulimit -f"), "{limited}");
    // The program itself is ended by the limit as without steward.
    let program = shell("\"$1\" run -- sh -c 'ulimit -f 0; echo text > \"$TMPDIR/file\"'");
    assert!(program.code != Some(0), "{program}");
}

#[test]
fn ly54_stacks_leave_the_program_its_signals() {
    let test = "ly54_stacks_leave_the_program_its_signals";
    let Some(client) = client(test) else { return };
    let client = client.to_str().expect("a name");
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("p.folded");
    let options = ["run", "--stacks", "--guard=cookie", "--profile", profile.to_str().expect("a name")];
    let done = crate::run::steward(&options).args(["--", client, "usr1"]).run();
    done.assert_code(128 + libc::SIGUSR1);
    assert!(done.stderr.contains("ended by SIGUSR1; its state after"), "{done}");
    let missing = "\nMissing: findings, reports of the guard. ";
    assert!(done.stderr.contains(missing), "{done}");
    // The state has the stacks.
    let profile = fs::read_to_string(profile).expect("a profile");
    assert!(profile.contains("VkBuffer;vkCreateBuffer;"), "{profile}");
}
