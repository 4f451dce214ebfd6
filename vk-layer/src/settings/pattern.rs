//! The name of the executable, and patterns for it.

use std::ffi::CStr;

/// Whether the name of this process's executable fits the pattern. An unknown name fits `*` only.
pub(super) fn fits_executable(pattern: &str) -> bool {
    let mut buffer = [0; MAX_PATH];
    fits(pattern.as_bytes(), executable(&mut buffer))
}

/// `PATH_MAX` of Linux.
pub(crate) const MAX_PATH: usize = 4096;

/// The name of this process's executable, without folders. Empty where it is unknown.
pub(crate) fn executable(buffer: &mut [u8; MAX_PATH]) -> &[u8] {
    let link: &CStr = c"/proc/self/exe";
    let room = buffer.len();
    // SAFETY: a path that ends with 0, and a buffer of this length.
    let length = unsafe { libc::readlink(link.as_ptr(), buffer.as_mut_ptr().cast(), room) };
    let path = usize::try_from(length)
        .ok()
        .and_then(|length| buffer.get(..length));
    let name = path.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    name.unwrap_or_default()
}

/// Whether `text` fits `pattern`, in which `*` stands for any bytes and `?` for one.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // The pattern behind the last `*`, and the text to compare it with next.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', rest)), _) => {
                retry = Some((rest, text));
                pattern = rest;
            }
            (None, None) => return true,
            (Some((wanted, pattern_rest)), Some((byte, text_rest)))
                if *wanted == b'?' || wanted == byte =>
            {
                (pattern, text) = (pattern_rest, text_rest);
            }
            _ => {
                let Some((behind_star, [_, shorter @ ..])) = retry else {
                    return false;
                };
                retry = Some((behind_star, shorter));
                (pattern, text) = (behind_star, shorter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATH, executable, fits, fits_executable};

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_byte() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "vkcube", true),
            ("", "", true),
            ("", "a", false),
            ("vk*", "vkcube", true),
            ("vk*", "xvkcube", false),
            ("*cube", "vkcubecube", true),
            ("*c?be*", "vkcube", true),
            ("v?", "vkc", false),
            ("?", "", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
        ] {
            let fit = fits(pattern.as_bytes(), text.as_bytes());
            assert_eq!(fit, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_executable_is_this_test() {
        let mut buffer = [0; MAX_PATH];
        let path = std::env::current_exe().expect("a path");
        let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes);
        assert_eq!(Some(executable(&mut buffer)), name);
        assert!(fits_executable("*") && !fits_executable("no such program"));
    }
}
