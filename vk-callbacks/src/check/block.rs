//! The record of a block: 64 bytes beside the block.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;

use alloc_core::Scope;

use super::table::TableEntry;
use crate::raw::RawRequest;

/// A block of callbacks, live or freed.
#[derive(Clone, Copy)]
pub(crate) struct BlockRecord<'t> {
    pub(crate) address: NonZeroU64,
    pub(crate) size: u64,
    pub(crate) align: u64,
    /// The serial number of the allocating command; 0 outside of any.
    pub(crate) serial: u64,
    /// The name of that command; empty outside of any.
    pub(crate) command: &'t str,
    pub(crate) raw_scope: i32,
    /// The owner of its callbacks; 0 if unknown.
    pub(crate) owner: u32,
    /// In transit: the number of the reallocation. Otherwise the [callbacks](super::engine::CallbackCall::callbacks) that gave it.
    pub(crate) tag: u32,
    pub(crate) state: BlockState,
    pub(crate) reported_as: ReportedAs,
    /// A reallocation of the block failed, so it must stay.
    pub(crate) stays: bool,
    /// In a log, other callbacks freed the block or moved it here; whether they are compatible is unknown.
    pub(crate) doubted: bool,
}

const _: () = assert!(size_of::<BlockRecord<'_>>() == 64 || usize::BITS != 64);

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Live,
    /// A reallocation of it is running.
    Moving,
    Gone,
}

/// The report about a leftover block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedAs {
    Nothing,
    /// It outlived its command.
    Command,
    /// It outlived the object.
    Destroy,
    /// It was live at the end.
    End,
}

/// A request, as far as a record stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRequest {
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) scope: i32,
}

impl From<RawRequest> for BlockRequest {
    #[inline]
    fn from(request: RawRequest) -> Self {
        Self {
            size: request.size as u64,
            align: request.align as u64,
            scope: request.scope,
        }
    }
}

impl BlockRequest {
    pub(crate) fn scope(self) -> Option<Scope> {
        u32::try_from(self.scope).ok().and_then(Scope::from_raw)
    }
}

impl<'t> BlockRecord<'t> {
    #[inline]
    pub(crate) const fn new(
        address: NonZeroU64,
        request: BlockRequest,
        serial: u64,
        command: &'t str,
        (owner, tag): (u32, u32),
    ) -> Self {
        Self {
            address,
            size: request.size,
            align: request.align,
            serial,
            command,
            raw_scope: request.scope,
            owner,
            tag,
            state: BlockState::Live,
            reported_as: ReportedAs::Nothing,
            stays: false,
            doubted: false,
        }
    }

    /// A key for a lookup.
    #[inline]
    pub(crate) const fn at(address: NonZeroU64) -> Self {
        Self::new(
            address,
            BlockRequest {
                size: 0,
                align: 0,
                scope: 0,
            },
            0,
            "",
            (0, 0),
        )
    }

    /// The request of its allocation, with the size of its last reallocation.
    pub(crate) const fn request(&self) -> BlockRequest {
        BlockRequest {
            size: self.size,
            align: self.align,
            scope: self.raw_scope,
        }
    }

    pub(crate) fn scope(&self) -> Option<Scope> {
        self.request().scope()
    }

    /// Whether this record is the block of the reallocation of this number.
    pub(crate) fn is_moved_by(&self, number: u32) -> bool {
        self.state == BlockState::Moving && self.tag == number
    }
}

impl TableEntry for BlockRecord<'_> {
    #[inline]
    fn key(&self) -> u64 {
        self.address.get()
    }

    #[inline]
    fn same(&self, other: &Self) -> bool {
        self.address == other.address
    }

    #[inline]
    fn gone(&self) -> bool {
        self.state == BlockState::Gone
    }
}
