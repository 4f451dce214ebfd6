//! The bytes around and in a guarded block, and reads in front of an unknown pointer. All are accessed by address: a
//! program's pointer may have lost the provenance of the header (a `Box` covers its object only); the allocator's own
//! pointer, exposed at the allocation, has it.
//!
//! The *block rule* of the SAFETY comments: a block of the guard begins at `start`, its memory is not released, and
//! words, sum, size and front are those that it was written with. It holds for a live or quarantined block while its
//! shard is locked, and for one that a thread alone has.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::layout::{HEADER, HeaderWords, Keys, Stage, pad_len, tail, tail_len, tail_stop};
use crate::changed::{Changed, changes};
use crate::os;

/// Fills fresh bytes.
pub(super) const FRESH: u8 = 0xCD;
/// Fills freed bytes.
const POISON: u8 = 0xDD;

/// A header word, which another thread may verify.
///
/// # Safety
/// The block rule; eight bytes at a multiple of 8 in the block.
#[inline]
unsafe fn word<'w>(address: usize) -> &'w AtomicU64 {
    // SAFETY: this function's contract: aligned, valid, and header words are accessed only as atomics.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(address)) }
}

/// # Safety
/// The block rule.
#[inline(always)]
pub(super) unsafe fn write_header(start: usize, words: HeaderWords, sum: u64) {
    let [one, two, three] = words.0;
    for (back, value) in [(32, one), (24, two), (16, three), (8, sum)] {
        // SAFETY: the block rule: one of the four words in front of the object.
        unsafe { word(start.wrapping_sub(back)) }.store(value, Relaxed);
    }
}

/// # Safety
/// The block rule.
#[inline]
pub(super) unsafe fn write_sum(start: usize, sum: u64) {
    // SAFETY: the block rule: the last word of the header.
    unsafe { word(start.wrapping_sub(8)) }.store(sum, Relaxed);
}

/// The words of a header and its sum.
///
/// # Safety
/// The block rule.
#[inline(always)]
pub(super) unsafe fn read_header(start: usize) -> (HeaderWords, u64) {
    // SAFETY: the block rule: one of the four words in front of the object.
    let at = |back: usize| unsafe { word(start.wrapping_sub(back)) }.load(Relaxed);
    (HeaderWords([at(32), at(24), at(16)]), at(8))
}

/// # Safety
/// The block rule; the object is not in use.
#[inline]
pub(super) unsafe fn fill(start: usize, byte: u8, len: usize) {
    // SAFETY: this function's contract.
    unsafe { with_exposed_provenance_mut::<u8>(start).write_bytes(byte, len) };
}

/// The eight bytes at `address`.
///
/// # Safety
/// They are in a block of the block rule.
#[inline]
unsafe fn read(address: usize) -> u64 {
    // SAFETY: this function's contract; any address will do.
    unsafe { with_exposed_provenance::<u64>(address).read_unaligned() }
}

/// # Safety
/// As [`read`].
#[inline]
unsafe fn write(address: usize, bytes: u64) {
    // SAFETY: this function's contract.
    unsafe { with_exposed_provenance_mut::<u64>(address).write_unaligned(bytes) };
}

/// The pieces of a tail: addresses and bytes. They overlap; all but the first are aligned.
#[inline(always)]
fn tail_pieces(start: usize, size: usize, sum: u64) -> [(usize, u64); 3] {
    let (end, stop) = (
        start.wrapping_add(size),
        start.wrapping_add(tail_stop(size)),
    );
    let (last, middle) = (stop.wrapping_sub(8), stop.wrapping_sub(16));
    let bytes = tail(sum);
    let first = bytes.rotate_right((size as u32 & 7) * 8);
    [
        (end, first.to_le()),
        (if middle > end { middle } else { last }, bytes.to_le()),
        (last, bytes.to_le()),
    ]
}

/// Writes the tail behind an object.
///
/// # Safety
/// The block rule; not header-only, and `sum` is its own while it lives.
#[inline(always)]
pub(super) unsafe fn write_tail(start: usize, size: usize, sum: u64) {
    for (at, bytes) in tail_pieces(start, size, sum) {
        // SAFETY: eight bytes within the tail.
        unsafe { write(at, bytes) };
    }
}

/// True if the tail is as it was written.
///
/// # Safety
/// As [`write_tail`].
#[inline(always)]
pub(super) unsafe fn tail_holds(start: usize, size: usize, sum: u64) -> bool {
    let mut changed = 0;
    for (at, bytes) in tail_pieces(start, size, sum) {
        // SAFETY: eight bytes within the tail.
        changed |= unsafe { read(at) } ^ bytes;
    }
    changed == 0
}

