//! Runs a program to its end, or to a time limit, and keeps what it said.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Tells a test binary that re-executes itself which side it is on.
const CHILD: &str = "STEWARD_TEST_CHILD";

/// A child process to be run.
#[derive(Debug)]
pub struct Child {
    command: Command,
    limit: Duration,
}

impl Child {
    /// Runs `program`, for 60 s at most.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { command: Command::new(program), limit: Duration::from_secs(60) }
    }

    /// Runs the one test `name` of the running test binary again, in a process of its own. In there [`Child::is_child`]
    /// holds. `name` is the end of the test's path, with as many of its modules as make it the only one.
    ///
    /// # Panics
    /// When no test of the running binary has this name, or several have it.
    #[must_use]
    pub fn this_test(name: &str) -> Self {
        Self::this_program(name).args([path_of(name), "--exact", "--nocapture", "--test-threads=1"])
    }

    /// Runs the running program again, which is no test harness and finds out by [`Child::is_child`] that it is to do
    /// `name`.
    ///
    /// # Panics
    /// When the running program cannot be found.
    #[must_use]
    pub fn this_program(name: &str) -> Self {
        Self::new(running_program()).env(CHILD, name)
    }

    /// Runs `body` in a process of its own, which runs this one test, `name`, once more. Prints what that printed.
    ///
    /// # Panics
    /// When it failed there.
    pub fn alone(name: &str, body: impl FnOnce()) {
        if Self::is_child(name) {
            return body();
        }
        print!("{}", Self::this_test(name).run().assert_code(0).stdout);
    }

    /// True in the process that [`Child::this_test`] or [`Child::this_program`] started for `name`.
    #[must_use]
    pub fn is_child(name: &str) -> bool {
        std::env::var_os(CHILD).is_some_and(|value| value == name)
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Takes an environment variable away.
    #[must_use]
    pub fn env_remove(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    /// Kills the child after `limit`.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it with one of its outputs on a terminal of `columns`, without a time limit; what it shows there.
    ///
    /// # Panics
    /// When it cannot be started, or no terminal can be opened.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn run_on_terminal(self, columns: u16, output: crate::TerminalOutput) -> String {
        crate::terminal::shown(self.command, columns, output)
    }

    /// Starts it with all its streams on a terminal of its own, of so many rows and columns.
    ///
    /// # Panics
    /// When it cannot be started, or no terminal can be opened.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn start_on_terminal(self, (rows, columns): (u16, u16)) -> crate::OnTerminal {
        crate::OnTerminal::start(self.command, (rows, columns))
    }

    /// Runs it and waits for the end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn run(mut self) -> Finished {
        let started = Instant::now();
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = loop {
            match self.command.spawn() {
                Ok(child) => break child,
                Err(error) if passes(&error) && started.elapsed() < self.limit => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("cannot start {:?}: {error}", self.command),
            }
        };
        let out = child.stdout.take().map(read);
        let err = child.stderr.take().map(read);
        let (status, timed_out) = loop {
            match child.try_wait().expect("the child is ours to wait for") {
                Some(status) => break (status, false),
                None if started.elapsed() >= self.limit => {
                    child.kill().expect("the child is ours to kill");
                    break (child.wait().expect("the child is ours to wait for"), true);
                }
                None => thread::sleep(Duration::from_millis(2)),
            }
        };
        Finished {
            code: status.code(),
            signal: signal(status),
            timed_out,
            stdout: collect(out),
            stderr: collect(err),
            elapsed: started.elapsed(),
        }
    }
}

fn running_program() -> PathBuf {
    std::env::current_exe().expect("the running program has a path")
}

