//! The operating system: the only module with libc and system calls.
//!
//! ```text
//!   BackEnds  what the kernel offers, tried once a process         Region  a run of pages, inaccessible until provided, by PageCalls
//!   faults    the handler of stopped accesses, read_u64            process pages, threads, random numbers, mappings, writing, the end
//! ```
//! Elsewhere than on Linux and Windows, and under miri, `system.rs` offers no back end but cookies and no handler.

mod refusal;
mod trap;

#[cfg_attr(all(target_os = "linux", not(miri)), path = "linux/mod.rs")]
#[cfg_attr(all(windows, target_arch = "x86_64", not(miri)), path = "windows/mod.rs")]
pub(crate) mod system;

mod back_ends;
pub(crate) mod lock;
mod region;

pub use back_ends::BackEnds;
pub use refusal::OsRefusal;
pub(crate) use region::{PageCalls, Region};
pub(crate) use system::{
    CATCHES_READS, LISTS_AT_EXIT, NAMES, WRITES_TO_ANY_DESCRIPTOR, abort, at_exit, exit_now, forks,
    install_fault_handler, is_terminal, mapping_at, page_calls, page_size, pause, process_id, random_u64, read_u64,
    read_u64_by_kernel, thread_id, thread_name, total_memory, unwinds_in_handlers, write,
};

/// Asks until there is an answer, for two seconds: a pause is sixteen times longer on one system than on another. And
/// a hundred times at least: the process may have been stopped meanwhile. Async-signal-safe.
pub(crate) fn wait_for<R>(mut answer: impl FnMut() -> Option<R>) -> Option<R> {
    let began = std::time::Instant::now();
    for tries in 1_u64.. {
        let answer = answer();
        if answer.is_some() || tries > 100 && began.elapsed().as_secs() >= 2 {
            return answer;
        }
        pause();
    }
    None
}

/// Any address will do.
#[inline(always)]
pub(crate) fn prefetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reads nothing that the program sees, and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::without_provenance(address));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

pub use trap::Access;
pub(crate) use trap::{Content, Handled, Mapping, Trap};
