use core::ptr::{NonNull, with_exposed_provenance, with_exposed_provenance_mut};

use super::Slots;
use super::geometry::{BlockPlacement, Shape};
use crate::block::{GuardFinding, Known};
use crate::changed::{Changed, changes};
use crate::report_kind::ReportKind;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Redzone {
    pub(super) front: Option<Changed>,
    pub(super) behind: Option<Changed>,
}

impl Redzone {
    pub(super) fn findings(self, block: Known) -> impl Iterator<Item = GuardFinding> {
        let front = self.front.map(|changed| (ReportKind::Underflow, changed));
        let behind = self.behind.map(|changed| (ReportKind::Overflow, changed));
        [front, behind]
            .into_iter()
            .flatten()
            .map(move |(kind, changed)| GuardFinding::of_change(kind, Some(block), changed))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Margins {
    pub(super) front: usize,
    start: usize,
    end: usize,
    pub(super) behind: usize,
}

impl Slots {
    pub(super) fn margins(&self, place: BlockPlacement, shape: Shape) -> Margins {
        let (from, to) = self.extent(place);
        // A block of no bytes stands behind its page.
        let start = place.start.min(to);
        let end = start.saturating_add(shape.size).min(to);
        let near = if self.deep { usize::MAX } else { NEAR };
        Margins { front: from.max(start.saturating_sub(near)), start, end, behind: to.min(end.saturating_add(near)) }
    }

    /// The first byte, and the first behind.
    pub(super) fn extent(&self, place: BlockPlacement) -> (usize, usize) {
        (self.geometry.address(place.page), self.geometry.address(place.page + place.pages))
    }

    /// `None` if all bytes are the pattern; else it is written again. Only this thread has the block, or the lists
    /// are locked.
    #[inline]
    pub(super) fn mended_redzone(&self, place: BlockPlacement, shape: Shape) -> Option<Redzone> {
        let margins = self.margins(place, shape);
        // SAFETY: the cell rule (`slots`): provided, and outside of the block's bytes.
        let front = unsafe { self.pattern.is_at(margins.front, margins.start) };
        // SAFETY: the cell rule: provided, and outside of the block's bytes.
        let behind = unsafe { self.pattern.is_at(margins.end, margins.behind) };
        (!front || !behind).then(|| self.mend(margins))
    }

    #[cold]
    fn mend(&self, margins: Margins) -> Redzone {
        let sides = [(margins.front, margins.start), (margins.end, margins.behind)];
        // SAFETY: the cell rule: provided, and outside of the block's bytes.
        let [front, behind] = sides.map(|(from, to)| unsafe { self.pattern.mend(from, to) });
        Redzone { front, behind }
    }
}

pub(super) const FRESH: u8 = 0xCD;
pub(super) const FREED: u8 = 0xDD;
pub(super) const NEAR: usize = 256;

/// Random bytes, without those that often fill memory: the content of a page outside of its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    page: NonNull<u8>,
    page_bytes: usize,
}

// SAFETY: written before this is made, and only read since.
unsafe impl Send for Pattern {}
// SAFETY: written before this is made, and only read since.
unsafe impl Sync for Pattern {}

impl Pattern {
    /// # Safety
    /// `page` has `page_bytes` bytes, a power of two, that no other thread writes while this is used.
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

    /// The part ends with the page.
    fn partial(&self, address: usize, len: usize) -> &[u8] {
        let offset = address & (self.page_bytes - 1);
        // SAFETY: `offset` is within the page.
        let from = unsafe { self.page.add(offset) };
        // SAFETY: within the page, written before this was made.
        unsafe { core::slice::from_raw_parts(from.as_ptr(), len.min(self.page_bytes - offset)) }
    }

    /// # Safety
    /// `len` bytes at `address` may be written.
    pub(super) unsafe fn write(&self, mut address: usize, mut len: usize) {
        while len > 0 {
            let part = self.partial(address, len);
            // SAFETY: this function's contract; the pattern is elsewhere.
            unsafe { with_exposed_provenance_mut::<u8>(address).copy_from_nonoverlapping(part.as_ptr(), part.len()) };
            address += part.len();
            len -= part.len();
        }
    }

    /// # Safety
    /// They may be read, and no thread writes them.
    #[inline]
    pub(super) unsafe fn is_at(&self, mut at: usize, end: usize) -> bool {
        while at < end {
            let part = self.partial(at, end - at);
            // SAFETY: this function's contract.
            if unsafe { bytes(at, part.len()) } != part {
                return false;
            }
            at += part.len();
        }
        true
    }

    /// The pattern is written again.
    ///
    /// # Safety
    /// They may be read and written, and no other thread does.
    #[cold]
    pub(super) unsafe fn mend(&self, from: usize, to: usize) -> Option<Changed> {
        let expected = |at| self.partial(from + at, 1).first().copied().unwrap_or(0);
        // SAFETY: this function's contract.
        let changed = unsafe { changes(from, to - from, expected) }?;
        // SAFETY: within these bytes.
        unsafe { self.write(changed.first, changed.span) };
        Some(changed)
    }
}

/// # Safety
/// `len` bytes at `address` may be read, and no thread writes them.
unsafe fn bytes<'a>(address: usize, len: usize) -> &'a [u8] {
    // SAFETY: this function's contract.
    unsafe { core::slice::from_raw_parts(with_exposed_provenance(address), len) }
}

/// # Safety
/// `len` bytes at `address` may be written.
pub(super) unsafe fn fill(address: usize, len: usize, value: u8) {
    // SAFETY: this function's contract.
    unsafe { with_exposed_provenance_mut::<u8>(address).write_bytes(value, len) };
}

/// Verifies all bytes, or [`NEAR`] at either end.
///
/// # Safety
/// `len` bytes at `address` may be read, and no thread writes them.
pub(super) unsafe fn poison_changed(address: usize, len: usize, all: bool) -> Option<Changed> {
    // SAFETY: this function's contract.
    let block = unsafe { bytes(address, len) };
    let is_poison = |part: &[u8]| part.iter().fold(0, |differing, byte| differing | (byte ^ FREED)) == 0;
    let untouched = match (block.first_chunk::<NEAR>(), block.last_chunk::<NEAR>()) {
        (Some(first), Some(last)) if !all => is_poison(first) && is_poison(last),
        _ => is_poison(block),
    };
    if untouched {
        return None;
    }
    // SAFETY: this function's contract.
    unsafe { changes(address, len, |_| FREED) }
}

/// Xorshift: `state` is never 0 after the first number.
pub(super) fn next_random(state: &mut u64) -> u64 {
    if *state == 0 {
        *state = 0x9E37_79B9_7F4A_7C15;
    }
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 24
}
