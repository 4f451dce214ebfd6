//! Reads of addresses that may not be mapped.

use super::{handler, memory};
use crate::os::caught;

/// An unreadable address is an answer, not a fault.
pub(crate) const CATCHES_READS: bool = true;

/// The eight bytes at any address; `None` if they cannot be read. Never faults.
#[inline]
pub(crate) fn read_u64(address: usize) -> Option<u64> {
    if handler::installed() {
        // SAFETY: the handler that stands knows the instruction.
        return unsafe { caught::read(address) };
    }
    read_u64_by_kernel(address)
}

/// As [`read_u64`], by a system call, for rare reads. It works also if another handler comes before the guard's.
#[cold]
pub(crate) fn read_u64_by_kernel(address: usize) -> Option<u64> {
    memory::copy_u64(address)
}
