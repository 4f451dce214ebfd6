//! Linux.

mod context;
mod exit;
mod fork;
mod handler;
mod lock;
mod map_budget;
mod maps;
mod memory;
mod probe;
mod process;
mod read;
mod region;
mod report_stack;
#[cfg(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tables;
#[cfg(test)]
mod tests;
mod total;
mod userfault;

pub(crate) use exit::{at_exit, exit_now};
pub(crate) use fork::forks;
pub(crate) use handler::install_fault_handler;
pub(crate) use maps::mapping_at;
pub(super) use probe::probe;
pub(crate) use process::{
    abort, is_terminal, page_size, pause, process_id, random_u64, thread_id, thread_name, write,
};
pub(crate) use read::{CATCHES_READS, read_u64, read_u64_by_kernel};
pub(crate) use region::Region;
#[cfg(all(feature = "std", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use tables::tables_without_lock;
pub(crate) use total::total_memory;
