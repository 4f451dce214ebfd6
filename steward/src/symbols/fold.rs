//! Selects the frames of a stack to show: readers look for their own line that took the block.
//!
//! ```text
//!   #0 .. the guard, contexts, bridges |            |                   |
//!   #9 .. alloc, core, std             | inner end  | what is shown     | outer end: the runtime that called main or the thread
//! ```

use std::ops::Range;

use vk_report::report::LeakFrame;

use super::Function;

/// Crates whose frames are between a caller and the block.
const OURS: [&str; 5] = ["debug_guard", "alloc_core", "vk_callbacks", "vk_report", "vk_steward"];
/// The module of these crates that calls like a program.
const CALLER: &str = "vk_steward::workload::";
const LIBRARY: [&str; 4] = ["alloc", "core", "std", "hashbrown"];
/// Functions that the compiler inserts between the library and a global allocator.
const SHIMS: [&str; 4] = ["__rust_", "__rg_", "__rdl_", "__rustc"];
/// Marks the frame below which a Rust program's own frames are.
const RUNTIME: &str = "__rust_begin_short_backtrace";

/// The first frame is shown without its `inlined` innermost functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) frames: Range<usize>,
    pub(super) inlined: usize,
}

/// With `exact` the innermost frame is a stopped instruction and stays.
pub(super) fn shown(frames: &[Vec<Function>], exact: bool) -> Shown {
    let outer = outer_end(frames);
    let inner = |is_one: fn(&Function) -> bool| {
        let all = |functions: &&Vec<Function>| !functions.is_empty() && functions.iter().all(is_one);
        let first = frames[..outer].iter().take_while(all).count();
        let inlined = frames[..outer].get(first).map_or(0, |functions| {
            let known = functions.iter().take_while(|function| is_one(function)).count();
            if known == functions.len() { 0 } else { known }
        });
        Shown { frames: first..outer, inlined }
    };
    if exact {
        return Shown { frames: 0..outer, inlined: 0 };
    }
    // A stack with library frames only is shown.
    let whole = || Shown { frames: 0..frames.len(), inlined: 0 };
    let is_some = |shown: &Shown| !shown.frames.is_empty();
    Some(inner(|function| is_ours(function) || is_of(function, &LIBRARY)))
        .filter(is_some)
        .or_else(|| Some(inner(is_ours)).filter(is_some))
        .unwrap_or_else(whole)
}

/// The frames of program, libraries and driver, without the runtime that called `main` or the thread.
#[must_use]
pub fn program_frames(frames: &[LeakFrame]) -> &[LeakFrame] {
    let named = frames.iter().map(|frame| {
        let functions = frame.functions.iter();
        let named = functions.map(|name| Function { name: name.clone(), ..Function::default() });
        named.collect()
    });
    let end = outer_end(&named.collect::<Vec<_>>());
    frames.get(..end).unwrap_or(frames)
}

fn outer_end(frames: &[Vec<Function>]) -> usize {
    let of_runtime = |functions: &Vec<Function>| functions.iter().any(|function| function.name.contains(RUNTIME));
    let Some(first) = frames.iter().rposition(of_runtime) else {
        return frames.len();
    };
    let calls = |functions: &&Vec<Function>| {
        !functions.is_empty() && functions.iter().all(|function| is_of(function, &LIBRARY))
    };
    first - frames[..first].iter().rev().take_while(calls).count()
}

fn is_ours(function: &Function) -> bool {
    let name = &function.name;
    let path = path(name);
    let calls = path.starts_with(CALLER);
    SHIMS.iter().any(|shim| name.starts_with(shim)) || (!calls && is_of(function, &OURS))
}

fn is_of(function: &Function, crates: &[&str]) -> bool {
    match path(&function.name).split_once("::") {
        Some((first, _)) => crates.contains(&first),
        None => crates.iter().any(|name| is_in(function.file.as_deref().unwrap_or(""), name)),
    }
}

/// The file is the crate's: tables of lines alone have no modules in the names of what is inlined. A program may have a
/// folder `core` too.
fn is_in(file: &str, name: &str) -> bool {
    let Some((before, _)) = file.rsplit_once("/src/").filter(|_| file.ends_with(".rs")) else {
        return false;
    };
    let (above, folder) = before.rsplit_once('/').unwrap_or(("", before));
    match LIBRARY.contains(&name) {
        true => folder == name && above.ends_with("/library"),
        false => folder.replace('-', "_").strip_prefix(name).is_some_and(|rest| !rest.starts_with(char::is_alphabetic)),
    }
}

