//! A terminal without a screen, for programs that show something else on one than they write to a file.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};

/// Which output of a program is the terminal. The other one is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalOutput {
    /// Its standard output.
    Output,
    /// Its standard error.
    ErrorOutput,
}

/// Both ends of a terminal of so many columns: ours, and the program's.
fn open(columns: u16) -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize {
        ws_row: 40,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: two places for descriptors, no name and no modes, and a size that lives.
    let done =
        unsafe { libc::openpty(&raw mut ours, &raw mut theirs, name, modes, &raw const size) };
    assert_eq!(done, 0, "a terminal");
    // SAFETY: just opened, and nobody else's.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: just opened, and nobody else's.
    (ours, unsafe { OwnedFd::from_raw_fd(theirs) })
}

/// Runs `command` to its end with `output` on a terminal of `columns`; what it shows there, with line ends as in a file.
pub(crate) fn shown(mut command: Command, columns: u16, output: TerminalOutput) -> String {
    let (mut ours, theirs) = open(columns);
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
