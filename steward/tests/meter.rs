//! The meter counts what it should, to the byte, and takes nothing itself.
//!
//! What it counts is planted in child processes of this test, into which it is preloaded.
#![cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    allow(unused, reason = "the meter is for Linux with glibc")
)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "meter/cost.rs"]
mod cost;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "meter/heap.rs"]
mod heap;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "meter/planted.rs"]
mod planted;

use std::process::ExitCode;

use testkit::{Child, Finished};
use vk_steward::callback_coverage::{CoverageError, Preload};

/// As the first argument: what a child is to do.
const CHILD: &str = "in-a-child";

/// Where the meter must be there.
const POSSIBLE: bool =
    cfg!(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")));

type Test = (&'static str, fn(&Preload));

const TESTS: [Test; 6] = [
    ("a_planted_pattern_is_counted_exactly_in_each_cell", |preload| said(preload, "pattern")),
    ("threads_beyond_the_last_place_are_counted_exactly", |preload| said(preload, "many")),
    ("without_the_preload_there_is_no_meter", without_the_preload_there_is_no_meter),
    ("the_library_knows_no_other_functions_than_it_says", the_library_knows_no_other_functions_than_it_says),
    ("the_heap_holds_the_same_with_and_without_the_meter", the_heap_holds_the_same_with_and_without_the_meter),
    ("the_meter_costs_nanoseconds", the_meter_costs_nanoseconds),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [CHILD, task] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return child(task);
    }
    let wanted: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    for (name, test) in TESTS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        match Preload::new() {
            Ok(preload) => {
                test(&preload);
                println!("test {name} ... ok");
            }
            Err(error @ CoverageError::NotBuilt { .. }) if !POSSIBLE => {
                testkit::skip("meter", name, &error.to_string())
            }
            Err(error) => panic!("{error}"),
        }
    }
    ExitCode::SUCCESS
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn child(task: &str) -> ExitCode {
    // Threads wait for each other: none may fail by itself.
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        std::process::exit(101);
    }));
    match task {
        "pattern" => planted::pattern(),
        "many" => planted::many_threads(),
        "cost" => cost::print(),
        "heap" => heap::print(false),
        "heap-with-a-leak" => heap::print(true),
        _ => panic!("no task {task}"),
    }
    ExitCode::SUCCESS
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn child(task: &str) -> ExitCode {
    panic!("no task {task}")
}

fn this_program(task: &str) -> Child {
    Child::new(std::env::current_exe().expect("a test knows its file")).args([CHILD, task])
}

fn under_the_meter(preload: &Preload, task: &str) -> Finished {
    this_program(task).env("LD_PRELOAD", preload.path()).run()
}

/// The child itself compares, and says so in its last line.
fn said(preload: &Preload, task: &str) {
    let done = under_the_meter(preload, task);
    done.assert_code(0);
    assert!(done.stdout.ends_with("as planted\n"), "{done}");
    print!("{}", done.stdout);
}

fn without_the_preload_there_is_no_meter(_: &Preload) {
    let done = this_program("pattern").env_remove("LD_PRELOAD").run();
    done.assert_code(101);
    assert!(done.stderr.contains("the meter is not in this process"), "{done}");
}

/// Nothing that takes memory, looks up symbols or makes thread-local storage on demand is among what the library
/// imports.
fn the_library_knows_no_other_functions_than_it_says(preload: &Preload) {
    let library = std::fs::read(preload.path()).expect("the library was written");
    let holds = |name: &str| {
        let whole = [b"\0", name.as_bytes(), b"\0"].concat();
        library.windows(whole.len()).any(|window| window == whole)
    };
    for needed in
        ["__libc_malloc", "__libc_memalign", "__errno_location", "syscall", "steward_meter", "malloc", "pvalloc"]
    {
        assert!(holds(needed), "{needed} is not there, so this test cannot see names");
    }
    let unwanted =
        ["dlsym", "dlvsym", "dlopen", "__tls_get_addr", "pthread_key_create", "pthread_setspecific", "sbrk", "abort"];
    for name in unwanted.into_iter().chain(["__cxa_thread_atexit_impl", "pthread_mutex_lock", "_Unwind_Resume"]) {
        assert!(!holds(name), "the meter calls {name}");
    }
}

/// The one number that a child prints.
fn number(done: &Finished) -> u64 {
    done.assert_code(0);
    done.stdout.trim().parse().unwrap_or_else(|error| panic!("{error}: {done}"))
}

/// Live bytes of the C library's heap after threads came, allocated for the first time, and went.
fn the_heap_holds_the_same_with_and_without_the_meter(preload: &Preload) {
    let with = number(&under_the_meter(preload, "heap"));
    let without = number(&this_program("heap").env_remove("LD_PRELOAD").run());
    assert_eq!(with, without, "bytes that the meter took");
    let leaking = number(&under_the_meter(preload, "heap-with-a-leak"));
    assert!(leaking > with, "a block that was not given back is not seen: {leaking} against {with}");
}

/// Printed for the reader; the limit only tells counting from looking up, locking or sharing.
fn the_meter_costs_nanoseconds(preload: &Preload) {
    let (mut with, mut without) = (u64::MAX, u64::MAX);
    for _ in 0..3 {
        without = without.min(number(&this_program("cost").env_remove("LD_PRELOAD").run()));
        with = with.min(number(&under_the_meter(preload, "cost")));
    }
    let nanoseconds = |picoseconds: u64| picoseconds as f64 / 1000.0;
    let more = nanoseconds(with.saturating_sub(without));
    println!(
        "  a block of 64 bytes, taken and given back: {:.1} ns, and {more:.1} more under the meter",
        nanoseconds(without)
    );
    assert!(more < 20.0, "{more} ns more");
}
