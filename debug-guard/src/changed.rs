use core::ptr::with_exposed_provenance;

/// Bytes that are not what the guard wrote there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Address of the first.
    pub first: usize,
    /// Number of bytes from the first to the last, both included.
    pub span: usize,
    pub(crate) expected: [u8; 16],
    pub(crate) actual: [u8; 16],
}

impl Changed {
    /// The first bytes of the span, 16 at most, as the guard wrote them.
    #[must_use]
    pub fn expected(&self) -> &[u8] {
        self.expected.get(..self.span).unwrap_or(&self.expected)
    }

    /// The same bytes, as they are.
    #[must_use]
    pub fn actual(&self) -> &[u8] {
        self.actual.get(..self.span).unwrap_or(&self.actual)
    }
}

/// # Safety
/// They may be read.
pub(crate) unsafe fn changes(first: usize, len: usize, expected: impl Fn(usize) -> u8) -> Option<Changed> {
    // SAFETY: may be read; volatile, because a wrong program may write meanwhile.
    let actual = |at: usize| unsafe { with_exposed_provenance::<u8>(first.wrapping_add(at)).read_volatile() };
    let begin = (0..len).find(|&at| actual(at) != expected(at))?;
    let end = (begin..len).rev().find(|&at| actual(at) != expected(at)).unwrap_or(begin);
    let mut changed = Changed { first: first.wrapping_add(begin), span: end - begin + 1, ..Changed::default() };
    for (at, (old, new)) in (begin..=end).zip(changed.expected.iter_mut().zip(&mut changed.actual)) {
        (*old, *new) = (expected(at), actual(at));
    }
    Some(changed)
}
