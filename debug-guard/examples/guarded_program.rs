//! A whole program over a guard: `cargo run -p debug-guard --example guarded_program`, with `overflow`, `late` or
//! `twice` behind `--` for a mistake and its report, with `leak` for a list at exit.
//!
//! It ends with 0 where nothing was wrong, with 1 after a report, with 2 where something was left. The stacks get the
//! names of functions by `2>&1 | cargo run -q -p vk-steward -- symbols -` behind it.

use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;

use debug_guard::{GlobalGuard, GuardOptions, LeakMark, Mode, OnReport, Report, Rule};

/// Everything is fenced, and out of reach from its free on; of the many small blocks those below 32 bytes get cookies.
/// Reports are shown, and the program goes on to its end: `OnReport::Abort`, which is what a guard does if nothing is
/// said, ends it there and then.
const OPTIONS: GuardOptions = GuardOptions::new(Mode::Strict)
    .name("program")
    .rule(Rule::new(Mode::Cookie).size(0, 31))
    .on_report(OnReport::Call(show))
    .json(false)
    .exit_leaks(2);

#[global_allocator]
static GUARD: GlobalGuard<std::alloc::System> = GlobalGuard::system(OPTIONS);

/// May be called in a signal handler, and takes no memory.
fn show(report: &Report<'_>) {
    eprint!("{report}");
}

fn main() -> ExitCode {
    let mut words: HashMap<String, usize> = HashMap::new();
    for word in "the quick brown fox jumps over the lazy dog and the other fox".split(' ') {
        *words.entry(word.to_owned()).or_default() += 1;
    }
    println!("{} different words", words.len());
    drop(words);

    // What the runtime took before now may live as long as the process.
    let guard = match GUARD.guard() {
        Ok(guard) => guard,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let before: LeakMark = guard.mark();
    guard.exit_leaks_from(before);
    match std::env::args().nth(1).as_deref() {
        None => drop(hundred_bytes()),
        Some("overflow") => overflow(),
        Some("late") => late(),
        Some("twice") => twice(),
        Some("leak") => std::mem::forget(hundred_bytes()),
        Some(other) => eprintln!("{other}? overflow, late, twice or leak"),
    }

    let stats = guard.stats();
    println!("{stats}");
    ExitCode::from(u8::from(stats.reports > 0))
}

#[inline(never)]
fn hundred_bytes() -> Vec<u8> {
    black_box(vec![1; 100])
}

fn overflow() {
    let mut bytes = hundred_bytes();
    // SAFETY: broken on purpose: the byte behind the block belongs to the guard, which stops the write, tells of it and
    // lets it land where it harms nothing.
    unsafe { black_box(bytes.as_mut_ptr().wrapping_add(100)).write(2) };
}

fn late() {
    let mut bytes = hundred_bytes();
    let pointer = black_box(bytes.as_mut_ptr());
    drop(bytes);
    // SAFETY: broken on purpose: freed pages belong to the guard, which does as above.
    unsafe { pointer.write(2) };
}

fn twice() {
    let mut bytes = hundred_bytes();
    let pointer = black_box(bytes.as_mut_ptr());
    drop(bytes);
    // SAFETY: broken on purpose: the guard frees no block twice.
    drop(unsafe { Vec::from_raw_parts(pointer, 100, 100) });
}
