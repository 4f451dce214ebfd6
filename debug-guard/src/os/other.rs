//! Other systems, and miri: no back end but cookies, no handler, no caught reads. Unsupported calls are refused, never simulated.

use super::{Handled, Mapping, OsRefusal, PageCalls, Trap};
use crate::mode::BackEnd;

/// How a person gets the names of functions, as a line of a report.
pub(crate) const NAMES: &str =
    "  names of functions: steward symbols FILE, with all of this in FILE\n";

/// No list of leaks when the process exits.
pub(crate) const LISTS_AT_EXIT: bool = false;
/// The standard error only.
pub(crate) const WRITES_TO_ANY_DESCRIPTOR: bool = false;

/// No pages can be made inaccessible.
pub(crate) const BACK_ENDS: [BackEnd; 1] = [BackEnd::Cookies];

/// No call is made, so none fails.
pub(crate) fn describe(_: &str, _: i32) -> (&'static str, &'static str) {
    ("not known", "use cookies")
}

/// None offers any.
pub(crate) fn page_calls(_: BackEnd) -> Option<&'static dyn PageCalls> {
    None
}

/// Not known.
pub(crate) fn readable(_: usize) -> bool {
    false
}

/// No fork is seen, and no other thread: nothing is reserved here.
pub(crate) fn without_forks<R>(f: impl FnOnce() -> R) -> R {
    f()
}

pub(crate) fn page_size() -> usize {
    4096
}

/// 0: threads cannot be told apart.
pub(crate) fn thread_id() -> u32 {
    0
}

pub(crate) fn process_id() -> u32 {
    std::process::id()
}

pub(crate) fn write(fd: i32, bytes: &[u8]) {
    use std::io::Write;
    // Unbuffered, so nothing is taken for it. Other descriptors cannot be reached here.
    if fd == 2 {
        let _ = std::io::stderr().write_all(bytes);
    }
}

pub(crate) fn is_terminal(fd: i32) -> bool {
    use std::io::IsTerminal;
    fd == 2 && std::io::stderr().is_terminal()
}

/// Lets other threads run, where that can be asked for.
pub(crate) fn pause() {
    std::thread::yield_now();
}

pub(crate) fn abort() -> ! {
    std::process::abort()
}

/// Not run here.
pub(crate) fn at_exit(_: extern "C" fn()) {}

/// Never called if nothing is run at exit.
pub(crate) fn exit_now(_: i32) -> ! {
    abort()
}

/// None is seen here.
pub(crate) fn forks() -> u32 {
    0
}

/// Not known.
pub(crate) fn total_memory() -> Option<u64> {
    None
}

/// Address space layout and a counter, mixed: good enough for patterns, no secret.
pub(crate) fn random_u64() -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let local = 0_u8;
    let seed = (core::ptr::from_ref(&COUNT).addr() as u64)
        ^ ((core::ptr::from_ref(&local).addr() as u64) << 20);
    let mut x = seed.wrapping_add(COUNT.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed));
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Nothing here catches a read of what cannot be read: so none is made.
pub(crate) const CATCHES_READS: bool = false;

/// Never known.
pub(crate) fn read_u64(_: usize) -> Option<u64> {
    None
}

/// Never known.
pub(crate) fn read_u64_by_kernel(_: usize) -> Option<u64> {
    None
}

pub(crate) fn install_fault_handler(_: fn(&Trap) -> Handled) -> Result<(), OsRefusal> {
    Err(OsRefusal::Unavailable)
}

pub(crate) fn mapping_at(_: usize, _: &mut [u8]) -> Option<Mapping<'_>> {
    None
}

pub(crate) fn thread_name(_: u32, _: &mut [u8; 16]) -> &str {
    ""
}
