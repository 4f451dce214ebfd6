//! The header of 16 bytes in front of a block: its place and its content.
//!
//! The C interface frees by pointer alone, Rust allocators need the `Layout`, so it is stored in front of the payload:
//!
//! ```text
//!  base                      p-16      p-8       p (what the driver sees)        base + layout.size
//!   |<-------- gap -------->|  word0  |  word1  |<------ size ------>|<- slack ->|
//!   |<------------------- pad ----------------->|
//!
//!  word0:  size 0..47 | log2(align) 48..52 | scope 53..55 | pad/16 - 1  56..63
//!  word1:  owner 0..31 | cookie 32..63
//! ```
//!
//! | alignment | asked of the backing | pad | slack |
//! |---|---|---|---|
//! | 1..=16 | `size + 16`, aligned to at least 8; in [`Mode::Exact`] to the alignment | 16 | 0 |
//! | 32..=4096, [`Mode::Own`] | `size + align`, aligned to 16 | 16..=align, stored | align - pad |
//! | above 4096, or above 16 in [`Mode::Exact`] | `size + align`, aligned to `align` | align | 0 |

#![forbid(unsafe_code)]

use core::alloc::Layout;

use alloc_core::Scope;

pub(crate) const HEADER: usize = 16;
/// The first refused size: it does not fit word0.
pub(crate) const SIZE_LIMIT: u64 = 1 << 47;
/// The largest alignment without a stored pad, on the fast path.
pub(crate) const SMALL_ALIGN: usize = 16;
/// Its largest pad, 4096, is the largest that fits word0.
pub(crate) const OWN_ALIGN: usize = 4096;
pub(crate) const MAX_ALIGN: usize = 1 << 31;

/// Who makes alignments above 16: the bridge, or the backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Own,
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderPlan {
    pub(crate) layout: Layout,
    pub(crate) pad: Pad,
}

/// Distance from the backing's block to the payload, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pad {
    /// The same for every block of this plan.
    Fixed(usize),
    /// Depends on the block's address; stored in word0. The payload is aligned to this.
    Stored(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    TooLarge,
    BadAlignment,
}

impl HeaderPlan {
    /// All paths (allocate, reallocate, free) use it, so a block is freed with its layout.
    #[inline]
    pub(crate) fn new(size: usize, align: usize, mode: Mode) -> Result<Self, HeaderError> {
        if align <= SMALL_ALIGN {
            let small = Self::small(size, align)?;
            let layout = match mode {
                Mode::Own => small,
                // A backing that ends the payload at the block's end is as exact as the alignment allows.
                Mode::Exact => Layout::from_size_align(small.size(), align).map_err(|_| HeaderError::TooLarge)?,
            };
            return Ok(Self { layout, pad: Pad::Fixed(HEADER) });
        }
        if size as u64 >= SIZE_LIMIT {
            return Err(HeaderError::TooLarge);
        }
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(HeaderError::BadAlignment);
        }
        let own = align <= OWN_ALIGN && matches!(mode, Mode::Own);
        let (asked, pad) = if own { (HEADER, Pad::Stored(align)) } else { (align, Pad::Fixed(align)) };
        // On 64 bits neither can fail after the limits above; on 32 bits both can.
        let total = size.checked_add(align).ok_or(HeaderError::TooLarge)?;
        let layout = Layout::from_size_align(total, asked).map_err(|_| HeaderError::TooLarge)?;
        Ok(Self { layout, pad })
    }

    /// `align` is at most [`SMALL_ALIGN`]; the pad is [`HEADER`].
    #[inline]
    pub(crate) fn small(size: usize, align: usize) -> Result<Layout, HeaderError> {
        if size as u64 >= SIZE_LIMIT {
            return Err(HeaderError::TooLarge);
        }
        if !align.is_power_of_two() {
            return Err(HeaderError::BadAlignment);
        }
        let total = size.checked_add(HEADER).ok_or(HeaderError::TooLarge)?;
        // Two constants instead of a maximum, so that the check for a power of two folds away.
        let layout = if align == SMALL_ALIGN {
            Layout::from_size_align(total, SMALL_ALIGN)
        } else {
            Layout::from_size_align(total, 8)
        };
        layout.map_err(|_| HeaderError::TooLarge)
    }

    #[inline]
    pub(crate) fn pad_at(&self, base: usize) -> usize {
        match self.pad {
            Pad::Fixed(pad) => pad,
            Pad::Stored(align) => {
                let payload = base.wrapping_add(HEADER).wrapping_add(align - 1) & !(align - 1);
                payload.wrapping_sub(base)
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word0(pub(crate) u64);

impl Word0 {
    /// It is known before the block exists.
    #[inline]
    pub(crate) fn small(size: usize, align: usize, scope: Scope) -> Self {
        Self(size as u64 | u64::from(align.trailing_zeros()) << 48 | u64::from(scope.as_raw()) << 53)
    }

    /// `size` is below [`SIZE_LIMIT`], `align` a power of two up to [`MAX_ALIGN`].
    #[inline]
    pub(crate) fn new(size: usize, align: usize, scope: Scope, plan: &HeaderPlan, pad: usize) -> Self {
        let stored = match plan.pad {
            Pad::Fixed(_) => 0,
            Pad::Stored(_) => (pad / HEADER).wrapping_sub(1) as u64,
        };
        Self(Self::small(size, align, scope).0 | stored << 56)
    }

    #[inline]
    pub(crate) fn size(self) -> usize {
        (self.0 & (SIZE_LIMIT * 2 - 1)) as usize
    }

    #[inline]
    pub(crate) fn align(self) -> usize {
        1 << (self.0 >> 48 & 31)
    }

    /// `None` for an invalid number: then the header is not a bridge's.
    #[inline]
    pub(crate) fn scope(self) -> Option<Scope> {
        Scope::from_raw((self.0 >> 53 & 7) as u32)
    }

    #[inline]
    pub(crate) fn pad(self, plan: &HeaderPlan) -> usize {
        match plan.pad {
            Pad::Fixed(pad) => pad,
            Pad::Stored(_) => ((self.0 >> 56) as usize + 1) * HEADER,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct CookieKey {
    pub(crate) secret: u64,
    pub(crate) owner: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Live,
    Freed,
    /// Not a block of this bridge, or overwritten.
    Unknown,
}

impl CookieKey {
    #[inline]
    pub(crate) fn live(self, payload: usize, word0: Word0) -> u64 {
        u64::from(self.owner) | self.cookie(payload, word0) << 32
    }

    #[inline]
    pub(crate) fn freed(self, payload: usize, word0: Word0) -> u64 {
        self.live(payload, word0) ^ (0xffff_ffff << 32)
    }

    #[cold]
    pub(crate) fn judge(self, payload: usize, word0: Word0, word1: u64) -> Mark {
        if word1 == self.live(payload, word0) {
            Mark::Live
        } else if word1 == self.freed(payload, word0) {
            Mark::Freed
        } else {
            Mark::Unknown
        }
    }

    /// It is keyed by the address, so a copied header does not pass.
    #[inline]
    fn cookie(self, payload: usize, word0: Word0) -> u64 {
        // Any odd number makes the multiplication a bijection.
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        (payload as u64 ^ self.secret ^ word0.0.rotate_left(17) ^ u64::from(self.owner)).wrapping_mul(ODD) >> 32
    }
}

#[cfg(test)]
mod tests;
