//! A whole program over a guard: `cargo run -p debug-guard --example guarded_program`, with `overflow`, `late` or `twice` behind `--`
//! for a mistake and its report, with `leak` for a list at exit.

use std::collections::HashMap;
use std::hint::black_box;

use debug_guard::{GlobalGuard, GuardOptions, LeakMark, Mode, Rule, Stacks};

/// Everything is fenced, and out of reach from its free on; of the many small blocks those below 32 bytes get cookies.
const OPTIONS: GuardOptions =
    GuardOptions::new(Mode::Strict).name("program").rule(Rule::new(Mode::Cookie).size(0, 31)).stacks(Stacks::Full).exit_leaks(1);

#[global_allocator]
static GUARD: GlobalGuard<std::alloc::System> = GlobalGuard::system(OPTIONS);

fn main() {
    let mut words: HashMap<String, usize> = HashMap::new();
    for word in "the quick brown fox jumps over the lazy dog and the other fox".split(' ') {
        *words.entry(word.to_owned()).or_default() += 1;
    }
    println!("{} different words", words.len());
    drop(words);

    // What the runtime took before now may live as long as the process.
    let before: LeakMark = GUARD.mark();
    GUARD.exit_leaks_from(before);

    let bytes = black_box(vec![1_u8; 100]);
    let pointer = black_box(bytes.as_ptr().cast_mut());
    match std::env::args().nth(1).as_deref() {
        None => drop(bytes),
        Some("overflow") => {
            // SAFETY: broken on purpose: the byte behind the block belongs to the guard, which stops the program.
            unsafe { pointer.wrapping_add(100).write(2) };
        }
        Some("late") => {
            drop(bytes);
            // SAFETY: broken on purpose: freed pages belong to the guard, which stops the program.
            unsafe { pointer.write(2) };
        }
        Some("twice") => {
            drop(bytes);
            // SAFETY: broken on purpose: the guard frees no block twice, and stops the program.
            drop(unsafe { Vec::from_raw_parts(pointer, 100, 100) });
        }
        Some("leak") => std::mem::forget(bytes),
        Some(other) => eprintln!("{other}? overflow, late, twice or leak"),
    }
    if let Some(stats) = GUARD.stats() {
        println!("{stats}");
    }
}
