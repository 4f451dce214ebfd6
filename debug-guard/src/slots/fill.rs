//! Writes and compares redzones and poison.

use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

use crate::block::Changed;

/// Fills a fresh block.
pub(super) const FRESH: u8 = 0xCD;
/// Fills a freed block.
pub(super) const FREED: u8 = 0xDD;
/// Bytes on either side of a block that are always verified.
pub(super) const NEAR: usize = 256;

/// The bytes that are compared at a time.
const FREED_RUN: [u8; NEAR] = [FREED; NEAR];

/// A page of random bytes, without those that often fill memory: the content of a page outside of its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    page: NonNull<u8>,
    page_bytes: usize,
}

// SAFETY: the page is written before this is made, and only read since.
unsafe impl Send for Pattern {}
// SAFETY: as above.
unsafe impl Sync for Pattern {}

impl Pattern {
    /// # Safety
    /// `page` has `page_bytes` bytes, a power of two, that no other thread writes as long as this is used.
    pub(super) unsafe fn fill(page: NonNull<u8>, page_bytes: usize, mut seed: u64) -> Self {
        for offset in 0..page_bytes {
            let byte = match next_random(&mut seed) as u8 {
                plain @ (0 | 0xFF | FRESH | FREED) => plain ^ 0x55,
                byte => byte,
            };
            // SAFETY: within the page.
            let place = unsafe { page.add(offset) };
            // SAFETY: within the page.
            unsafe { place.write(byte) };
        }
        Self { page, page_bytes }
    }

    pub(super) const fn page(&self) -> NonNull<u8> {
        self.page
    }

    /// The part of the pattern that belongs at `address`, up to the page's end; at most `len` bytes.
    fn partial(&self, address: usize, len: usize) -> &[u8] {
        let offset = address & (self.page_bytes - 1);
        // SAFETY: `offset` is within the page.
        let from = unsafe { self.page.add(offset) };
        // SAFETY: up to the end of the page at most, written once before this was made.
        unsafe { core::slice::from_raw_parts(from.as_ptr(), len.min(self.page_bytes - offset)) }
    }

    /// Writes the pattern.
    ///
    /// # Safety
    /// `len` bytes at `address` may be written.
    pub(super) unsafe fn write(&self, mut address: usize, mut len: usize) {
        while len > 0 {
            let part = self.partial(address, len);
            // SAFETY: the caller's promise; the pattern is elsewhere.
            unsafe {
                with_exposed_provenance_mut::<u8>(address)
                    .copy_from_nonoverlapping(part.as_ptr(), part.len())
            };
            address += part.len();
            len -= part.len();
        }
    }

    /// The bytes that are not the pattern.
    ///
    /// # Safety
    /// `len` bytes at `address` may be read, and no thread writes them.
    pub(super) unsafe fn changed(&self, mut address: usize, mut len: usize) -> Option<Changed> {
        let mut found = None;
        while len > 0 {
            let part = self.partial(address, len);
            // SAFETY: the caller's promise.
            let actual = unsafe { bytes(address, part.len()) };
            // The C library's comparison is faster than a loop.
            if actual != part {
                found = join(found, compare(address, part, actual));
            }
            address += part.len();
            len -= part.len();
        }
        found
    }
}

/// # Safety
/// `len` bytes at `address` may be read, and no thread writes them.
unsafe fn bytes<'a>(address: usize, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(with_exposed_provenance(address), len) }
}

/// Fills with one value.
///
/// # Safety
/// `len` bytes at `address` may be written.
pub(super) unsafe fn fill(address: usize, len: usize, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { with_exposed_provenance_mut::<u8>(address).write_bytes(value, len) };
}

/// The bytes of a freed block that are not [`FREED`]: of all, or of [`NEAR`] bytes at either end.
///
/// # Safety
/// `len` bytes at `address` may be read, and no thread writes them.
pub(super) unsafe fn poison_changed(address: usize, len: usize, all: bool) -> Option<Changed> {
    // SAFETY: the caller's promise.
    let block = unsafe { bytes(address, len) };
    let is_poison = |part: &[u8]| {
        part.iter()
            .fold(0, |differing, byte| differing | (byte ^ FREED))
            == 0
    };
    let untouched = match (block.first_chunk::<NEAR>(), block.last_chunk::<NEAR>()) {
        (Some(first), Some(last)) if !all => is_poison(first) && is_poison(last),
        _ => is_poison(block),
    };
    if untouched {
        return None;
    }
    let runs = (address..).step_by(NEAR).zip(block.chunks(NEAR));
    runs.fold(None, |found, (at, run)| {
        join(
            found,
            compare(at, FREED_RUN.get(..run.len()).unwrap_or_default(), run),
        )
    })
}

/// From the first byte that differs to the last.
#[cold]
fn compare(address: usize, expected: &[u8], actual: &[u8]) -> Option<Changed> {
    let differs = |(expected, actual): (&u8, &u8)| expected != actual;
    let first = expected.iter().zip(actual).position(differs)?;
    let last = expected.iter().zip(actual).rposition(differs)?;
    let mut changed = Changed {
        first: address + first,
        span: last - first + 1,
        ..Changed::default()
    };
    for (copy, bytes) in [
        (&mut changed.expected, expected),
        (&mut changed.actual, actual),
    ] {
        for (to, from) in copy.iter_mut().zip(bytes.iter().take(last + 1).skip(first)) {
            *to = *from;
        }
    }
    Some(changed)
}

/// Joins two changes, the first in front of the second; the bytes shown are those of the first.
fn join(first: Option<Changed>, second: Option<Changed>) -> Option<Changed> {
    match (first, second) {
        (Some(first), Some(second)) => Some(Changed {
            span: second.first + second.span - first.first,
            ..first
        }),
        (first, second) => first.or(second),
    }
}

/// The next random number (xorshift; `state` is never 0 after the first).
pub(super) fn next_random(state: &mut u64) -> u64 {
    if *state == 0 {
        *state = 0x9E37_79B9_7F4A_7C15;
    }
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 24
}
