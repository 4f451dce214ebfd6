//! The operating system: the only module with libc and system calls.
//!
//! ```text
//!   BackEnds  what the kernel offers, tried once a process         Region  a run of pages, inaccessible until provided, by PageCalls
//!   faults    the handler of stopped accesses, read_u64            process pages, threads, random numbers, mappings, writing, the end
//! ```
//! Elsewhere than on Linux and Windows, and under miri, `other.rs` offers no back end but cookies and no handler.

mod refusal;
mod trap;

#[cfg(all(target_os = "linux", not(miri)))]
mod linux;
#[cfg(all(target_os = "linux", not(miri)))]
use linux as system;

#[cfg(all(windows, target_arch = "x86_64", not(miri)))]
mod windows;
#[cfg(all(windows, target_arch = "x86_64", not(miri)))]
use windows as system;

#[cfg(not(all(
    any(target_os = "linux", all(windows, target_arch = "x86_64")),
    not(miri)
)))]
mod other;
#[cfg(not(all(
    any(target_os = "linux", all(windows, target_arch = "x86_64")),
    not(miri)
)))]
use other as system;

#[cfg(all(
    any(
        all(
            target_os = "linux",
            any(target_arch = "x86_64", target_arch = "aarch64")
        ),
        all(windows, target_arch = "x86_64")
    ),
    not(miri)
))]
mod caught;

mod back_ends;
pub(crate) mod lock;
mod region;

pub use back_ends::BackEnds;
pub use refusal::OsRefusal;
pub(crate) use region::{PageCalls, Region};
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
pub(crate) use system::tables_without_lock;
pub(crate) use system::{
    CATCHES_READS, LISTS_AT_EXIT, NAMES, WRITES_TO_ANY_DESCRIPTOR, abort, at_exit, exit_now, forks,
    install_fault_handler, is_terminal, mapping_at, page_calls, page_size, pause, process_id,
    random_u64, read_u64, read_u64_by_kernel, thread_id, thread_name, total_memory, write,
};
#[cfg(all(windows, target_arch = "x86_64", not(miri)))]
pub(crate) use system::{OwnStack, UnwindContext, own_stack};
/// Any address will do.
#[inline(always)]
pub(crate) fn prefetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reads nothing that the program sees, and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            core::ptr::without_provenance(address),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

pub use trap::Access;
pub(crate) use trap::{Content, Handled, Mapping, Trap};
