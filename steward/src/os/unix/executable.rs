//! Checks the program's file before it runs: whether the loader can open the layer in it.

#![forbid(unsafe_code)]

use std::env;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use vk_report::files;

const SET_ID: u32 = 0o6000;
type Head = [u8; 20];

/// Returns `None` if there is no known obstacle, or the file is not found.
pub(crate) fn why_no_layer(program: &Path) -> Option<String> {
    let file = find(program)?;
    let own = head(Path::new("/proc/self/exe"));
    let shown = file.display();
    if let (Some(own), Some(theirs)) = (own, head(&file))
        && is_other_architecture(&own, &theirs)
    {
        return Some(format!(
            "{shown} is for another architecture than the layer, which is for 64 bits of this machine: it runs without the layer"
        ));
    }
    let metadata = fs::metadata(&file).ok()?;
    (metadata.mode() & SET_ID != 0).then(|| {
        format!(
            "{shown} runs with another user's or group's rights (set-uid or set-gid): the loader ignores the variables that name the layer, and \
             the layer would pass everything through"
        )
    })
}

pub(crate) fn remedy(program: &Path, error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOENT) if find(program).is_some_and(|file| file.exists()) => {
            "it is there, but not the interpreter that its first line names, or its dynamic linker"
        }
        Some(libc::ENOENT) => "give its path, or its name in a folder of PATH",
        Some(libc::ENOEXEC) => "let it begin with `#!` and its interpreter, or run it with `sh`",
        Some(libc::EACCES) => "name a file that may be executed (chmod +x)",
        _ => "see whether it starts without `steward run`",
    }
}

/// Elsewhere than in a set-uid program they are not.
pub(crate) const fn why_variables_are_ignored() -> Option<&'static str> {
    None
}

pub(crate) fn why_no_meter(program: &Path) -> Option<String> {
    const RUNTIMES: [(&[u8], &str); 4] = [
        (b"__asan_init", "AddressSanitizer"),
        (b"__hwasan_init", "HWAddressSanitizer"),
        (b"__msan_init", "MemorySanitizer"),
        (b"__tsan_init", "ThreadSanitizer"),
    ];
    let file = find(program)?;
    let own = head(Path::new("/proc/self/exe"));
    if let (Some(own), Some(theirs)) = (own, head(&file))
        && is_other_architecture(&own, &theirs)
    {
        return Some(format!("{} is for another architecture than the meter", file.display()));
    }
    // The dynamic linker's table of names ends each with 0, whether the runtime is in the file or in a library.
    let bytes = fs::read(&file).ok()?;
    let mut names = bytes.split(|byte| *byte == 0);
    let (_, runtime) = names.find_map(|name| RUNTIMES.into_iter().find(|(of, _)| *of == name))?;
    Some(format!(
        "{} is built with {runtime}, whose allocator must come first: measure a build without it",
        file.display()
    ))
}

fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return Some(program.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn head(file: &Path) -> Option<Head> {
    let mut head = Head::default();
    files::open(file).ok()?.read_exact(&mut head).ok()?;
    Some(head)
}

/// Scripts are run by their interpreter.
fn is_other_architecture(own: &Head, theirs: &Head) -> bool {
    let of = |head: &Head| match *head {
        [0x7f, b'E', b'L', b'F', class, data, .., low, high] => Some((class, data, low, high)),
        _ => None,
    };
    matches!((of(own), of(theirs)), (Some(own), Some(theirs)) if own != theirs)
}

#[cfg(test)]
mod tests {
    use super::{Head, head, is_other_architecture};
    use std::path::Path;

    #[test]
    fn ly51_classes_and_machines_are_told_apart() {
        let own = head(Path::new("/proc/self/exe")).expect("this program");
        assert!(!is_other_architecture(&own, &own));
        let mut class = own;
        class[4] ^= 3;
        let mut machine = own;
        machine[18] ^= 1;
        assert!(is_other_architecture(&own, &class));
        assert!(is_other_architecture(&own, &machine));
        let script: Head = *b"#!/bin/sh\necho 1234\n";
        assert!(!is_other_architecture(&own, &script));
    }
}
