//! Reads the header in front of an unknown pointer.

use super::header_words::HeaderWords;
use super::memory::read_header;
use super::plan::HEADER;
use crate::os;

/// No system has smaller pages.
const MIN_PAGE: usize = 4096;

/// The words and the sum of a header.
pub(super) type Header = (HeaderWords, u64);

/// True for addresses at which blocks may begin.
#[inline(always)]
const fn may_begin(address: usize) -> bool {
    address.is_multiple_of(16) && address >= HEADER
}

/// The four words in front of an address at which a block may begin; `None` if one of them cannot be read.
///
/// Reads nothing if the system catches no reads: then only the table knows the address.
pub(super) fn peek(address: usize) -> Option<Header> {
    if !may_begin(address) {
        return None;
    }
    // Each read is caught: another thread may unmap the memory between two.
    let at = |back: usize| os::read_u64(address.wrapping_sub(back));
    Some((HeaderWords([at(32)?, at(24)?, at(16)?]), at(8)?))
}

/// As [`peek`], for a free.
///
/// # Safety
/// If a block of the guard begins at `address`, it is the caller's. If the system catches no reads, [`HEADER`] bytes can be read in front
/// of `address` in any case.
#[inline(always)]
pub(super) unsafe fn peek_freed(address: usize) -> Option<Header> {
    if !may_begin(address) {
        return None;
    }
    if os::CATCHES_READS {
        os::read_u64(address.wrapping_sub(HEADER))?;
        if address % MIN_PAGE < HEADER {
            os::read_u64(address.wrapping_sub(8))?;
        }
    }
    // SAFETY: the caller's promise; elsewhere both ends have just been read, no page ends between, and the words stand at multiples of 8.
    Some(unsafe { read_header(address) })
}
