#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub(crate) const MAX_BYTES: u64 = 1 << 30;

pub(crate) const PIPE_WAIT: Duration = Duration::from_secs(5);

/// Reads the standard input if `name` is `-`. Returns the name for messages as well.
pub(crate) fn read(name: &str) -> (&str, io::Result<Vec<u8>>) {
    match name {
        "-" => ("the standard input", within(io::stdin().lock(), MAX_BYTES)),
        name => (name, open(Path::new(name)).and_then(file)),
    }
}

pub(crate) fn text(path: &Path) -> io::Result<String> {
    let bytes = open(path).and_then(file)?;
    String::from_utf8(bytes)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("it is no UTF-8: {}", error.utf8_error())))
}

/// Opens a file, or a pipe as soon as it has a writer.
fn open(path: &Path) -> io::Result<File> {
    let (opened, when_opened) = mpsc::channel();
    let name = path.to_owned();
    // Where the open never ends, the thread ends with the program.
    thread::spawn(move || opened.send(File::open(name)));
    when_opened.recv_timeout(PIPE_WAIT).unwrap_or_else(|_| {
        let why = "no process writes this pipe: start its writer first";
        Err(io::Error::new(ErrorKind::NotConnected, why))
    })
}

fn file(file: File) -> io::Result<Vec<u8>> {
    // The length of pipes and devices is 0.
    if file.metadata()?.len() > MAX_BYTES { Err(too_large(MAX_BYTES)) } else { within(file, MAX_BYTES) }
}

pub(crate) fn within(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large(limit)) } else { Ok(bytes) }
}

fn too_large(limit: u64) -> io::Error {
    let most = vk_report::units::bytes(limit);
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it has more than {most}, the most that is read: give a part of it"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_read_up_to_the_limit() {
        assert_eq!(within(io::repeat(7).take(100), 100).expect("that is allowed").len(), 100);
        let refused = within(io::repeat(7), 100).expect_err("one too many");
        assert_eq!(refused.kind(), ErrorKind::FileTooLarge);
        assert!(refused.to_string().contains("more than 100 B"), "{refused}");
    }
}
