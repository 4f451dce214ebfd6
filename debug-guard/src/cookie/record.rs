//! The record of a block: its address, a copy of its header, and, after its free, the freeing call.
//!
//! ```text
//!  at: address of the object + life     Live 0 --free--> Freeing 1 --poisoned--> Waiting 2 --the lock--> Held 3 --> Gone 4
//!   (objects stand at multiples of 16)    ^                                                               |
//!                                         +------------- the next block of the same size, over Gone ------+
//! ```
//! A record may change while it is read: [`CookieRecord::enter`] first clears `at`, then writes the word with the
//! serial, and `at` last; a free changes `at` first. So [`CookieRecord::read`] sees one life of one block or none.

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};

use super::layout::{HeaderWords, mark, when};
use crate::block::{BlockMark, BlockState, Known};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Freeing,
    Waiting,
    Held,
    Gone,
}

const LIFE: usize = 7;

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct CookieRecord {
    at: AtomicUsize,
    words: [AtomicU64; 3],
    sum: AtomicU64,
    freed: AtomicU64,
    site: AtomicU32,
    link: AtomicU32,
    moved: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub(super) start: usize,
    pub(super) words: HeaderWords,
    pub(super) sum: u64,
    pub(super) life: Life,
    freed: u64,
    site: u32,
    /// 0: the block was not moved.
    moved: usize,
}

impl Listed {
    pub(super) fn known(&self) -> Known {
        let (state, freed) = match self.life {
            Life::Live => (BlockState::Live, BlockMark::default()),
            Life::Freeing => (BlockState::Freed, BlockMark::default()),
            _ if self.moved != 0 => (BlockState::MovedTo(self.moved), mark(self.site, self.freed)),
            _ => (BlockState::Freed, mark(self.site, self.freed)),
        };
        self.words.known(self.start, state, freed)
    }

    pub(super) fn is_freed(&self) -> bool {
        matches!(self.life, Life::Freeing | Life::Waiting | Life::Held)
    }
}

impl CookieRecord {
    /// Only the record's owner may call this.
    #[inline(always)]
    pub(super) fn enter(&self, address: usize, words: HeaderWords, sum: u64) {
        let ([zero, one, two], [a, b, c]) = (&self.words, words.0);
        self.at.store(Life::Gone as usize, Relaxed);
        fence(Release);
        two.store(c, Relaxed);
        one.store(b, Relaxed);
        zero.store(a, Relaxed);
        self.sum.store(sum, Relaxed);
        self.at.store(address, Release);
    }

    /// The block is the caller's from here on. Its shard is locked. Other threads see later changes of the block only
    /// after this one.
    #[inline(always)]
    pub(super) fn free(&self, address: usize, freed: BlockMark, moved: usize) {
        self.at.store(address | Life::Freeing as usize, Relaxed);
        fence(Release);
        self.freed.store(when(freed), Relaxed);
        self.site.store(freed.site.0, Relaxed);
        self.moved.store(moved, Relaxed);
    }

    #[inline(always)]
    pub(super) fn wait(&self, address: usize) {
        self.at.store(address | Life::Waiting as usize, Release);
    }

    /// The block's shard is locked.
    #[inline(always)]
    pub(super) fn claim(&self) {
        self.at.store(self.at.load(Relaxed) & !LIFE | Life::Held as usize, Release);
        fence(Release);
    }

    /// Only the record's owner may call this.
    #[inline(always)]
    pub(super) fn end(&self) {
        self.at.store(self.at.load(Relaxed) & !LIFE | Life::Gone as usize, Relaxed);
        fence(Release);
    }

    #[inline(always)]
    pub(super) fn lives(&self, address: usize) -> bool {
        self.at.load(Acquire) == address
    }

    #[inline(always)]
    pub(super) fn is(&self, address: usize, words: HeaderWords) -> bool {
        self.lives(address) && self.own().1 == words
    }

    pub(super) fn link(&self) -> &AtomicU32 {
        &self.link
    }

    /// Only the record's owner may call this.
    #[inline(always)]
    pub(super) fn own(&self) -> (usize, HeaderWords, u64) {
        let [zero, one, two] = &self.words;
        let words = HeaderWords([zero.load(Relaxed), one.load(Relaxed), two.load(Relaxed)]);
        (self.at.load(Relaxed) & !LIFE, words, self.sum.load(Relaxed))
    }

    #[inline(always)]
    pub(super) fn token(&self) -> u32 {
        (self.words[1].load(Relaxed) >> 32) as u32
    }

    pub(super) fn number(&self, token: u32) {
        self.words[1].store(u64::from(token) << 32, Relaxed);
    }

    #[inline]
    pub(super) fn read(&self) -> Option<Listed> {
        let [zero, one, two] = &self.words;
        let stamp = two.load(Relaxed);
        fence(Acquire);
        let at = self.at.load(Acquire);
        let life = match at & LIFE {
            0 => Life::Live,
            1 => Life::Freeing,
            2 => Life::Waiting,
            3 => Life::Held,
            _ => return None,
        };
        if at == 0 {
            return None;
        }
        let listed = Listed {
            start: at & !LIFE,
            words: HeaderWords([zero.load(Relaxed), one.load(Relaxed), stamp]),
            sum: self.sum.load(Relaxed),
            life,
            freed: self.freed.load(Relaxed),
            site: self.site.load(Relaxed),
            moved: self.moved.load(Relaxed),
        };
        fence(Acquire);
        (self.at.load(Acquire) == at && two.load(Relaxed) == stamp).then_some(listed)
    }

    pub(super) fn live(&self) -> Option<Listed> {
        self.read().filter(|listed| listed.life == Life::Live)
    }
}
