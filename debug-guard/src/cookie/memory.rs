//! The bytes around and in a guarded block. All of them are reached by address: the pointers that come back from a program may
//! have lost their right to the header (a `Box` is its object alone), the allocator's own, exposed when it gave the block, has not.

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::header_words::HeaderWords;
use super::keys::{Keys, Stage, tail};
use super::plan::{HEADER, pad_len, tail_len, tail_stop};
use crate::block::Changed;

/// What fresh bytes are filled with.
pub(super) const FRESH: u8 = 0xCD;
/// What freed bytes are filled with.
const POISON: u8 = 0xDD;

/// A word of a header: another thread may be looking for damage.
///
/// # Safety
/// The eight bytes at `address`, a multiple of 8, are in a block of ours that the allocator behind does not have back.
#[inline]
unsafe fn word<'w>(address: usize) -> &'w AtomicU64 {
    // SAFETY: aligned, valid, and of header words everybody speaks as atomics; the caller.
    unsafe { AtomicU64::from_ptr(with_exposed_provenance_mut(address)) }
}

/// # Safety
/// A block of ours begins at `start`, as for all functions here: its memory is not given back, and it was planned as they are told.
#[inline(always)]
pub(super) unsafe fn write_header(start: usize, words: HeaderWords, sum: u64) {
    let [one, two, three] = words.0;
    for (back, value) in [(32, one), (24, two), (16, three), (8, sum)] {
        // SAFETY: one of the four words in front of the object.
        unsafe { word(start.wrapping_sub(back)) }.store(value, Relaxed);
    }
}

/// Puts a header right, as [`mend`] does.
///
/// # Safety
/// As [`write_header`].
pub(super) unsafe fn mend_header(start: usize, words: HeaderWords, sum: u64) {
    let [one, two, three] = words.0;
    // SAFETY: the four words in front of the object.
    unsafe {
        mend(
            [(32, one), (24, two), (16, three), (8, sum)]
                .map(|(back, value)| (start.wrapping_sub(back), value)),
        )
    };
}

/// Writes those words alone that are wrong before any is written: who frees the block waits for the last of them, and nothing is written
/// over what a free left after that.
///
/// # Safety
/// As [`word`], for each.
unsafe fn mend<const WORDS: usize>(words: [(usize, u64); WORDS]) {
    // SAFETY: the caller.
    let words = words.map(|(at, value)| (unsafe { word(at) }, value));
    let wrong = words.map(|(word, value)| word.load(Relaxed) != value);
    for ((word, value), _) in words.into_iter().zip(wrong).filter(|(_, wrong)| *wrong) {
        word.store(value, Relaxed);
    }
}

/// # Safety
/// As [`write_header`].
#[inline]
pub(super) unsafe fn write_sum(start: usize, sum: u64) {
    // SAFETY: the last word of the header.
    unsafe { word(start.wrapping_sub(8)) }.store(sum, Relaxed);
}

/// The words of a header and its sum.
///
/// # Safety
/// As [`write_header`].
#[inline(always)]
pub(super) unsafe fn read_header(start: usize) -> (HeaderWords, u64) {
    // SAFETY: one of the four words in front of the object.
    let at = |back: usize| unsafe { word(start.wrapping_sub(back)) }.load(Relaxed);
    (HeaderWords([at(32), at(24), at(16)]), at(8))
}

/// # Safety
/// As [`write_header`].
#[inline]
pub(super) unsafe fn fill(start: usize, byte: u8, len: usize) {
    // SAFETY: the object's bytes, which nobody uses now.
    unsafe { with_exposed_provenance_mut::<u8>(start).write_bytes(byte, len) };
}

/// The eight bytes at `address`.
///
/// # Safety
/// They are in a block of ours.
#[inline]
unsafe fn read(address: usize) -> u64 {
    // SAFETY: the caller; any address will do.
    unsafe { with_exposed_provenance::<u64>(address).read_unaligned() }
}

/// # Safety
/// As [`read`].
#[inline]
unsafe fn write(address: usize, bytes: u64) {
    // SAFETY: as above.
    unsafe { with_exposed_provenance_mut::<u64>(address).write_unaligned(bytes) };
}

/// The two words of a tail that begins at a multiple of 8; they may be one. They are spoken as atomics: who looks for damage may look at
/// them while who frees the block poisons them.
#[inline(always)]
fn tail_words(start: usize, size: usize) -> [usize; 2] {
    let end = start.wrapping_add(size);
    [end, start.wrapping_add(tail_stop(size)).wrapping_sub(8)]
}

/// True for an object whose tail is such words, and is poisoned with it. Other tails stay as they are.
#[inline(always)]
const fn ends_even(size: usize) -> bool {
    size.is_multiple_of(8)
}

/// The pieces that make up another tail: where they begin, and their bytes. They overlap; all but the first are aligned.
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
/// As [`write_header`]; the block is not a light one, and `sum` is its own while it lives.
#[inline(always)]
pub(super) unsafe fn write_tail(start: usize, size: usize, sum: u64) {
    if ends_even(size) {
        for at in tail_words(start, size) {
            // SAFETY: eight bytes of the tail, at a multiple of 8.
            unsafe { word(at) }.store(tail(sum).to_le(), Relaxed);
        }
        return;
    }
    for (at, bytes) in tail_pieces(start, size, sum) {
        // SAFETY: eight bytes within the tail.
        unsafe { write(at, bytes) };
    }
}

