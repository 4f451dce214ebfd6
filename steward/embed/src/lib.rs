//! The shared library that cargo has built of a dependency, as bytes.
//!
//! Cargo builds a dependency with the crate types `rlib` and `cdylib` into two files of one folder, and tells the
//! compiler where the first is. The macro looks beside it: cargo has no stable name for the second file, which has a
//! hash in its name if the dependency comes from a registry, and none if it comes from a path.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

use std::env;
use std::path::{Path, PathBuf};

use proc_macro::TokenStream;

/// `shared_library!(NAME)`: an `Option<&'static [u8]>` with the shared library of the dependency whose library is
/// called `NAME`.
///
/// `None` if the compiler links nothing (`cargo check`, documentation, an editor), or if the file is not there.
#[proc_macro]
pub fn shared_library(name: TokenStream) -> TokenStream {
    let arguments: Vec<_> = env::args().collect();
    let file = linked(&name.to_string(), &arguments).and_then(|rlib| {
        let mut candidates = beside(&rlib).into_iter();
        candidates.find(|file| file.is_file())
    });
    let expression = match file.as_deref().and_then(Path::to_str) {
        Some(file) => {
            format!("::core::option::Option::Some(::core::include_bytes!({file:?}).as_slice())")
        }
        None => "::core::option::Option::<&'static [u8]>::None".to_owned(),
    };
    expression.parse().unwrap_or_default()
}

fn linked(name: &str, arguments: &[String]) -> Option<PathBuf> {
    let values = arguments.iter().filter_map(|argument| {
        let value = argument.strip_prefix("--extern=").unwrap_or(argument);
        let (named, file) = value.split_once('=')?;
        // `priv:NAME=FILE`, with options of `--extern`.
        let named = named.rsplit(':').next();
        (named == Some(name)).then_some(file)
    });
    let mut files = values.map(PathBuf::from);
    files.find(|file| file.extension().is_some_and(|it| it == "rlib"))
}

fn beside(rlib: &Path) -> Vec<PathBuf> {
    let stem = rlib.file_stem().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_prefix("lib").unwrap_or(&stem);
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|it| it.is_ascii_hexdigit());
    let plain = stem.rsplit_once('-').filter(|(_, end)| is_hash(end));
    let stems = [Some(stem), plain.map(|(plain, _)| plain)];
    // This runs on another system than the library, where a program is built for one.
    let own = [(env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX), ("", ".dll")];
    let names = stems.into_iter().flatten();
    let names = names.flat_map(|stem| own.map(|(prefix, suffix)| format!("{prefix}{stem}{suffix}")));
    names.map(|name| rlib.with_file_name(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{beside, linked};
    use std::path::{Path, PathBuf};

    #[test]
    fn the_file_that_is_linked_is_read_from_the_command_line() {
        let named = |arguments: &[&str]| {
            let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
            linked("Layer", &arguments)
        };
        let file = Some(PathBuf::from("/t/libLayer-0123456789abcdef.rlib"));
        let value = "Layer=/t/libLayer-0123456789abcdef.rlib";
        assert_eq!(named(&["rustc", "--extern", "Layers=/x.rlib", "--extern", value]), file);
        assert_eq!(named(&[&format!("--extern={value}")]), file);
        assert_eq!(named(&["--extern", &format!("priv:{value}")]), file);
        assert_eq!(named(&["--extern", "Layer=/t/libLayer-0123456789abcdef.rmeta"]), None);
        assert_eq!(named(&["--crate-name", "Layer", "--extern", "Layer"]), None);
    }

    #[test]
    fn the_shared_library_has_the_hash_of_the_other_or_none() {
        let names = |rlib: &str| beside(Path::new(rlib));
        let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        // As this system calls it, and as Windows does.
        let both = |stem: &str| {
            [format!("{prefix}{stem}{suffix}"), format!("{stem}.dll")].map(|name| Path::new("/t").join(name))
        };
        let (hashed, plain) = (both("Layer-0123456789abcdef"), both("Layer"));
        assert_eq!(names("/t/libLayer-0123456789abcdef.rlib"), [hashed, plain.clone()].concat());
        assert_eq!(names("/t/libLayer.rlib"), plain);
        assert_eq!(names("/t/libLayer-name.rlib"), both("Layer-name"));
    }
}
