//! Allocators that are preloaded: this program once more, in a process of its own, whose `malloc` they are.

use std::alloc::Layout;
use std::env;
use std::fs;
use std::process::{Command, Output};
use std::ptr::NonNull;

use super::clock::pinned;
use super::ring::Ring;
use super::subject::Subject;

/// `malloc` and `free` as the program finds them.
pub struct Malloc;

impl Subject for Malloc {
    #[inline]
    fn take(&self, layout: Layout) -> NonNull<u8> {
        // SAFETY: any size may be asked for.
        NonNull::new(unsafe { libc::malloc(layout.size()) }.cast()).expect("memory")
    }
    #[inline]
    unsafe fn give(&self, block: NonNull<u8>, _: Layout) {
        // SAFETY: this function's contract: a live block of malloc's.
        unsafe { libc::free(block.as_ptr().cast()) }
    }
}

/// A library that takes the place of `malloc`.
pub struct Peer {
    pub name: &'static str,
    library: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// How many pairs are timed at once.
    pub operations: usize,
}

pub const PEERS: [Peer; 3] = [
    Peer {
        name: "malloc-check",
        library: "libc_malloc_debug.so.0",
        environment: &[("MALLOC_CHECK_", "3"), ("GLIBC_TUNABLES", "glibc.malloc.check=3")],
        operations: 100_000,
    },
    Peer {
        name: "electric-fence",
        library: "libefence.so.0",
        environment: &[("EF_DISABLE_BANNER", "1"), ("EF_ALLOW_MALLOC_0", "1")],
        operations: 1000,
    },
    Peer {
        name: "duma",
        library: "libduma.so.0",
        environment: &[("DUMA_DISABLE_BANNER", "1"), ("DUMA_ALLOW_MALLOC_0", "1")],
        operations: 500,
    },
];

impl Peer {
    fn run(&self, arguments: &[&str]) -> Output {
        let program = env::current_exe().expect("a path");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .arg(self.library)
            .env("LD_PRELOAD", self.library)
            .envs(self.environment.iter().copied());
        command.output().expect("it starts")
    }

    /// ns a pair; `None`, said why, where the library is not there.
    pub fn pair(&self, live: usize, operations: usize, in_order: bool) -> Option<f64> {
        let output =
            self.run(&["--peer", &live.to_string(), &operations.to_string(), if in_order { "fifo" } else { "random" }]);
        let text = String::from_utf8_lossy(&output.stdout);
        let figure = text.lines().find_map(|line| line.strip_prefix("pair: ")?.parse().ok());
        if figure.is_none() {
            println!("SKIPPED guard/{}: {} {}", self.name, output.status, first_line(&output));
        }
        figure
    }

    /// How many blocks it holds at once before it ends, of at most `most`.
    pub fn capacity(&self, most: usize) -> usize {
        let output = self.run(&["--fill", &most.to_string()]);
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter_map(|line| line.strip_prefix("held: ")?.parse().ok()).max().unwrap_or(0)
    }
}

fn first_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// True where this process is one of [`Peer::run`], and did what it was started for.
pub fn was_peer() -> bool {
    let arguments: Vec<String> = env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(0);
    match arguments.get(1).map(String::as_str) {
        Some("--peer") => {
            assert!(preloaded(&arguments), "not installed");
            let in_order = arguments.get(4).is_some_and(|order| order == "fifo");
            println!(
                "pair: {}",
                pinned(|| {
                    let mut ring = Ring::new(&Malloc, number(2));
                    ring.turn(number(3) / 4, in_order);
                    let time = ring.turn(number(3), in_order);
                    // The process ends: what it holds need not go one by one.
                    std::mem::forget(ring);
                    time
                })
            );
            true
        }
        Some("--fill") => {
            assert!(preloaded(&arguments), "not installed");
            for held in 1..=number(2) {
                super::subject::write(Malloc.take(super::ring::LAYOUT));
                if held % 500 == 0 {
                    println!("held: {held}");
                }
            }
            true
        }
        _ => false,
    }
}

/// A library that is not there is passed over by the loader with a word on standard error.
fn preloaded(arguments: &[String]) -> bool {
    let Some((library, maps)) = arguments.last().zip(fs::read_to_string("/proc/self/maps").ok()) else {
        return false;
    };
    let stem = library.split('.').next().unwrap_or(library);
    maps.contains(stem)
}
