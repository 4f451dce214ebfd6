//! A terminal without a screen, for programs that show something else on one than they write to a file.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Which output of a program is the terminal. The other one is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalOutput {
    /// Its standard output.
    Output,
    /// Its standard error.
    ErrorOutput,
}

const fn size((rows, columns): (u16, u16)) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Both ends of a terminal of so many rows and columns: ours, and the program's.
fn open(of_size: (u16, u16)) -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = size(of_size);
    let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: two places for descriptors, no name and no modes, and a size that lives.
    let done = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, name, modes, &raw const size) };
    assert_eq!(done, 0, "a terminal");
    // SAFETY: just opened, and nobody else's.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: just opened, and nobody else's.
    (ours, unsafe { OwnedFd::from_raw_fd(theirs) })
}

/// Runs `command` to its end with `output` on a terminal of `columns`; what it shows there, with line ends as in a
/// file.
pub(crate) fn shown(mut command: Command, columns: u16, output: TerminalOutput) -> String {
    let (mut ours, theirs) = open((40, columns));
    let (out, err) = match output {
        TerminalOutput::Output => (Stdio::from(theirs), Stdio::null()),
        TerminalOutput::ErrorOutput => (Stdio::null(), Stdio::from(theirs)),
    };
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    let mut running = command.spawn().expect("the program starts");
    // Our copy of its end; the terminal ends with the last one.
    drop(command);
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    // A terminal whose other end is closed is an error to read.
    while let Ok(length @ 1..) = ours.read(&mut piece) {
        text.extend_from_slice(&piece[..length]);
    }
    running.wait().expect("it is ours to wait for");
    String::from_utf8_lossy(&text).replace("\r\n", "\n")
}

/// A program with a terminal of its own, which sends it keys and signals.
#[derive(Debug)]
pub struct OnTerminal {
    running: std::process::Child,
    /// `None` once it is closed.
    ends: Option<(File, OwnedFd)>,
}

impl OnTerminal {
    pub(crate) fn start(mut command: Command, of_size: (u16, u16)) -> Self {
        let (ours, theirs) = open(of_size);
        for end in [ours.as_raw_fd(), theirs.as_raw_fd()] {
            // SAFETY: an open file. Another child with it would keep the terminal open.
            unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        let stream = || Stdio::from(theirs.try_clone().expect("a copy"));
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let own_terminal = || {
            // SAFETY: a system call without pointers.
            unsafe { libc::setsid() };
            // SAFETY: the standard input is the terminal, and the request takes a number.
            unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
            Ok(())
        };
        // SAFETY: the closure makes system calls and nothing else.
        unsafe { command.pre_exec(own_terminal) };
        let running = command.spawn().expect("the program starts");
        Self { running, ends: Some((ours, theirs)) }
    }

    fn end(&self) -> &File {
        &self.ends.as_ref().expect("it is open").0
    }

    /// The number of its process.
    #[must_use]
    pub fn process(&self) -> i32 {
        self.running.id().cast_signed()
    }

    /// Types these keys.
    ///
    /// # Panics
    /// When the terminal is closed.
    pub fn press(&self, keys: &str) {
        self.end().write_all(keys.as_bytes()).expect("keys");
    }

    /// Changes the terminal's rows and columns.
    ///
    /// # Panics
    /// When the terminal is closed.
    pub fn resize(&self, of_size: (u16, u16)) {
        let size = size(of_size);
        // SAFETY: an open terminal, and a size that lives.
        let done = unsafe { libc::ioctl(self.end().as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0, "a size");
    }

    /// What the program shows within `limit`, or until some of it is there.
    ///
    /// # Panics
    /// When the terminal is closed.
    #[must_use]
    pub fn read(&self, limit: Duration) -> Vec<u8> {
        let mut poll = libc::pollfd { fd: self.end().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let limit = i32::try_from(limit.as_millis()).expect("it is short");
        // SAFETY: one struct.
        let ready = unsafe { libc::poll(&raw mut poll, 1, limit) };
        let mut piece = vec![0; 65_536];
        let length = match ready {
            1 => self.end().read(&mut piece).expect("its output"),
            _ => 0,
        };
        piece.truncate(length);
        piece
    }

    /// Whether the terminal shows and collects lines, as before any program has changed it.
    ///
    /// # Panics
    /// When the terminal is closed.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        let mut modes = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: an open terminal, and room for its modes.
        let done = unsafe { libc::tcgetattr(self.end().as_raw_fd(), modes.as_mut_ptr()) };
        assert_eq!(done, 0, "modes");
        // SAFETY: the call has written them.
        let modes = unsafe { modes.assume_init() };
        let both = libc::ICANON | libc::ECHO;
        modes.c_lflag & both == both
    }

    /// Closes the terminal, as who closes its window.
    pub fn close(&mut self) {
        self.ends = None;
    }

    /// How it ends, within half a minute.
    ///
    /// # Panics
    /// When it goes on.
    pub fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.running.try_wait().expect("it is ours") {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "it goes on");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}
