#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[path = "../caught.rs"]
mod caught;
mod context;
mod errors;
mod fork;
mod guard_markers;
mod handler;
mod maps;
mod memory;
mod mprotect;
mod process;
mod read;
mod report_stack;
mod tables;
#[cfg(test)]
mod tests;
mod userfaultfd;

pub(crate) use errors::describe;
pub(crate) use fork::{forks, without_forks};
pub(crate) use handler::install_fault_handler;
pub(crate) use maps::mapping_at;
pub(crate) use memory::readable;
pub(crate) use process::{
    abort, at_exit, exit_now, is_terminal, page_size, pause, process_id, random_u64, thread_id, thread_name,
    total_memory, write,
};
pub(crate) use read::{CATCHES_READS, read_u64, read_u64_by_kernel};
pub(crate) use tables::unwinds_in_handlers;

use crate::mode::BackEnd;
use crate::os::PageCalls;

pub(crate) const NAMES: &str = "  names of functions: steward symbols FILE, with all of this in FILE\n";

pub(crate) const LISTS_AT_EXIT: bool = true;
pub(crate) const WRITES_TO_ANY_DESCRIPTOR: bool = true;

/// The best first.
pub(crate) const BACK_ENDS: [BackEnd; 5] =
    [BackEnd::UserfaultfdMove, BackEnd::UserfaultfdCopy, BackEnd::GuardMarkers, BackEnd::Mprotect, BackEnd::Cookies];

/// `None` for back ends that are not of this system, and for cookies, which need no pages.
pub(crate) fn page_calls(back_end: BackEnd) -> Option<&'static dyn PageCalls> {
    Some(match back_end {
        BackEnd::UserfaultfdMove => &userfaultfd::Userfaultfd { moves: true },
        BackEnd::UserfaultfdCopy => &userfaultfd::Userfaultfd { moves: false },
        BackEnd::GuardMarkers => &guard_markers::GuardMarkers,
        BackEnd::Mprotect => &mprotect::Mprotect,
        BackEnd::VirtualAlloc | BackEnd::Cookies => return None,
    })
}
