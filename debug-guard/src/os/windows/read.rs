use super::{caught, handler, memory};

pub(crate) const CATCHES_READS: bool = true;

/// Never faults.
#[inline]
pub(crate) fn read_u64(address: usize) -> Option<u64> {
    if handler::installed() {
        // SAFETY: the handler that stands knows the instruction.
        return unsafe { caught::read(address) };
    }
    read_u64_by_kernel(address)
}

/// Works also if another handler comes before the guard's.
#[cold]
pub(crate) fn read_u64_by_kernel(address: usize) -> Option<u64> {
    memory::copy_u64(address)
}