/// Puts the tail of a live block right, as [`mend`] does. A free leaves other tails than such of whole words as they are.
///
/// # Safety
/// As [`write_tail`].
pub(super) unsafe fn mend_tail(start: usize, size: usize, sum: u64) {
    if ends_even(size) {
        let [first, last] = tail_words(start, size).map(|at| (at, tail(sum).to_le()));
        if first == last {
            // SAFETY: the only word of the tail.
            unsafe { mend([first]) };
        } else {
            // SAFETY: the words of the tail.
            unsafe { mend([first, last]) };
        }
    } else {
        // SAFETY: the caller.
        unsafe { write_tail(start, size, sum) };
    }
}

/// True where the tail is as it was written.
///
/// # Safety
/// As [`write_tail`].
#[inline(always)]
pub(super) unsafe fn tail_holds(start: usize, size: usize, sum: u64) -> bool {
    let mut changed = 0;
    if ends_even(size) {
        for at in tail_words(start, size) {
            // SAFETY: eight bytes of the tail, at a multiple of 8.
            changed |= unsafe { word(at) }.load(Relaxed) ^ tail(sum).to_le();
        }
        return changed == 0;
    }
    for (at, bytes) in tail_pieces(start, size, sum) {
        // SAFETY: eight bytes within the tail.
        changed |= unsafe { read(at) } ^ bytes;
    }
    changed == 0
}

/// What of the tail is not as it was written.
///
/// # Safety
/// As [`write_tail`].
pub(super) unsafe fn tail_changes(start: usize, size: usize, sum: u64) -> Option<Changed> {
    let end = start.wrapping_add(size);
    let tail = tail(sum).to_le_bytes();
    let expected = |at: usize| tail.get(end.wrapping_add(at) & 7).copied().unwrap_or(0);
    // SAFETY: the tail of a block of ours.
    unsafe { changes(end, tail_len(size), expected) }
}

/// Writes the pad in front of a header.
///
/// # Safety
/// As [`write_header`]; `front` bytes of the block lie in front of the object.
#[inline]
pub(super) unsafe fn write_pad(keys: &Keys, start: usize, front: usize) {
    let end = start.wrapping_sub(HEADER);
    for at in (end.wrapping_sub(pad_len(front))..end).step_by(8) {
        // SAFETY: within the pad.
        unsafe { write(at, keys.pad(at).to_le()) };
    }
}

/// True where the pad is as it was written.
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

/// What of the pad is not as it was written.
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
    // SAFETY: the pad of a block of ours.
    unsafe { changes(first, len, expected) }
}

/// What of a header is not what `words` and `stage` make it.
///
/// # Safety
/// As [`write_header`].
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
    // SAFETY: the header of a block of ours.
    unsafe { changes(start.wrapping_sub(HEADER), HEADER, expected) }
}

/// Poisons a freed object, and a tail of whole words with it.
///
/// # Safety
/// As [`write_tail`]; nobody uses the object.
#[inline(always)]
pub(super) unsafe fn poison(start: usize, size: usize) {
    // SAFETY: the object.
    unsafe { fill(start, POISON, size) };
    if ends_even(size) {
        for at in tail_words(start, size) {
            // SAFETY: eight bytes of the tail, at a multiple of 8.
            unsafe { word(at) }.store(u64::from_ne_bytes([POISON; 8]), Relaxed);
        }
    }
}

/// Bytes of a freed block that are poison: whole pieces of 16 where its tail is too.
#[inline(always)]
const fn freed_len(size: usize) -> usize {
    if ends_even(size) {
        tail_stop(size)
    } else {
        size
    }
}

/// True where a freed block and its tail are as [`poison`] left them.
///
/// # Safety
/// As [`write_tail`].
#[inline(always)]
pub(super) unsafe fn poison_holds(start: usize, size: usize, sum: u64) -> bool {
    const TWO: usize = 32;
    // SAFETY: the object, or it and its tail; nobody writes to them unless on purpose to be found.
    let bytes = unsafe {
        core::slice::from_raw_parts(with_exposed_provenance::<u8>(start), freed_len(size))
    };
    let (pairs, rest) = bytes.as_chunks::<TWO>();
    if !pairs.iter().all(|pair| *pair == [POISON; TWO]) {
        return false;
    }
    if ends_even(size) {
        rest.first_chunk()
            .is_none_or(|last| *last == [POISON; TWO / 2])
    } else {
        // SAFETY: the caller.
        rest.iter().all(|byte| *byte == POISON) && unsafe { tail_holds(start, size, sum) }
    }
}

/// What of a freed block and its tail is not as [`poison`] left it.
///
/// # Safety
/// As [`write_tail`].
pub(super) unsafe fn poison_changes(start: usize, size: usize, sum: u64) -> Option<Changed> {
    // SAFETY: the bytes of an object of ours, and its tail.
    let object = unsafe { changes(start, freed_len(size), |_| POISON) };
    if object.is_some() || ends_even(size) {
        return object;
    }
    // SAFETY: the caller.
    unsafe { tail_changes(start, size, sum) }
}

/// The first and the last of `len` bytes that are not as expected.
///
/// # Safety
/// They are in a block of ours.
unsafe fn changes(first: usize, len: usize, expected: impl Fn(usize) -> u8) -> Option<Changed> {
    // SAFETY: one of the bytes.
    let actual = |at: usize| unsafe {
        with_exposed_provenance::<u8>(first.wrapping_add(at)).read_volatile()
    };
    let begin = (0..len).find(|&at| actual(at) != expected(at))?;
    let end = (begin..len)
        .rev()
        .find(|&at| actual(at) != expected(at))
        .unwrap_or(begin);
    let mut changed = Changed {
        first: first.wrapping_add(begin),
        span: end - begin + 1,
        ..Changed::default()
    };
    for (at, (old, new)) in (begin..=end).zip(changed.expected.iter_mut().zip(&mut changed.actual))
    {
        (*old, *new) = (expected(at), actual(at));
    }
    Some(changed)
}