/// The whole path of the running binary's one test `name`. A child with a wrong path would run no test at all, and
/// succeed.
fn path_of(name: &str) -> &'static str {
    static TESTS: LazyLock<String> = LazyLock::new(|| {
        let listed = Command::new(running_program())
            .args(["--list", "--format=terse"])
            .output()
            .expect("the tests can be listed");
        String::from_utf8(listed.stdout).expect("names are text")
    });
    let paths = TESTS.lines().filter_map(|line| line.strip_suffix(": test"));
    let found: Vec<&str> = paths
        .filter(|path| path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with("::")))
        .collect();
    let [path] = found[..] else { panic!("{name:?} should be one test and is {found:?}") };
    path
}

/// How a child ended and what it said.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it (Unix only).
    pub signal: Option<i32>,
    /// True when the time limit ended it.
    pub timed_out: bool,
    /// All of standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// All of standard error, invalid UTF-8 replaced.
    pub stderr: String,
    /// From start to end.
    pub elapsed: Duration,
}

impl Finished {
    /// Checks the exit code.
    ///
    /// # Panics
    /// When it ended in any other way; the text holds all it said.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert!(!self.timed_out, "killed after {:?}\n{self}", self.elapsed);
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Checks that the system ended it so.
    ///
    /// # Panics
    /// When it ended in any other way; the text holds all it said.
    #[track_caller]
    pub fn assert_crash(&self, crash: Crash) -> &Self {
        assert!(!self.timed_out, "killed after {:?}\n{self}", self.elapsed);
        assert!(self.crashed(crash), "no {crash:?}: {self}");
        self
    }

    /// Whether the system ended it so.
    #[must_use]
    pub fn crashed(&self, crash: Crash) -> bool {
        crash.ending() == (self.code, self.signal)
    }

    /// Checks the signal that ended it.
    ///
    /// # Panics
    /// When it ended in any other way; the text holds all it said.
    #[track_caller]
    pub fn assert_signal(&self, signal: i32) -> &Self {
        assert!(!self.timed_out, "killed after {:?}\n{self}", self.elapsed);
        assert_eq!(self.signal, Some(signal), "{self}");
        self
    }
}

/// How a system ends a process that made a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It aborted: SIGABRT, or a failed check on Windows.
    Abort,
    /// It touched what it may not: SIGSEGV, or an access violation.
    AccessViolation,
    /// Its stack was used up, which Rust's runtime answers by SIGABRT.
    StackOverflow,
}

impl Crash {
    /// Whether a process ended so.
    #[must_use]
    pub fn ended(self, status: ExitStatus) -> bool {
        self.ending() == (status.code(), signal(status))
    }

    /// The exit code and the signal.
    fn ending(self) -> (Option<i32>, Option<i32>) {
        let (unix, windows) = match self {
            Self::Abort => (6, 0xC000_0409_u32),
            Self::AccessViolation => (11, 0xC000_0005),
            Self::StackOverflow => (6, 0xC000_00FD),
        };
        if cfg!(unix) { (None, Some(unix)) } else { (Some(windows.cast_signed()), None) }
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "code {:?}, signal {:?}", self.code, self.signal)?;
        writeln!(f, "--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr)
    }
}

/// Why a start fails and the next one does not. A copy that this process has just made is busy while a child of another
/// thread has its descriptor, until that runs its own program. Wine's server under load answers 1359, an internal
/// error.
fn passes(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ExecutableFileBusy || cfg!(windows) && error.raw_os_error() == Some(1359)
}

/// Reads a pipe to its end on a thread of its own, so that a full pipe never stops the child.
fn read(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut chunk = [0; 8192];
        while let Ok(len @ 1..) = pipe.read(&mut chunk) {
            if send.send(chunk[..len].to_vec()).is_err() {
                break;
            }
        }
    });
    receive
}

/// What was read. A grandchild may hold the pipe open after the child's end, so the wait for more is bounded.
fn collect(pipe: Option<Receiver<Vec<u8>>>) -> String {
    let mut all = Vec::new();
    if let Some(pipe) = pipe {
        while let Ok(chunk) = pipe.recv_timeout(Duration::from_secs(2)) {
            all.extend(chunk);
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}
