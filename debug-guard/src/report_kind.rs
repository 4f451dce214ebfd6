#![forbid(unsafe_code)]

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReportKind {
    /// A byte behind the block was accessed, or found changed.
    Overflow,
    /// A byte in front of the block was accessed, or found changed.
    Underflow,
    /// A freed block was accessed, or found changed.
    UseAfterFree,
    /// A block of no bytes was accessed.
    ZeroSizeAccess,
    /// An address of the guard that never had a block was accessed.
    WildAccess,
    /// A block was freed a second time.
    DoubleFree,
    /// A pointer into a block was freed.
    InteriorFree,
    /// A pointer was freed that is no block's of this guard: stack, static, another allocator's, or nonsense.
    ForeignFree,
    /// A block of another guard was freed here.
    WrongGuard,
    /// A block was freed through the C callbacks of another context than it was allocated through.
    WrongOwner,
    /// A block was freed with another size than it was allocated with.
    SizeMismatch,
    /// A block was freed with another alignment than it was allocated with.
    AlignmentMismatch,
    /// A block was freed with another scope than it was allocated with.
    ScopeMismatch,
    /// The header in front of a block is damaged and cannot be read.
    HeaderDamaged,
    /// A header was copied to another address.
    HeaderMoved,
}

impl ReportKind {
    /// The mistake's name in reports.
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
