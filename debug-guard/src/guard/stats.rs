//! What a guard has done so far, in numbers.

#![forbid(unsafe_code)]

use core::fmt;

use crate::mode::BackEnd;

/// What a guard has done since it was made. Exact at any moment when no other thread asks for or gives back blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardStats {
    /// What pages are made untouchable with; [`BackEnd::Cookies`] where nothing can, or no mode needs it.
    pub back_end: BackEnd,
    /// Blocks given out in pages of their own (Fence, Strict, and what Sampled chose).
    pub guarded: u64,
    /// Blocks given out with cookies, the `unguarded` ones among them.
    pub cookies: u64,
    /// Blocks passed on (Off, and what Sampled did not choose).
    pub off: u64,
    /// Blocks that were to have pages and got cookies, since addresses, mappings or the allowed bytes were used up, or there is no
    /// back end.
    pub unguarded: u64,
    /// Blocks given out and not yet given back, of all three kinds.
    pub live: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes given out, of all three kinds.
    pub bytes: u64,
    /// Live blocks in pages of their own.
    pub live_guarded: u64,
    /// Reports made.
    pub reports: u64,
    /// Reports left out: too many at a time.
    pub lost: u64,
    /// Notices written (that something is used up, that there is no back end).
    pub notices: u64,
    /// Freed blocks that wait, poisoned.
    pub quarantined: u64,
    /// Pages that hold memory.
    pub pages: u64,
    /// Bytes of addresses reserved.
    pub reserved: u64,
    /// Stacks walked.
    pub stacks: u64,
    /// Of those, which came to the command's frame or to the stack's end.
    pub whole_stacks: u64,
}

impl fmt::Display for GuardStats {
    /// One line: `guarded = 12 (userfaultfd-move), cookies = 0, off = 3, unguarded = 0, live = 2 (96 bytes), reports = 0, ..`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guarded, back_end, cookies, off, unguarded, live, live_bytes, reports, stacks, whole_stacks, .. } = self;
        write!(f, "guarded = {guarded} ({back_end}), cookies = {cookies}, off = {off}, unguarded = {unguarded}, ")?;
        write!(f, "live = {live} ({live_bytes} bytes), reports = {reports}, stacks whole = {whole_stacks} of {stacks}")
    }
}
