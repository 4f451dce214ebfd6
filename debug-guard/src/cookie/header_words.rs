//! A header's content, packed into three words; the fourth is the sum that proves them. Pure arithmetic.
//!
//! ```text
//!  word 0   size 48 | log2 of the alignment 6 | scope 3 | header-only 1
//!  word 1   site of the allocation 32 | place in the table 32
//!  word 2   serial 40 | thread 24
//!  word 3   fold of all three, the object's address and the guard's keys, xor the word of its state
//! ```

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::plan::{GRANULE, tail_stop};
use crate::block::{BlockMark, BlockState, Known, SiteId};
use crate::mode::{BackEnd, Mode};

const SIZE_BITS: u32 = 48;
const SCOPE_AT: u32 = 54;
const HEADER_ONLY_AT: u32 = 57;
const SERIAL_BITS: u32 = 40;

/// The three words.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub(super) struct HeaderWords(pub(super) [u64; 3]);

impl PartialEq for HeaderWords {
    /// Word by word: compared as one array they would go through memory, where a processor waits for the stores of the single words.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        let ([a, b, c], [x, y, z]) = (self.0, other.0);
        a ^ x | b ^ y | c ^ z == 0
    }
}

impl HeaderWords {
    #[inline(always)]
    pub(super) const fn new(
        size: usize,
        align: usize,
        scope: Scope,
        header_only: bool,
        mark: BlockMark,
        token: u32,
    ) -> Self {
        let first = Self::first(size, align, scope) | (header_only as u64) << HEADER_ONLY_AT;
        Self([first, mark.site.0 as u64 | (token as u64) << 32, when(mark)])
    }

    /// Word 0 of a block that is not header-only.
    #[inline(always)]
    const fn first(size: usize, align: usize, scope: Scope) -> u64 {
        size as u64 | (align.trailing_zeros() as u64) << SIZE_BITS | (scope as u64) << SCOPE_AT
    }

    /// True for a block of this size, alignment and scope.
    #[inline(always)]
    pub(super) const fn is(self, size: usize, align: usize, scope: Scope) -> bool {
        self.0[0] & !(1 << HEADER_ONLY_AT) == Self::first(size, align, scope)
    }

    /// True for a block with a tail and no more than the usual alignment.
    #[inline(always)]
    pub(super) const fn is_plain(self) -> bool {
        (self.0[0] >> SIZE_BITS & 63) <= GRANULE.trailing_zeros() as u64 && !self.header_only()
    }

    /// True if a block of `other` fits in the place of this one: the allocator behind was asked for as many bytes, in this scope. Both are
    /// plain.
    #[inline(always)]
    pub(super) fn serves(self, other: Self) -> bool {
        tail_stop(self.size()) == tail_stop(other.size())
            && self.0[0] >> SCOPE_AT == other.0[0] >> SCOPE_AT
            && self.is_plain()
            && other.is_plain()
    }

    /// The thread that allocated it.
    #[inline(always)]
    pub(super) const fn thread(self) -> u32 {
        (self.0[2] >> SERIAL_BITS) as u32
    }

    #[inline]
    pub(super) const fn size(self) -> usize {
        (self.0[0] & ((1 << SIZE_BITS) - 1)) as usize
    }

    /// 1 for invalid words.
    #[inline]
    pub(super) const fn align(self) -> usize {
        match 1_usize.checked_shl((self.0[0] >> SIZE_BITS & 63) as u32) {
            Some(align) => align,
            None => 1,
        }
    }

    #[inline]
    pub(super) const fn header_only(self) -> bool {
        self.0[0] >> HEADER_ONLY_AT & 1 != 0
    }

    #[inline]
    pub(super) const fn token(self) -> u32 {
        (self.0[1] >> 32) as u32
    }

    #[inline]
    pub(super) fn scope(self) -> Scope {
        Scope::from_raw((self.0[0] >> SCOPE_AT & 7) as u32).unwrap_or(Scope::Object)
    }

    /// The block as other modules know it.
    pub(super) fn known(self, start: usize, state: BlockState, freed: BlockMark) -> Known {
        Known {
            start,
            size: self.size(),
            align: self.align(),
            scope: self.scope(),
            state,
            allocated: mark(self.0[1] as u32, self.0[2]),
            freed,
            mode: if self.header_only() {
                Mode::Off
            } else {
                Mode::Cookie
            },
            back_end: BackEnd::Cookies,
        }
    }
}

/// Thread and serial of a mark in one word.
#[inline]
pub(super) const fn when(mark: BlockMark) -> u64 {
    mark.serial & ((1 << SERIAL_BITS) - 1) | (mark.thread as u64) << SERIAL_BITS
}

/// The reverse of [`when`].
pub(super) const fn mark(site: u32, when: u64) -> BlockMark {
    BlockMark {
        site: SiteId(site),
        thread: (when >> SERIAL_BITS) as u32,
        serial: when & ((1 << SERIAL_BITS) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_was_said() {
        let mark = BlockMark {
            site: SiteId(u32::MAX - 1),
            thread: (1 << 22) - 1,
            serial: (1 << 40) - 2,
        };
        for size in [0, 1, 4096, usize::MAX & ((1 << 48) - 1)] {
            for shift in [0, 4, 12, usize::BITS - 1] {
                for scope in Scope::ALL {
                    for header_only in [false, true] {
                        let words =
                            HeaderWords::new(size, 1 << shift, scope, header_only, mark, 77_777);
                        let known = words.known(4096, BlockState::Live, BlockMark::default());
                        assert_eq!(
                            (known.size, known.align, known.scope),
                            (size, 1 << shift, scope)
                        );
                        assert_eq!(
                            (
                                known.allocated.site,
                                known.allocated.thread,
                                known.allocated.serial
                            ),
                            (mark.site, mark.thread, mark.serial)
                        );
                        assert_eq!((words.token(), words.header_only()), (77_777, header_only));
                    }
                }
            }
        }
    }
}
