//! ```text
//!  base                          start - 32         start                start + size        base + total
//!   | pad, for alignments > 32     | header, 4 words  | object             | tail              |
//!   +------------------------------+------------------+--------------------+-------------------+
//!                                                     ^ aligned as asked   ^ at the first byte behind: 8 to 23 bytes,
//!                                                       (16 at least)        up to the next multiple of 16
//!
//!  word 0   size 48 | log2 of the alignment 6 | scope 3 | header-only 1
//!  word 1   site of the allocation 32 | place in the table 32
//!  word 2   serial 40 | thread 24
//!  word 3   the sum: fold of all three, the object's address and the guard's keys, xor the word of its stage
//! ```
//! A header-only block has no tail: `total` ends with the object. Every sum depends on the address, so that a copied
//! header or tail is found (T37, T38).

#![forbid(unsafe_code)]

use core::alloc::Layout;

use alloc_core::Scope;

use crate::block::{BlockMark, BlockState, Known, SiteId};
use crate::fold::fold;
use crate::mode::{BackEnd, Mode};

pub(super) const HEADER: usize = 32;
const TAIL: usize = 8;
const PAD_SEEN: usize = 256;
const GRANULE: usize = 16;
const MAX_SIZE: u64 = 1 << 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CookieLayout {
    pub(super) whole: Layout,
    /// Bytes in front of the object.
    pub(super) front: usize,
}

/// `None` if the size is too large for a header or a [`Layout`].
#[inline]
pub(super) fn plan(size: usize, align: usize, header_only: bool) -> Option<CookieLayout> {
    if size as u64 >= MAX_SIZE {
        return None;
    }
    let align = align.max(GRANULE);
    let front = align.max(HEADER);
    let end = front.checked_add(size)?;
    let total = if header_only { end } else { tail_stop(end) };
    let whole = Layout::from_size_align(total, align).ok()?;
    (total >= end).then_some(CookieLayout { whole, front })
}

#[inline]
pub(super) const fn tail_len(size: usize) -> usize {
    TAIL + ((size.wrapping_add(TAIL)).wrapping_neg() & (GRANULE - 1))
}

#[inline(always)]
pub(super) const fn tail_stop(end: usize) -> usize {
    end.wrapping_add(TAIL + GRANULE - 1) & !(GRANULE - 1)
}

#[inline]
pub(super) const fn pad_len(front: usize) -> usize {
    let pad = front.saturating_sub(HEADER);
    if pad < PAD_SEEN { pad } else { PAD_SEEN }
}

const SIZE_BITS: u32 = 48;
const SCOPE_AT: u32 = 54;
const HEADER_ONLY_AT: u32 = 57;
const SERIAL_BITS: u32 = 40;

#[derive(Clone, Copy, Debug, Default, Eq)]
pub(super) struct HeaderWords(pub(super) [u64; 3]);

impl PartialEq for HeaderWords {
    /// Word by word: compared as an array they would go through memory, where a processor waits for the stores of the
    /// single words.
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

    #[inline(always)]
    const fn first(size: usize, align: usize, scope: Scope) -> u64 {
        size as u64 | (align.trailing_zeros() as u64) << SIZE_BITS | (scope as u64) << SCOPE_AT
    }

    #[inline(always)]
    pub(super) const fn is(self, size: usize, align: usize, scope: Scope) -> bool {
        self.0[0] & !(1 << HEADER_ONLY_AT) == Self::first(size, align, scope)
    }

    /// The block has a tail, and no more than the usual alignment.
    #[inline(always)]
    pub(super) const fn is_plain(self) -> bool {
        (self.0[0] >> SIZE_BITS & 63) <= GRANULE.trailing_zeros() as u64 && !self.header_only()
    }

    /// The allocator behind was asked for as many bytes, in this scope, and both are plain: this block is.
    #[inline(always)]
    pub(super) fn serves(self, other: Self) -> bool {
        tail_stop(self.size()) == tail_stop(other.size())
            && self.0[0] >> SCOPE_AT == other.0[0] >> SCOPE_AT
            && other.is_plain()
    }

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

    pub(super) const fn mode(self) -> Mode {
        if self.header_only() { Mode::Off } else { Mode::Cookie }
    }

    pub(super) fn known(self, start: usize, state: BlockState, freed: BlockMark) -> Known {
        Known {
            start,
            size: self.size(),
            align: self.align(),
            scope: self.scope(),
            state,
            allocated: mark(self.0[1] as u32, self.0[2]),
            freed,
            mode: self.mode(),
            back_end: BackEnd::Cookies,
        }
    }
}

#[inline]
pub(super) const fn when(mark: BlockMark) -> u64 {
    mark.serial & ((1 << SERIAL_BITS) - 1) | (mark.thread as u64) << SERIAL_BITS
}

