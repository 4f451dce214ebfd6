//! All bytes are accessed by address: a
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

pub(super) const FRESH: u8 = 0xCD;
const POISON: u8 = 0xDD;

/// # Safety
/// The block rule; eight bytes at a multiple of 8 in the block.
#[inline]
unsafe fn word<'w>(address: usize) -> &'w AtomicU64 {
    // SAFETY: the block rule; header words are accessed only as atomics.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(address)) }
}

/// # Safety
/// The block rule.
#[inline(always)]
pub(super) unsafe fn write_header(start: usize, words: HeaderWords, sum: u64) {
    let [one, two, three] = words.0;
    for (back, value) in [(32, one), (24, two), (16, three), (8, sum)] {
        // SAFETY: the block rule: a word of the header.
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

/// # Safety
/// The block rule.
#[inline(always)]
pub(super) unsafe fn read_header(start: usize) -> (HeaderWords, u64) {
    // SAFETY: the block rule: a word of the header.
    let at = |back: usize| unsafe { word(start.wrapping_sub(back)) }.load(Relaxed);
    (HeaderWords([at(32), at(24), at(16)]), at(8))
}

/// # Safety
/// The block rule; the object is not in use.
#[inline]
pub(super) unsafe fn fill(start: usize, byte: u8, len: usize) {
    // SAFETY: the block rule; the object is not in use.
    unsafe { with_exposed_provenance_mut::<u8>(start).write_bytes(byte, len) };
}

/// # Safety
/// They are in a block of the block rule.
#[inline]
unsafe fn read(address: usize) -> u64 {
    // SAFETY: eight bytes of the block rule; any address will do.
    unsafe { with_exposed_provenance::<u64>(address).read_unaligned() }
}

/// # Safety
/// As [`read`].
#[inline]
unsafe fn write(address: usize, bytes: u64) {
    // SAFETY: eight bytes of the block rule; any address will do.
    unsafe { with_exposed_provenance_mut::<u64>(address).write_unaligned(bytes) };
}

/// The pieces overlap; all but the first are aligned.
#[inline(always)]
fn tail_pieces(start: usize, size: usize, sum: u64) -> [(usize, u64); 3] {
    let (end, stop) = (start.wrapping_add(size), start.wrapping_add(tail_stop(size)));
    let (last, middle) = (stop.wrapping_sub(8), stop.wrapping_sub(16));
    let bytes = tail(sum);
    let first = bytes.rotate_right((size as u32 & 7) * 8);
    [(end, first.to_le()), (if middle > end { middle } else { last }, bytes.to_le()), (last, bytes.to_le())]
}

/// # Safety
/// The block rule; not header-only, and `sum` is its own while it lives.
#[inline(always)]
pub(super) unsafe fn write_tail(start: usize, size: usize, sum: u64) {
    for (at, bytes) in tail_pieces(start, size, sum) {
        // SAFETY: eight bytes within the tail.
        unsafe { write(at, bytes) };
    }
}

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

/// # Safety
/// As [`write_tail`].
pub(super) unsafe fn tail_changes(start: usize, size: usize, sum: u64) -> Option<Changed> {
    let end = start.wrapping_add(size);
    let tail = tail(sum).to_le_bytes();
    let expected = |at: usize| tail.get(end.wrapping_add(at) & 7).copied().unwrap_or(0);
    // SAFETY: the block rule: the tail.
    unsafe { changes(end, tail_len(size), expected) }
}

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

/// # Safety
/// As [`write_pad`].
#[inline(always)]
pub(super) unsafe fn pad_holds(keys: &Keys, start: usize, front: usize) -> bool {
    let end = start.wrapping_sub(HEADER);
    // SAFETY: within the pad.
    (end.wrapping_sub(pad_len(front))..end).step_by(8).all(|at| unsafe { read(at) } == keys.pad(at).to_le())
}

/// # Safety
/// As [`write_pad`].
pub(super) unsafe fn pad_changes(keys: &Keys, start: usize, front: usize) -> Option<Changed> {
    let len = pad_len(front);
    let first = start.wrapping_sub(HEADER).wrapping_sub(len);
    let expected = |at: usize| keys.pad(first.wrapping_add(at & !7)).to_le_bytes().get(at & 7).copied().unwrap_or(0);
    // SAFETY: the block rule: the pad.
    unsafe { changes(first, len, expected) }
}

/// # Safety
/// The block rule.
pub(super) unsafe fn header_changes(keys: &Keys, start: usize, words: HeaderWords, stage: Stage) -> Option<Changed> {
    let [a, b, c] = words.0;
    let written = [a, b, c, keys.sum(start, words, stage)];
    let expected =
        |at: usize| written.get(at / 8).and_then(|word| word.to_ne_bytes().get(at & 7).copied()).unwrap_or(0);
    // SAFETY: the block rule: the header.
    unsafe { changes(start.wrapping_sub(HEADER), HEADER, expected) }
}

/// # Safety
/// As [`write_tail`]; the object is not in use.
#[inline(always)]
pub(super) unsafe fn poison(start: usize, size: usize) {
    // SAFETY: the block rule; the object is not in use.
    unsafe { fill(start, POISON, size) };
}

/// # Safety
/// As [`write_tail`].
#[inline(always)]
pub(super) unsafe fn poison_holds(start: usize, size: usize, sum: u64) -> bool {
    const RUN: usize = 32;
    // SAFETY: the block rule; only a wrong program writes there.
    let bytes = unsafe { core::slice::from_raw_parts(with_exposed_provenance::<u8>(start), size) };
    let (runs, rest) = bytes.as_chunks::<RUN>();
    runs.iter().all(|run| *run == [POISON; RUN])
        && rest.iter().all(|byte| *byte == POISON)
        // SAFETY: the block rule: the tail.
        && unsafe { tail_holds(start, size, sum) }
}

/// # Safety
/// As [`write_tail`].
pub(super) unsafe fn poison_changes(start: usize, size: usize, sum: u64) -> Option<Changed> {
    // SAFETY: the block rule: the object.
    let object = unsafe { changes(start, size, |_| POISON) };
    // SAFETY: the block rule: the tail.
    object.or_else(|| unsafe { tail_changes(start, size, sum) })
}

/// No system has smaller pages.
const MIN_PAGE: usize = 4096;

pub(super) type Header = (HeaderWords, u64);

#[inline(always)]
const fn may_begin(address: usize) -> bool {
    address.is_multiple_of(16) && address >= HEADER
}

/// Reads nothing if the system catches no reads.
pub(super) fn peek(address: usize) -> Option<Header> {
    if !may_begin(address) {
        return None;
    }
    // Each read is caught: another thread may unmap the memory between two.
    let at = |back: usize| os::read_u64(address.wrapping_sub(back));
    Some((HeaderWords([at(32)?, at(24)?, at(16)?]), at(8)?))
}

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
    // SAFETY: the header is the caller's, or both its ends were just read and no page ends between.
    Some(unsafe { read_header(address) })
}
