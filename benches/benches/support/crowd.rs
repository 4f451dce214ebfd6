//! A million live blocks: what they cost to make, and what the kernel keeps for them.

use std::env;
use std::fs;
use std::process::Command;

use super::clock::{pinned, thread_ns};
use super::ring::LAYOUT;
use super::subject::{Subject, write};

/// What a crowd took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// ns a block.
    pub fill: f64,
    /// ns a block that goes.
    pub end: f64,
    /// While all live, minus before.
    pub mappings: i64,
    /// KiB, likewise.
    pub page_tables: i64,
    pub resident: i64,
}

/// Runs this program once more for `name`, in a process of its own; `None`, said why, where that fails.
pub fn child(name: &str, live: usize) -> Option<Taken> {
    let program = env::current_exe().expect("a path");
    let output = Command::new(program).args(["--crowd", name, &live.to_string()]).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Vec<f64> = text
        .lines()
        .find_map(|line| line.strip_prefix("crowd:"))
        .map(|line| line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .unwrap_or_default();
    let [fill, end, mappings, page_tables, resident] = figures[..] else {
        println!("SKIPPED guard/{name}-crowd: {} {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        return None;
    };
    Some(Taken { fill, end, mappings: mappings as i64, page_tables: page_tables as i64, resident: resident as i64 })
}

/// The name and the number with which [`child`] started this process.
pub fn asked() -> Option<(String, usize)> {
    let mut arguments = env::args().skip(1);
    (arguments.next()? == "--crowd").then_some(())?;
    Some((arguments.next()?, arguments.next()?.parse().ok()?))
}

/// Makes and ends the crowd, and prints what [`child`] reads.
pub fn run<S: Subject>(subject: &S, live: usize) {
    pinned(|| {
        let mut blocks = Vec::with_capacity(live);
        // The list itself is there before anything is counted.
        blocks.resize(live, std::ptr::NonNull::dangling());
        let before = (mappings(), status("VmPTE"), status("VmRSS"));
        let start = thread_ns();
        for place in &mut blocks {
            *place = subject.take(LAYOUT);
            write(*place);
        }
        let filled = thread_ns();
        let full = (mappings(), status("VmPTE"), status("VmRSS"));
        let between = thread_ns();
        for block in blocks {
            // SAFETY: taken above, still live.
            unsafe { subject.give(block, LAYOUT) };
        }
        let ended = thread_ns();
        let each = |ns: u64| ns as f64 / live as f64;
        println!(
            "crowd: {} {} {} {} {}",
            each(filled - start),
            each(ended - between),
            full.0 - before.0,
            full.1 - before.1,
            full.2 - before.2
        );
    });
}

/// Counted from the process's own list.
fn mappings() -> i64 {
    fs::read_to_string("/proc/self/maps").expect("a list").lines().count() as i64
}

fn status(key: &str) -> i64 {
    let text = fs::read_to_string("/proc/self/status").expect("a status");
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).expect("the key");
    line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}
