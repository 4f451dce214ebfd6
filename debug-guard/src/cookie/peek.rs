//! Reading the header in front of a pointer that may be anybody's.

use super::header_words::HeaderWords;
use super::memory::read_header;
use super::plan::HEADER;
use crate::os;

/// No system has smaller pages.
const MIN_PAGE: usize = 4096;

/// What a header says, and its sum.
pub(super) type Header = (HeaderWords, u64);

/// True where blocks may begin.
#[inline(always)]
const fn may_begin(address: usize) -> bool {
    address.is_multiple_of(16) && address >= HEADER
}

/// The four words in front of any address where a block may begin; `None` where one of them cannot be read.
///
/// Nothing is read where the system catches no reads: what such an address is, the table alone knows.
pub(super) fn peek(address: usize) -> Option<Header> {
    if !may_begin(address) {
        return None;
    }
    // Each of them is caught: between two another thread may have its memory unmapped.
    let at = |back: usize| os::read_u64(address.wrapping_sub(back));
    Some((HeaderWords([at(32)?, at(24)?, at(16)?]), at(8)?))
}

/// As [`peek`], of a block that comes back.
///
/// # Safety
/// The caller has the block, if one of ours begins at `address`. Where the system catches no reads, [`HEADER`] bytes can be read in front
/// of it in any case.
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
