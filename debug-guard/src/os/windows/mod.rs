//! Windows on x86-64.
//!
//! Tested under Wine alone, which has its own code for all of this: `docs/PLATFORMS.md` says what that proves.

mod calls;
#[path = "../caught.rs"]
mod caught;
mod handler;
mod memory;
mod modules;
mod process;
mod read;
mod stack;
#[cfg(test)]
mod tests;
mod text;
mod unwind;
mod virtual_alloc;

pub(crate) use handler::install_fault_handler;
pub(crate) use memory::{describe, readable};
pub(crate) use modules::mapping_at;
pub(crate) use process::{
    abort, at_exit, exit_now, forks, is_terminal, page_size, pause, process_id, random_u64, thread_id, thread_name,
    total_memory, without_forks, write,
};
pub(crate) use read::{CATCHES_READS, read_u64, read_u64_by_kernel};
pub(crate) use stack::running_stack;
pub(crate) use unwind::{UnwindContext, unwinds_in_handlers};

use crate::mode::BackEnd;
use crate::os::PageCalls;

pub(crate) const NAMES: &str = "  names of functions: each frame is an offset in its module; addr2line -e MODULE names it if the module's \
     image base is added and the names are in the module itself; names in a PDB file are read by debuggers only\n";

pub(crate) const LISTS_AT_EXIT: bool = true;
/// The numbers of other files are those of one C runtime, of which a process may have several.
pub(crate) const WRITES_TO_ANY_DESCRIPTOR: bool = false;

/// The best first.
pub(crate) const BACK_ENDS: [BackEnd; 2] = [BackEnd::VirtualAlloc, BackEnd::Cookies];

pub(crate) fn page_calls(back_end: BackEnd) -> Option<&'static dyn PageCalls> {
    match back_end {
        BackEnd::VirtualAlloc => Some(&virtual_alloc::VirtualAlloc),
        _ => None,
    }
}
