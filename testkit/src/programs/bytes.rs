//! Reads the choices of a program out of bytes.

use std::alloc::Layout;

use alloc_core::Scope;

/// What is left of a program's bytes. Every choice takes one or two; when none are left, the program ends.
#[derive(Clone, Debug)]
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// All of `bytes` is to come.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A choice among `count`; 0 when `count` is 0.
    pub fn below(&mut self, count: usize) -> Option<usize> {
        let wide = usize::from(self.next()?) | if count > 256 { usize::from(self.next()?) << 8 } else { 0 };
        Some(wide.checked_rem(count).unwrap_or(0))
    }

    /// One of the five scopes.
    pub fn scope(&mut self) -> Option<Scope> {
        self.below(Scope::COUNT).map(|index| Scope::ALL[index])
    }

    /// A size: mostly small, often 0 or beside a power of two, up to 64 KiB.
    pub fn size(&mut self) -> Option<usize> {
        let kind = self.next()?;
        Some(match kind % 8 {
            0 => 0,
            1..=4 => usize::from(self.next()?),
            5 => usize::from(self.next()?) * 17,
            // A power of two, one less, one more.
            6 => (1_usize << self.below(17)?) - 1 + usize::from(kind / 8 % 3),
            _ => self.below(65_536)?,
        })
    }

    /// A power of two: mostly up to 16, up to 64 KiB.
    pub fn alignment(&mut self) -> Option<usize> {
        let byte = self.next()?;
        Some(1 << if byte < 192 { byte % 5 } else { byte % 17 })
    }

    /// A valid layout.
    pub fn layout(&mut self) -> Option<Layout> {
        let (size, align) = (self.size()?, self.alignment()?);
        Layout::from_size_align(size, align).ok()
    }
}

impl Iterator for Bytes<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}