pub(super) const fn mark(site: u32, when: u64) -> BlockMark {
    BlockMark { site: SiteId(site), thread: (when >> SERIAL_BITS) as u32, serial: when & ((1 << SERIAL_BITS) - 1) }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keys(pub(super) [u64; Keys::COUNT]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Live,
    Freed,
    /// Returned to the allocator behind, which may overwrite the header.
    Gone,
}

impl Keys {
    pub(super) const COUNT: usize = 6;

    #[inline(always)]
    pub(super) const fn sum(&self, start: usize, words: HeaderWords, stage: Stage) -> u64 {
        let ([a, b, ..], [zero, one, two]) = (self.0, words.0);
        self.turned(fold(start as u64 ^ one ^ a, zero ^ two.rotate_left(24) ^ b), stage)
    }

    #[inline(always)]
    pub(super) const fn stage(&self, start: usize, words: HeaderWords, sum: u64) -> Option<Stage> {
        let [.., freed, gone] = self.0;
        let difference = self.sum(start, words, Stage::Live) ^ sum;
        if difference == 0 {
            Some(Stage::Live)
        } else if difference == freed {
            Some(Stage::Freed)
        } else if difference == gone {
            Some(Stage::Gone)
        } else {
            None
        }
    }

    /// Converts `sum` of a live block to that of another stage, or back.
    #[inline(always)]
    pub(super) const fn turned(&self, sum: u64, stage: Stage) -> u64 {
        let [.., freed, gone] = self.0;
        match stage {
            Stage::Live => sum,
            Stage::Freed => sum ^ freed,
            Stage::Gone => sum ^ gone,
        }
    }

    #[inline(always)]
    pub(super) const fn pad(&self, address: usize) -> u64 {
        let [.., c, d, _, _] = self.0;
        fold(address as u64 ^ c, d)
    }
}

/// Eight bytes of a live block's tail, indexed by the last three bits of an address. None is a letter or a byte that
/// ends strings, fills or poison (00, FF, CD, DD).
#[inline(always)]
pub(super) const fn tail(sum: u64) -> u64 {
    sum & 0x3F3F_3F3F_3F3F_3F3F | 0x8080_8080_8080_8080
}

#[cfg(test)]
mod plan_tests {
    use super::*;

    #[test]
    fn every_small_size_and_alignment_is_laid_out_as_drawn() {
        for size in 0..300 {
            for shift in 0..17 {
                let align = 1 << shift;
                let plan = plan(size, align, false).expect("small");
                let (start, tail) = (plan.front, tail_len(size));
                assert!((8..24).contains(&tail), "a tail of {tail}");
                assert_eq!(tail_stop(start + size), start + size + tail);
                assert!(start >= HEADER && start.is_multiple_of(align) && start.is_multiple_of(GRANULE));
                assert_eq!(plan.whole.size(), start + size + tail);
                assert!(plan.whole.size().is_multiple_of(GRANULE) && plan.whole.align() == align.max(GRANULE));
                assert_eq!(super::plan(size, align, true).expect("small").whole.size(), start + size);
                assert!(pad_len(start) <= start - HEADER && pad_len(start).is_multiple_of(GRANULE));
            }
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for size in [usize::MAX, usize::MAX - 31, isize::MAX as usize, isize::MAX as usize - 40] {
            assert_eq!(plan(size, 1, false), None);
            assert_eq!(plan(size, 1, true), None);
        }
        assert_eq!(plan(1, 1 << (usize::BITS - 1), false), None);
        #[cfg(target_pointer_width = "64")]
        assert_eq!((plan(1 << 48, 1, false), plan((1 << 48) - 1, 1, false).is_some()), (None, true));
    }
}

#[cfg(test)]
mod header_words_tests {
    use super::*;

    #[test]
    fn words_keep_what_was_said() {
        let mark = BlockMark { site: SiteId(u32::MAX - 1), thread: (1 << 22) - 1, serial: (1 << 40) - 2 };
        for size in [0, 1, 4096, usize::MAX & ((1 << 48) - 1)] {
            for shift in [0, 4, 12, usize::BITS - 1] {
                for scope in Scope::ALL {
                    for header_only in [false, true] {
                        let words = HeaderWords::new(size, 1 << shift, scope, header_only, mark, 77_777);
                        let known = words.known(4096, BlockState::Live, BlockMark::default());
                        assert_eq!((known.size, known.align, known.scope), (size, 1 << shift, scope));
                        assert_eq!(
                            (known.allocated.site, known.allocated.thread, known.allocated.serial),
                            (mark.site, mark.thread, mark.serial)
                        );
                        assert_eq!((words.token(), words.header_only()), (77_777, header_only));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod keys_tests {
    use super::*;

    const KEYS: Keys = Keys([
        0x9E37_79B9_7F4A_7C15,
        0xD1B5_4A32_D192_ED03,
        0x8CB9_2BA7_2F3D_8DD7,
        0xABC9_8388_FB8F_AC03,
        0x1357_9BDF_0246_8ACE,
        0xFDB9_7531_ECA8_6420,
    ]);

    #[test]
    fn a_sum_holds_for_its_words_address_and_stage_alone() {
        let words = HeaderWords([64 | 4 << 48, 5 | 6 << 32, 7]);
        let sum = KEYS.sum(0x1000, words, Stage::Live);
        for bit in 0..64 {
            assert_eq!(KEYS.stage(0x1000, words, sum ^ 1 << bit), None);
            for word in 0..3 {
                let mut other = words;
                other.0[word] ^= 1 << bit;
                assert_eq!(KEYS.stage(0x1000, other, sum), None, "bit {bit} of word {word}");
            }
            assert_eq!(
                KEYS.stage(0x1000 ^ (1_u64 << bit) as usize, words, sum).is_some(),
                1_u64 << bit > usize::MAX as u64
            );
        }
        for stage in [Stage::Live, Stage::Freed, Stage::Gone] {
            assert_eq!(KEYS.stage(0x1000, words, KEYS.sum(0x1000, words, stage)), Some(stage));
        }
    }

    #[test]
    fn t09_every_tail_begins_with_no_byte_that_strings_and_fills_end_with() {
        let mut seen = [0_u32; 256];
        let stop = if cfg!(miri) { 0x4000 } else { 0x50_000 };
        for start in (0x1000..stop).step_by(16) {
            for byte in tail(KEYS.sum(start, HeaderWords([3, 5, 7]), Stage::Live)).to_le_bytes() {
                seen[usize::from(byte)] += 1;
            }
        }
        for byte in [0x00, 0xFF, 0xCD, 0xDD] {
            assert_eq!(seen[byte], 0, "{byte:#x}");
        }
        assert_eq!(seen.iter().filter(|n| **n > 0).count(), 64);
    }
}
