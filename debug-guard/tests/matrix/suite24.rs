//! The 24 mistakes that the tools this one descends from were measured by, against every mode and back end, compared
//! with a table.
//!
//! `cargo test -p debug-guard --test matrix suite24 -- --nocapture` prints it.
//!
//! `I` stopped at the instruction or at the call; `F` found later, when the block came back or all was looked at; `R`
//! told of at the end of the process; `.` nothing was said, and the process went on to its end; `!` nothing was said,
//! and the process ended by the mistake; `~` nothing was said, and what becomes of the process is the C library's
//! affair. Alternate places are run twice, with the block that the mistake is about as the guard's first and as its
//! second, and the better letter counts: what a program does every time is done to both.

use std::collections::BTreeMap;
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use debug_guard::{BackEnd, BackEnds, GuardOptions, Mode, Placement, Sampling};

use crate::common::{Config, Lab, Place, SeenByChild, is_child, lent, skip_what_is_not_offered};
use crate::mistakes::{CASES, MISTAKES, commit};
use crate::system::ENDS_WITH_A_BROKEN_HEAP;

const TABLE: &str = include_str!("../suite24.table");
/// Which mistake the child makes, and how many blocks it takes before.
const NUMBER: &str = "STEWARD_NUMBER";
const BEFORE: &str = "STEWARD_BEFORE";
/// What a process with leaks exits with.
const LEAKS: i32 = 24;
/// The mistake that is about no block, and those that only read.
const FOREIGN: usize = 12;
const READS: [usize; 3] = [3, 5, 7];
/// It writes behind what a cookie guards, where there may be no memory.
const FAR_BEHIND: usize = 15;
/// Those that damage what the C library keeps next to its blocks, or hand it what is none of its own: it may end the
/// process.
const DAMAGING: [usize; 13] = [4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21];

#[test]
fn suite24_every_mistake_under_every_mode() {
    fn case(lab: &Lab) {
        let number = |name| -> usize { env::var(name).expect("set by the parent").parse().expect("a number") };
        let blocks: Vec<_> = (0..number(BEFORE)).map(|_| lab.take(64, 16)).collect();
        commit(lab, number(NUMBER));
        blocks.into_iter().for_each(|block| lab.give(block, 64, 16));
        lab.guard.check_all();
    }
    let place = Place::of(&case);
    if is_child() {
        return place.run(options, case);
    }
    skip_what_is_not_offered("suite24");
    let rows = rows();
    let letters = letters(place, &rows);
    let expected: Vec<&str> = TABLE.lines().skip_while(|line| !line.starts_with("case")).collect();
    for (number, (name, _)) in MISTAKES.iter().enumerate() {
        println!("{:2} {name}", number + 1);
    }
    println!("\n{}", expected[0]);
    let mut wrong = Vec::new();
    for (config, letters) in rows.iter().zip(letters) {
        let line = format!(
            "{:16}{}",
            mode_of(*config),
            letters.chars().map(|letter| format!("  {letter}")).collect::<String>()
        );
        println!("{line}   {}", config.back_end.map_or("", BackEnd::name));
        if !expected.contains(&line.as_str()) {
            wrong.push(line);
        }
        if config.placement == Placement::Alternate {
            let missed: Vec<usize> = (1..)
                .zip(letters.chars())
                .filter(|(_, letter)| !"IFR".contains(*letter))
                .map(|(case, _)| case)
                .collect();
            // What was never written may be read; and so may what waits poisoned, in a page that is still there.
            let seen_by_none: &[usize] = if config.mode == Mode::Strict { &[17] } else { &[7, 17] };
            assert_eq!(missed, seen_by_none, "{}", config.name());
        }
    }
    assert!(wrong.is_empty(), "not as in debug-guard/tests/suite24.table:\n{}", wrong.join("\n"));
    assert_eq!(expected.len() - 1, 9, "a line for each mode and place");
}