/// The path of a function's owner: of `<a::B<C> as d::E>::f` the type's, or the trait's if the type is a parameter.
fn path(name: &str) -> &str {
    let Some(inner) = name.strip_prefix('<') else {
        return name.split('<').next().unwrap_or(name);
    };
    let type_ = inner.trim_start_matches(['&', '*', '[', '(', '<']);
    let type_ =
        ["mut ", "const ", "dyn "].into_iter().fold(type_, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
    let end = type_.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(type_.len());
    if type_[..end].contains("::") {
        return type_;
    }
    // For a parameter, a number or a slice of these, take the trait.
    inner.split_once(" as ").map_or(type_, |(_, of)| of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(names: &[&str]) -> Vec<Function> {
        names.iter().map(|name| Function { name: (*name).to_owned(), file: None, line: None }).collect()
    }

    const GUARD: &str = "<debug_guard::guard::Guard<A> as alloc_core::host::HostAllocator>::allocate";

    #[test]
    fn a_caller_s_frames_are_shown() {
        let frames = [
            frame(&["debug_guard::sites::Sites::note_anew"]),
            frame(&[GUARD, "__rustc::__rust_alloc"]),
            frame(&[
                "alloc::raw_vec::RawVec<T>::grow",
                "<T as alloc::slice::hack::ConvertVec>::to_vec",
                "program::make",
            ]),
            frame(&["program::main"]),
            frame(&["core::ops::function::FnOnce::call_once"]),
            frame(&["std::sys::backtrace::__rust_begin_short_backtrace"]),
            frame(&["main"]),
            frame(&[]),
        ];
        assert_eq!(shown(&frames, false), Shown { frames: 2..4, inlined: 2 });
        assert_eq!(shown(&frames, true), Shown { frames: 0..4, inlined: 0 });
    }

    #[test]
    fn nothing_that_is_not_known_to_say_nothing_is_left_out() {
        assert_eq!(shown(&[frame(&[]), frame(&["f"])], false), Shown { frames: 0..2, inlined: 0 });
        assert_eq!(shown(&[], false), Shown { frames: 0..0, inlined: 0 });
        let own = [frame(&[GUARD]), frame(&["std::thread::current::id"])];
        assert_eq!(shown(&own, false), Shown { frames: 1..2, inlined: 0 }, "all of it is the library's");
        assert_eq!(shown(&own[..1], false), Shown { frames: 0..1, inlined: 0 }, "something is shown of every stack");
        for name in ["vk_steward::workload::run", "<program::T as core::ops::Drop>::drop"] {
            assert_eq!(shown(&[frame(&[GUARD]), frame(&[name])], false), Shown { frames: 1..2, inlined: 0 }, "{name}");
        }
    }

    #[test]
    fn a_function_without_modules_is_its_files_crate_s() {
        for (file, crate_) in [
            ("/home/src/debug-guard/src/guard/allocate.rs", "debug_guard"),
            ("/registry/src/index/alloc-core-0.1.0/src/context/allocate.rs", "alloc_core"),
            ("/rustc/0123/library/core/src/ops/function.rs", "core"),
        ] {
            let function =
                |file: &str| Function { name: "f<a::T>".to_owned(), file: Some(file.to_owned()), line: None };
            assert!(is_of(&function(file), &[crate_]), "{file}");
            assert!(!is_of(&function(file), &["hashbrown"]), "{file}");
            assert!(!is_of(&function(&file.replace(".rs", ".c")), &[crate_]), "{file}");
        }
        assert!(!is_in("/home/engine/core/src/renderer.rs", "core"));
        assert!(!is_in("/home/debug-guarded/src/main.rs", "debug_guard"));
    }

    #[test]
    fn a_page_shows_the_programs_frames_alone() {
        let frames: Vec<_> = [
            "ash::create_buffer, ash/device.rs:7",
            "program::main, main.rs:1",
            "core::ops::function::FnOnce::call_once, core/function.rs:250",
            "std::sys::backtrace::__rust_begin_short_backtrace, std/backtrace.rs:166",
            "main",
        ]
        .map(|name| LeakFrame { functions: vec![name.to_owned()], ..LeakFrame::default() })
        .into();
        assert_eq!(program_frames(&frames), &frames[..2]);
        assert_eq!(program_frames(&frames[..2]), &frames[..2]);
    }

    #[test]
    fn a_function_is_its_type_s_crate_s() {
        for (name, expected) in [
            ("a::b::c", "a"),
            ("<a::b::C<d::E> as f::G>::h", "a"),
            ("<&mut a::b::C as f::G>::h", "a"),
            ("<[a::b::C] as f::G>::h", "a"),
            ("<T as f::G>::h", "f"),
            ("<u8 as f::G>::h", "f"),
            ("<dyn a::b::C as f::G>::h", "a"),
        ] {
            assert_eq!(path(name).split("::").next(), Some(expected), "{name}");
        }
    }
}
