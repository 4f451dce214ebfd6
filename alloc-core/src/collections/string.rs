use core::fmt::{self, Write};
use core::ops::Deref;
use core::str;

use super::TryVec;
use crate::adapters::HostSource;
use crate::error::HostError;

/// UTF-8 text in host memory of `A`, whose every growth can be refused. A refused call leaves the text as it was.
///
/// `write!` loses the reason of a refusal, which [`try_write_fmt`](TryString::try_write_fmt) returns.
///
/// # Errors of all its functions
/// [`HostError::TooLarge`] above `isize::MAX` bytes; the allocator's refusal.
pub struct TryString<A: HostSource> {
    /// Invariant: valid UTF-8.
    bytes: TryVec<u8, A>,
}

impl<A: HostSource> TryString<A> {
    /// An empty text without memory.
    pub const fn new_in(allocator: A) -> Self {
        Self { bytes: TryVec::new_in(allocator) }
    }

    /// An empty text with room for exactly `capacity` bytes.
    pub fn try_with_capacity_in(capacity: usize, allocator: A) -> Result<Self, HostError> {
        Ok(Self { bytes: TryVec::try_with_capacity_in(capacity, allocator)? })
    }

    /// A copy of `text`, without spare room.
    pub fn try_from_str_in(text: &str, allocator: A) -> Result<Self, HostError> {
        Ok(Self { bytes: TryVec::try_from_slice_in(text.as_bytes(), allocator)? })
    }

    /// Appends `text`, all or nothing.
    #[inline]
    pub fn try_push_str(&mut self, text: &str) -> Result<(), HostError> {
        self.bytes.try_extend_from_slice(text.as_bytes())
    }

    /// Appends one character.
    pub fn try_push(&mut self, c: char) -> Result<(), HostError> {
        self.try_push_str(c.encode_utf8(&mut [0; 4]))
    }

    /// Appends formatted text, all or nothing: `text.try_write_fmt(format_args!("{x}"))`.
    ///
    /// Values are formatted twice where the text must grow. A `Display` that returns [`fmt::Error`], which it should
    /// not, ends the text early.
    pub fn try_write_fmt(&mut self, args: fmt::Arguments<'_>) -> Result<(), HostError> {
        if let Some(text) = args.as_str() {
            return self.try_push_str(text);
        }
        // The text grows once at most, so that a refusal finds the block as it was: it is measured first, and written
        // again if it did not fit.
        let before = self.bytes.len();
        let mut writer = Writer { text: self, needed: 0, refusal: None, grows: false };
        let _ = writer.write_fmt(args);
        let needed = writer.needed;
        if before.checked_add(needed).is_some_and(|total| total <= self.capacity()) {
            return Ok(());
        }
        self.bytes.truncate(before);
        self.try_reserve(needed)?;
        let mut writer = Writer { text: self, needed: 0, refusal: None, grows: true };
        let _ = writer.write_fmt(args);
        // A value that writes more the second time can still be refused.
        if let Some(refusal) = writer.refusal {
            self.bytes.truncate(before);
            return Err(refusal);
        }
        Ok(())
    }

    /// Cuts the text after `len` bytes, or before the character across that place.
    pub fn truncate(&mut self, len: usize) {
        let boundary = floor_char_boundary(self, len);
        self.bytes.truncate(boundary);
    }

    /// Empties the text. Keeps the block.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Room for `additional` more bytes, growing to at least the double.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), HostError> {
        self.bytes.try_reserve(additional)
    }

    /// How many bytes the block has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The allocator of the block.
    pub fn allocator(&self) -> &A {
        self.bytes.allocator()
    }

    /// The text.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        // SAFETY: the invariant of `bytes`.
        unsafe { str::from_utf8_unchecked(&self.bytes) }
    }

    /// The bytes of the text.
    #[must_use]
    pub fn into_bytes(self) -> TryVec<u8, A> {
        self.bytes
    }
}

struct Writer<'a, A: HostSource> {
    text: &'a mut TryString<A>,
    /// Bytes so far, written or not.
    needed: usize,
    refusal: Option<HostError>,
    /// False: write only within the capacity.
    grows: bool,
}

impl<A: HostSource> Write for Writer<'_, A> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.needed = self.needed.saturating_add(s.len());
        if !self.grows && s.len() > self.text.capacity().saturating_sub(self.text.len()) {
            return Ok(()); // Counted; the text is cut off and written again.
        }
        // A value that swallowed the error must not go on behind the gap.
        if self.refusal.is_some() {
            return Err(fmt::Error);
        }
        self.text.try_push_str(s).map_err(|refusal| {
            self.refusal = Some(refusal);
            fmt::Error
        })
    }
}

impl<A: HostSource> Write for TryString<A> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.try_push_str(s).map_err(|_| fmt::Error)
    }

    fn write_fmt(&mut self, args: fmt::Arguments<'_>) -> fmt::Result {
        self.try_write_fmt(args).map_err(|_| fmt::Error)
    }
}

impl<A: HostSource> Deref for TryString<A> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<A: HostSource> fmt::Debug for TryString<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl<A: HostSource> fmt::Display for TryString<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl<A: HostSource, B: HostSource> PartialEq<TryString<B>> for TryString<A> {
    fn eq(&self, other: &TryString<B>) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<A: HostSource> PartialEq<str> for TryString<A> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl<A: HostSource> Eq for TryString<A> {}

/// The largest character boundary of `text` up to `at`; `str::floor_char_boundary` since Rust 1.91.
#[must_use]
pub fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut boundary = at.min(text.len());
    while !text.is_char_boundary(boundary) {
        boundary = boundary.saturating_sub(1); // 0 is a boundary
    }
    boundary
}
