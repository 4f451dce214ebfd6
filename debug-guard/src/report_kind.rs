//! What can be reported: one closed list.

#![forbid(unsafe_code)]

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportKind {
    /// A byte behind the block was touched, or found changed.
    Overflow,
    /// A byte in front of the block was touched, or found changed.
    Underflow,
    /// A freed block was touched, or found changed.
    UseAfterFree,
    /// A block of no bytes was touched.
    ZeroSizeAccess,
    /// An address of the guard's where no block ever was was touched.
    WildAccess,
    /// A block was freed a second time.
    DoubleFree,
    /// A pointer into a block was freed.
    InteriorFree,
    /// A pointer was freed that belongs to no block of this guard: stack, static, another allocator's, or plain nonsense.
    ForeignFree,
    /// A block of another guard was freed here; the report names the right one.
    WrongGuard,
    /// A block came back through the C callbacks of another context than it was taken through.
    WrongOwner,
    /// A block came back with another size than it was taken with.
    SizeMismatch,
    /// A block came back with another alignment than it was taken with.
    AlignmentMismatch,
    /// A block came back with another scope than it was taken with.
    ScopeMismatch,
    /// The header in front of a block is damaged and cannot be read any more.
    HeaderDamaged,
    /// A header stands where it was not written: it was copied there.
    HeaderMoved,
}

impl ReportKind {
    /// As reports write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Underflow => "underflow",
            Self::UseAfterFree => "use-after-free",
            Self::ZeroSizeAccess => "zero-size-access",
            Self::WildAccess => "wild-access",
            Self::DoubleFree => "double-free",
            Self::InteriorFree => "interior-free",
            Self::ForeignFree => "foreign-free",
            Self::WrongGuard => "wrong-guard",
            Self::WrongOwner => "wrong-owner",
            Self::SizeMismatch => "size-mismatch",
            Self::AlignmentMismatch => "alignment-mismatch",
            Self::ScopeMismatch => "scope-mismatch",
            Self::HeaderDamaged => "header-damaged",
            Self::HeaderMoved => "header-moved",
        }
    }

    /// True if the mistake is a pointer that was passed in, and not an access.
    pub(crate) const fn is_about_a_pointer(self) -> bool {
        !matches!(
            self,
            Self::Overflow
                | Self::Underflow
                | Self::UseAfterFree
                | Self::ZeroSizeAccess
                | Self::WildAccess
                | Self::HeaderDamaged
        )
    }
}
