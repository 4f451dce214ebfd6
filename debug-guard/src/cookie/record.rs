//! What is written down of a block beside the block: where it stands, what its header said, and, once it is freed, by whom.
//!
//! ```text
//!  at: address of the object + life     Live 0 --free--> Freeing 1 --poisoned--> Waiting 2 --the lock--> Held 3 --> Gone 4
//!   (objects stand at multiples of 16)    ^                                                               |
//!                                         +------------- the next block of the same size, over Gone ------+
//! ```
//! A record is read while it may be changing: who enters a block says first that there is none, then writes the word with the serial, and
//! `at` last; a free changes `at` before it touches anything else. So [`CookieRecord::read`] sees one life of one block or none.

#![forbid(unsafe_code)]

use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    fence,
};

use super::header_words::{HeaderWords, mark, when};
use crate::block::{BlockMark, BlockState, Known};

/// How a block stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    /// A thread is just freeing it: who and where may not be written down yet.
    Freeing,
    /// In quarantine.
    Waiting,
    /// Out of quarantine: verified now, or kept for a request like it, or to be given back.
    Held,
    /// Given back to the allocator behind.
    Gone,
}

const LIFE: usize = 7;

/// A line of the processor's cache; all zeros where there never was a block.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct CookieRecord {
    at: AtomicUsize,
    words: [AtomicU64; 3],
    sum: AtomicU64,
    given: AtomicU64,
    site: AtomicU32,
    moved: AtomicUsize,
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub(super) start: usize,
    pub(super) words: HeaderWords,
    /// Of the header while the block lives.
    pub(super) sum: u64,
    pub(super) life: Life,
    /// Thread and serial of the free.
    given: u64,
    site: u32,
    /// Where a reallocation moved it, or 0.
    moved: usize,
}

impl Listed {
    pub(super) fn known(&self) -> Known {
        let (state, given) = match self.life {
            Life::Live => (BlockState::Live, BlockMark::default()),
            Life::Freeing => (BlockState::Freed, BlockMark::default()),
            _ if self.moved != 0 => (BlockState::MovedTo(self.moved), mark(self.site, self.given)),
            _ => (BlockState::Freed, mark(self.site, self.given)),
        };
        self.words.known(self.start, state, given)
    }

    /// True from its free on for as long as the memory is ours.
    pub(super) fn is_freed(&self) -> bool {
        matches!(self.life, Life::Freeing | Life::Waiting | Life::Held)
    }
}

impl CookieRecord {
    /// Lists a block that lives from now on. For whoever alone has the record.
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

    /// Notes who frees the live block at `address`, which is the caller's then; false where another thread has just done so. What is done
    /// to the block after this is seen by nobody who does not see this.
    #[inline(always)]
    pub(super) fn free(&self, address: usize, given: BlockMark, moved: usize) -> bool {
        if self
            .at
            .compare_exchange(address, address | Life::Freeing as usize, Acquire, Relaxed)
            .is_err()
        {
            return false;
        }
        fence(Release);
        self.given.store(when(given), Relaxed);
        self.site.store(given.site.0, Relaxed);
        self.moved.store(moved, Relaxed);
        true
    }

    /// Poisoned by now, the block waits.
    #[inline(always)]
    pub(super) fn wait(&self, address: usize) {
        self.at.store(address | Life::Waiting as usize, Release);
    }

    /// Takes the block out of quarantine, under the quarantine's lock.
    #[inline(always)]
    pub(super) fn claim(&self) {
        self.at
            .store(self.at.load(Relaxed) & !LIFE | Life::Held as usize, Release);
        fence(Release);
    }

    /// The block is given back now. For whoever holds it.
    #[inline(always)]
    pub(super) fn end(&self) {
        self.at
            .store(self.at.load(Relaxed) & !LIFE | Life::Gone as usize, Relaxed);
        fence(Release);
    }

    /// True where a block lives that stands at `address`.
    #[inline(always)]
    pub(super) fn lives(&self, address: usize) -> bool {
        self.at.load(Acquire) == address
    }

    /// Where the block stands, what its header says and its sum. For whoever alone has the record.
    #[inline(always)]
    pub(super) fn own(&self) -> (usize, HeaderWords, u64) {
        let [zero, one, two] = &self.words;
        let words = HeaderWords([zero.load(Relaxed), one.load(Relaxed), two.load(Relaxed)]);
        (self.at.load(Relaxed) & !LIFE, words, self.sum.load(Relaxed))
    }

    /// The record's token, as [`number`](Self::number) noted it and each header since has it.
    #[inline(always)]
    pub(super) fn token(&self) -> u32 {
        (self.words[1].load(Relaxed) >> 32) as u32
    }

    /// Notes the record's token. For the holder of the table's lock.
    pub(super) fn number(&self, token: u32) {
        self.words[1].store(u64::from(token) << 32, Relaxed);
    }

    /// The next unused record: kept where a block's first word stands. For the holder of the table's lock.
    pub(super) fn next(&self) -> &AtomicU64 {
        &self.words[0]
    }

    /// The block that is listed: all of it of one moment. `None` where there is none that is ours.
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
            given: self.given.load(Relaxed),
            site: self.site.load(Relaxed),
            moved: self.moved.load(Relaxed),
        };
        fence(Acquire);
        (self.at.load(Acquire) == at && two.load(Relaxed) == stamp).then_some(listed)
    }

    /// The live block that is listed.
    pub(super) fn live(&self) -> Option<Listed> {
        self.read().filter(|listed| listed.life == Life::Live)
    }

    /// True where `live` would still give the same.
    pub(super) fn still(&self, start: usize, words: HeaderWords) -> bool {
        fence(Acquire);
        self.live()
            .is_some_and(|listed| listed.start == start && listed.words == words)
    }
}
