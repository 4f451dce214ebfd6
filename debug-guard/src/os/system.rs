//! Other systems, and miri. Unsupported calls are refused, never simulated.

use super::{Handled, Mapping, OsRefusal, PageCalls, Trap};
use crate::mode::BackEnd;

pub(crate) const NAMES: &str = "  names of functions: steward symbols FILE, with all of this in FILE\n";

pub(crate) const LISTS_AT_EXIT: bool = false;
pub(crate) const WRITES_TO_ANY_DESCRIPTOR: bool = false;

pub(crate) const BACK_ENDS: [BackEnd; 1] = [BackEnd::Cookies];

pub(crate) fn describe(_: &str, _: i32) -> (&'static str, &'static str) {
    ("not known", "use cookies")
}

pub(crate) fn page_calls(_: BackEnd) -> Option<&'static dyn PageCalls> {
    None
}

pub(crate) fn readable(_: usize) -> bool {
    false
}

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
    // Unbuffered, so nothing is allocated.
    if fd == 2 {
        let _ = std::io::stderr().write_all(bytes);
    }
}

pub(crate) fn is_terminal(fd: i32) -> bool {
    use std::io::IsTerminal;
    fd == 2 && std::io::stderr().is_terminal()
}

pub(crate) fn pause() {
    std::thread::yield_now();
}

pub(crate) fn abort() -> ! {
    std::process::abort()
}

pub(crate) fn at_exit(_: extern "C" fn()) {}

pub(crate) fn exit_now(_: i32) -> ! {
    abort()
}

pub(crate) fn forks() -> u32 {
    0
}

pub(crate) fn total_memory() -> Option<u64> {
    None
}

/// Address space layout and a counter, mixed: good enough for patterns, no secret.
pub(crate) fn random_u64() -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let local = 0_u8;
    let seed = (core::ptr::from_ref(&COUNT).addr() as u64) ^ ((core::ptr::from_ref(&local).addr() as u64) << 20);
    let mut x = seed.wrapping_add(COUNT.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed));
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

pub(crate) const CATCHES_READS: bool = false;

pub(crate) fn read_u64(_: usize) -> Option<u64> {
    None
}

pub(crate) fn read_u64_by_kernel(_: usize) -> Option<u64> {
    None
}

pub(crate) fn unwinds_in_handlers() -> bool {
    false
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
