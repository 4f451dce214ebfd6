//! The position of an address relative to a block, in words that cannot be misread.

#![forbid(unsafe_code)]

use core::fmt;

/// The position of an address relative to a block.
///
/// ```text
///        ... 2    1  | 0   1   ..  n-1 | 0    1  ..
///      in front of   |      into       | past the end of
///                    start             start + size
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressPosition {
    /// So many bytes in front of its first: 1 is the byte before it.
    Before(usize),
    /// At this offset from its first byte.
    Inside(usize),
    /// So many bytes past its end: 0 is the byte behind the last.
    Past(usize),
}

impl AddressPosition {
    /// The position of `address` relative to the `size` bytes from `start` on.
    pub(super) const fn of(address: usize, start: usize, size: usize) -> Self {
        match address.checked_sub(start) {
            None => Self::Before(start.wrapping_sub(address)),
            Some(offset) if offset < size => Self::Inside(offset),
            Some(offset) => Self::Past(offset.wrapping_sub(size)),
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before(_) => "before",
            Self::Inside(_) => "inside",
            Self::Past(_) => "past",
        }
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Before(bytes) | Self::Inside(bytes) | Self::Past(bytes) => bytes,
        }
    }
}

impl fmt::Display for AddressPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.bytes() == 1 { "" } else { "s" };
        match self {
            Self::Before(bytes) => write!(f, "{bytes} byte{plural} in front of"),
            Self::Inside(offset) => write!(f, "offset {offset} into"),
            Self::Past(bytes) => write!(f, "{bytes} byte{plural} past the end of"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::AddressPosition;

    #[test]
    fn every_byte_around_a_block_has_one_name() {
        let told = |address| AddressPosition::of(address, 100, 10).to_string();
        assert_eq!(told(98), "2 bytes in front of");
        assert_eq!(told(99), "1 byte in front of");
        assert_eq!(told(100), "offset 0 into");
        assert_eq!(told(109), "offset 9 into");
        assert_eq!(told(110), "0 bytes past the end of");
        assert_eq!(told(111), "1 byte past the end of");
        assert_eq!(told(112), "2 bytes past the end of");
        assert_eq!(
            AddressPosition::of(100, 100, 0),
            AddressPosition::Past(0),
            "a block of no bytes has none inside"
        );
        assert_eq!(
            AddressPosition::of(0, usize::MAX, 0),
            AddressPosition::Before(usize::MAX)
        );
        assert_eq!(
            AddressPosition::of(usize::MAX, 0, 0),
            AddressPosition::Past(usize::MAX)
        );
    }
}