/// The change of the tail.
///
/// # Safety
/// As [`write_tail`].
pub(super) unsafe fn tail_changes(start: usize, size: usize, sum: u64) -> Option<Changed> {
    let end = start.wrapping_add(size);
    let tail = tail(sum).to_le_bytes();
    let expected = |at: usize| tail.get(end.wrapping_add(at) & 7).copied().unwrap_or(0);
    // SAFETY: this function's contract: the tail.
    unsafe { changes(end, tail_len(size), expected) }
}

/// Writes the pad in front of a header.
///
/// # Safety
/// The block rule; `front` bytes of the block lie in front of the object.
#[inline]
pub(super) unsafe fn write_pad(keys: &Keys, start: usize, front: usize) {
    let end = start.wrapping_sub(HEADER);
    for at in (end.wrapping_sub(pad_len(front))..end).step_by(8) {
        // SAFETY: within the pad.
        unsafe { write(at, keys.pad(at).to_le()) };
    }
}

/// True if the pad is as it was written.
///
/// # Safety
/// As [`write_pad`].
#[inline(always)]
pub(super) unsafe fn pad_holds(keys: &Keys, start: usize, front: usize) -> bool {
    let end = start.wrapping_sub(HEADER);
    // SAFETY: within the pad.
    (end.wrapping_sub(pad_len(front))..end)
        .step_by(8)
        .all(|at| unsafe { read(at) } == keys.pad(at).to_le())
}

/// The change of the pad.
///
/// # Safety
/// As [`write_pad`].
pub(super) unsafe fn pad_changes(keys: &Keys, start: usize, front: usize) -> Option<Changed> {
    let len = pad_len(front);
    let first = start.wrapping_sub(HEADER).wrapping_sub(len);
    let expected = |at: usize| {
        keys.pad(first.wrapping_add(at & !7))
            .to_le_bytes()
            .get(at & 7)
            .copied()
            .unwrap_or(0)
    };
    // SAFETY: this function's contract: the pad.
    unsafe { changes(first, len, expected) }
}

/// The change of a header that was written with `words` and `stage`.
///
/// # Safety
/// The block rule.
pub(super) unsafe fn header_changes(
    keys: &Keys,
    start: usize,
    words: HeaderWords,
    stage: Stage,
) -> Option<Changed> {
    let [a, b, c] = words.0;
    let written = [a, b, c, keys.sum(start, words, stage)];
    let expected = |at: usize| {
        written
            .get(at / 8)
            .and_then(|word| word.to_ne_bytes().get(at & 7).copied())
            .unwrap_or(0)
    };
    // SAFETY: the block rule: the header.
    unsafe { changes(start.wrapping_sub(HEADER), HEADER, expected) }
}

/// Poisons a freed object.
///
/// # Safety
/// As [`write_tail`]; the object is not in use.
#[inline(always)]
pub(super) unsafe fn poison(start: usize, size: usize) {
    // SAFETY: this function's contract.
    unsafe { fill(start, POISON, size) };
}

/// True if a freed block is as [`poison`] left it, and its tail as it was.
///
/// # Safety
/// As [`write_tail`].
#[inline(always)]
pub(super) unsafe fn poison_holds(start: usize, size: usize, sum: u64) -> bool {
    const RUN: usize = 32;
    // SAFETY: the block rule: the object; only a write after free could write to it.
    let bytes = unsafe { core::slice::from_raw_parts(with_exposed_provenance::<u8>(start), size) };
    let (runs, rest) = bytes.as_chunks::<RUN>();
    runs.iter().all(|run| *run == [POISON; RUN])
        && rest.iter().all(|byte| *byte == POISON)
        // SAFETY: this function's contract.
        && unsafe { tail_holds(start, size, sum) }
}

/// The change of a freed block and its tail.
///
/// # Safety
/// As [`write_tail`].
pub(super) unsafe fn poison_changes(start: usize, size: usize, sum: u64) -> Option<Changed> {
    // SAFETY: the block rule: the object.
    let object = unsafe { changes(start, size, |_| POISON) };
    // SAFETY: this function's contract.
    object.or_else(|| unsafe { tail_changes(start, size, sum) })
}

/// No system has smaller pages.
const MIN_PAGE: usize = 4096;

pub(super) type Header = (HeaderWords, u64);

/// True for addresses at which blocks may begin.
#[inline(always)]
const fn may_begin(address: usize) -> bool {
    address.is_multiple_of(16) && address >= HEADER
}

/// The four words in front of `address`; `None` if no block can begin there, or one cannot be read. Reads nothing if
/// the system catches no reads: then only the table knows the address.
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
/// If a block of the guard begins at `address`, it is the caller's. If the system catches no reads, [`HEADER`] bytes
/// can be read in front of `address` in any case.
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
    // SAFETY: this function's contract; elsewhere both ends have just been read, no page ends between, and the words
    // stand at multiples of 8.
    Some(unsafe { read_header(address) })
}
