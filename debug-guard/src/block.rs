#![forbid(unsafe_code)]

use core::alloc::Layout;

use alloc_core::Scope;

use crate::changed::Changed;
use crate::mode::{BackEnd, Mode};
use crate::report_kind::ReportKind;

/// Requester and stack of an allocation or free, interned by [`crate::call_sites`]; 0 = not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SiteId(pub(crate) u32);

impl SiteId {
    pub(crate) const ANONYMOUS: Self = Self(1);

    pub(crate) const WHOLE: u32 = 1 << 31;

    pub(crate) const fn is_whole(self) -> bool {
        self.0 & Self::WHOLE != 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BlockMark {
    pub(crate) site: SiteId,
    /// The operating system's number.
    pub(crate) thread: u32,
    /// Grows with the guard's allocations; the difference of two is an age.
    pub(crate) serial: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRequest {
    pub(crate) layout: Layout,
    pub(crate) scope: Scope,
    pub(crate) zeroed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeRequest {
    pub(crate) layout: Layout,
    pub(crate) scope: Scope,
    pub(crate) mark: BlockMark,
    pub(crate) moved_to: Option<usize>,
}

impl FreeRequest {
    pub(crate) fn mismatches(&self, block: Known) -> impl Iterator<Item = GuardFinding> {
        let Self { layout, scope, .. } = *self;
        [
            (layout.size() != block.size, ReportKind::SizeMismatch),
            (layout.align() != block.align, ReportKind::AlignmentMismatch),
            (scope != block.scope, ReportKind::ScopeMismatch),
        ]
        .into_iter()
        .filter(|(differs, _)| *differs)
        .map(move |(_, kind)| GuardFinding::new(kind, Some(block), block.start))
    }
}

#[cfg(test)]
impl BlockRequest {
    pub(crate) const fn new(layout: Layout, scope: Scope, zeroed: bool) -> Self {
        Self { layout, scope, zeroed }
    }
}

/// Whether a block is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockState {
    /// The block is live.
    Live,
    /// The block was freed.
    Freed,
    /// A reallocation freed it; its content moved to this address.
    MovedTo(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) start: usize,
    pub(crate) size: usize,
    pub(crate) align: usize,
    pub(crate) scope: Scope,
    pub(crate) state: BlockState,
    pub(crate) allocated: BlockMark,
    /// Where `state` is not `Live`.
    pub(crate) freed: BlockMark,
    pub(crate) mode: Mode,
    pub(crate) back_end: BackEnd,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardFinding {
    pub(crate) kind: ReportKind,
    pub(crate) block: Option<Known>,
    /// The address that was passed in or found changed.
    pub(crate) address: usize,
    pub(crate) changed: Option<Changed>,
    /// The number of the guard that owns `block`, if another one reports.
    pub(crate) owner: Option<u64>,
}

impl GuardFinding {
    pub(crate) const fn new(kind: ReportKind, block: Option<Known>, address: usize) -> Self {
        Self { kind, block, address, changed: None, owner: None }
    }

    pub(crate) const fn of_change(kind: ReportKind, block: Option<Known>, changed: Changed) -> Self {
        Self { changed: Some(changed), ..Self::new(kind, block, changed.first) }
    }
}

/// Receives the findings of one operation, which is not complete yet: it must not unwind.
pub(crate) type Findings<'a> = dyn FnMut(GuardFinding) + 'a;

/// Receives the findings of one check, with no lock held. It may unwind; the iterator then has the rest.
pub(crate) type FindingSink<'a> = dyn FnMut(&mut dyn Iterator<Item = GuardFinding>) + 'a;

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedAccess {
    pub(crate) kind: ReportKind,
    pub(crate) block: Option<Known>,
    pub(crate) other: Option<Known>,
}

impl StoppedAccess {
    pub(crate) const WILD: Self = Self { kind: ReportKind::WildAccess, block: None, other: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) size: usize,
    pub(crate) mode: Mode,
}
