//! Linux.

mod context;
mod fork;
mod guard_markers;
mod handler;
mod maps;
mod memory;
mod mprotect;
mod process;
mod read;
mod report_stack;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tables;
#[cfg(test)]
mod tests;
mod userfaultfd;

pub(crate) use fork::{forks, without_forks};
pub(crate) use handler::install_fault_handler;
pub(crate) use maps::mapping_at;
pub(crate) use memory::readable;
pub(crate) use process::{
    abort, at_exit, exit_now, is_terminal, page_size, pause, process_id, random_u64, thread_id,
    thread_name, total_memory, write,
};
pub(crate) use read::{CATCHES_READS, read_u64, read_u64_by_kernel};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use tables::tables_without_lock;

use crate::mode::BackEnd;
use crate::os::PageCalls;

/// The calls of a back end; `None` for cookies, which need no pages.
pub(crate) fn page_calls(back_end: BackEnd) -> Option<&'static dyn PageCalls> {
    Some(match back_end {
        BackEnd::UserfaultfdMove => &userfaultfd::Userfaultfd { moves: true },
        BackEnd::UserfaultfdCopy => &userfaultfd::Userfaultfd { moves: false },
        BackEnd::GuardMarkers => &guard_markers::GuardMarkers,
        BackEnd::Mprotect => &mprotect::Mprotect,
        BackEnd::Cookies => return None,
    })
}