/// Every mode and place, those with pages on every back end that there is.
fn rows() -> Vec<Config> {
    let plain = |mode| Config { mode, placement: Placement::Right, back_end: None };
    let mut rows = vec![plain(Mode::Off), plain(Mode::Cookie)];
    for back_end in lent().filter(|back_end| BackEnds::probe().offers(*back_end)) {
        let on = |mode, placement| Config { mode, placement, back_end: Some(back_end) };
        rows.push(on(Mode::Sampled, Placement::Right));
        for mode in [Mode::Fence, Mode::Strict] {
            rows.extend([Placement::Right, Placement::Left, Placement::Alternate].map(|placement| on(mode, placement)));
        }
    }
    rows
}

/// For each row the letters of all cases.
fn letters(place: Place, rows: &[Config]) -> Vec<String> {
    let (cells, next) = (Mutex::new(BTreeMap::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, SeqCst);
                    let Some(config) = rows.get(job / CASES) else {
                        break;
                    };
                    let letter = judge(place, *config, job % CASES + 1);
                    cells.lock().expect("no panic").insert(job, letter);
                }
            });
        }
    });
    let cells: Vec<char> = cells.into_inner().expect("no panic").into_values().collect();
    cells.chunks(CASES).map(|row| row.iter().collect()).collect()
}

fn judge(place: Place, config: Config, number: usize) -> char {
    if is_damaged(config, number) && !ENDS_WITH_A_BROKEN_HEAP {
        return '~';
    }
    let before = if config.placement == Placement::Alternate { &[0, 1][..] } else { &[0] };
    let letters = before.iter().map(|before| {
        let more = |child: testkit::Child| child.env(NUMBER, number.to_string()).env(BEFORE, before.to_string());
        letter(number, &SeenByChild::new(place.path, config, place.child(config, more)))
    });
    letters.min_by_key(|letter| "!IFR.~".find(*letter)).expect("a run")
}

/// What is said is said once, of the right kind and block, and ends the process; what is not said does not end it.
fn letter(number: usize, seen: &SeenByChild) -> char {
    assert!(!seen.finished.timed_out, "{}", seen.finished);
    if !seen.reports.is_empty() {
        let (_, kind) = MISTAKES[number - 1];
        let told = seen.aborted().kind(kind);
        if number == FOREIGN {
            told.without_block();
        } else {
            assert_eq!(told.block_address(), seen.note("block"), "{}: {number}: {told:?}", seen.config.name());
        }
        if told.stopped_there() {
            told.access(if READS.contains(&number) { "read" } else { "write" });
        }
        return if told.at_once() { 'I' } else { 'F' };
    }
    match seen.finished.code {
        _ if is_damaged(seen.config, number) => '~',
        Some(0) => {
            let guarded = ["guarded", "cookies"].map(|name| seen.note(name)).iter().sum::<usize>();
            assert_eq!(
                guarded > 0,
                seen.config.mode != Mode::Off,
                "{}: {number}: {}",
                seen.config.name(),
                seen.finished
            );
            seen.ended();
            '.'
        }
        Some(LEAKS) => {
            seen.note("done");
            assert_eq!(seen.leaked(), [(1, 64)], "{}: {number}: {}", seen.config.name(), seen.finished);
            'R'
        }
        _ => '!',
    }
}

/// The C library meets the mistake by itself.
fn is_damaged(config: Config, number: usize) -> bool {
    let unguarded = config.mode == Mode::Off
        || (config.mode == Mode::Sampled && number == FOREIGN)
        || (config.mode == Mode::Cookie && number == FAR_BEHIND);
    unguarded && DAMAGING.contains(&number)
}

fn options(config: Config, options: GuardOptions) -> GuardOptions {
    match config.mode {
        // They write no blocks down.
        Mode::Off => options,
        Mode::Sampled => options.sampling(Sampling::one_in(1)),
        _ => options.exit_leaks(LEAKS),
    }
}

/// As the table calls it, whatever the back end.
fn mode_of(config: Config) -> String {
    let name = config.name();
    let mut words = name.split('.').take(if matches!(config.mode, Mode::Fence | Mode::Strict) { 2 } else { 1 });
    let mode = words.next().unwrap_or_default();
    words.fold(mode.to_owned(), |all, word| format!("{all} {word}"))
}
