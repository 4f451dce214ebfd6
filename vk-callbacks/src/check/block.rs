//! The record of a block: 48 bytes beside the block.

#![forbid(unsafe_code)]

use core::num::NonZeroU64;

use alloc_core::Scope;

use super::table::TableEntry;
use crate::raw::RawRequest;

/// A block of callbacks, live or freed.
///
/// ```text
///   0         8        16       24              40      44       48
///   | address | packed | serial | command (&str) | owner | tag    |      packed: size 48, alignment 6, scope 3, state 2, reported 2, flags 2
/// ```
#[derive(Clone, Copy)]
pub(crate) struct BlockRecord<'t> {
    address: NonZeroU64,
    packed: u64,
    /// The serial number of the allocating command; 0 outside of any.
    pub(crate) serial: u64,
    /// The name of that command; empty outside of any.
    pub(crate) command: &'t str,
    /// The owner of its callbacks; 0 if unknown.
    pub(crate) owner: u32,
    /// In transit: the number of the reallocation. Otherwise the [callbacks](super::engine::CallbackCall::callbacks) that gave it.
    pub(crate) tag: u32,
}

const _: () = assert!(size_of::<Option<BlockRecord<'_>>>() == 48 || usize::BITS != 64);

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Live = 0,
    /// A reallocation of it is running.
    Moving = 1,
    Gone = 2,
}

/// The report about a leftover block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedAs {
    Nothing = 0,
    /// It outlived its command.
    Command = 1,
    /// It outlived the object.
    Destroy = 2,
    /// It was live at the end.
    End = 3,
}

const SIZE: Field = Field { shift: 0, bits: 48 };
const ALIGN: Field = Field { shift: 48, bits: 6 };
const SCOPE: Field = Field { shift: 54, bits: 3 };
const STATE: Field = Field { shift: 57, bits: 2 };
const REPORTED: Field = Field { shift: 59, bits: 2 };
/// A reallocation of the block failed, so it must stay.
const STAYS: Field = Field { shift: 61, bits: 1 };
/// In a log, other callbacks freed the block or moved it here; whether they are compatible is unknown.
const DOUBTED: Field = Field { shift: 62, bits: 1 };
/// An alignment that is no power of two.
const ODD: u64 = 63;

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
    pub(crate) fn new(
        address: NonZeroU64,
        request: BlockRequest,
        serial: u64,
        command: &'t str,
        (owner, callbacks): (u32, u32),
    ) -> Self {
        let mut packed = SIZE.put(0, request.size.min((1 << 48) - 1));
        packed = ALIGN.put(packed, align_word(request.align));
        packed = SCOPE.put(
            packed,
            u64::try_from(request.scope).map_or(7, |scope| scope.min(7)),
        );
        Self {
            address,
            packed,
            serial,
            command,
            owner,
            tag: callbacks,
        }
    }

    /// A key for a lookup.
    #[inline]
    pub(crate) const fn at(address: NonZeroU64) -> Self {
        Self {
            address,
            packed: 0,
            serial: 0,
            command: "",
            owner: 0,
            tag: 0,
        }
    }

    pub(crate) const fn address(&self) -> NonZeroU64 {
        self.address
    }

    pub(crate) const fn size(&self) -> u64 {
        SIZE.get(self.packed)
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        self.packed = SIZE.put(self.packed, size.min((1 << 48) - 1));
    }

    pub(crate) fn scope(&self) -> Option<Scope> {
        Scope::from_raw(SCOPE.get(self.packed) as u32)
    }

    /// Whether the block has the scope of the request.
    pub(crate) fn has_scope(&self, request: BlockRequest) -> bool {
        self.scope() == request.scope()
    }

    pub(crate) const fn has_align(&self, align: u64) -> bool {
        ALIGN.get(self.packed) == align_word(align)
    }

    /// The alignment of the block, in bytes; none if it was no power of two.
    pub(crate) const fn align(&self) -> Option<u64> {
        match ALIGN.get(self.packed) {
            ODD => None,
            log => Some(1 << log),
        }
    }

    #[inline]
    pub(crate) const fn state(&self) -> BlockState {
        match STATE.get(self.packed) {
            0 => BlockState::Live,
            1 => BlockState::Moving,
            _ => BlockState::Gone,
        }
    }

    #[inline]
    pub(crate) const fn set_state(&mut self, state: BlockState) {
        self.packed = STATE.put(self.packed, state as u64);
    }

    pub(crate) const fn reported_as(&self) -> ReportedAs {
        match REPORTED.get(self.packed) {
            0 => ReportedAs::Nothing,
            1 => ReportedAs::Command,
            2 => ReportedAs::Destroy,
            _ => ReportedAs::End,
        }
    }

    pub(crate) const fn set_reported_as(&mut self, told: ReportedAs) {
        self.packed = REPORTED.put(self.packed, told as u64);
    }

    pub(crate) const fn stays(&self) -> bool {
        STAYS.get(self.packed) != 0
    }

    pub(crate) const fn set_stays(&mut self) {
        self.packed = STAYS.put(self.packed, 1);
    }

    pub(crate) const fn doubted(&self) -> bool {
        DOUBTED.get(self.packed) != 0
    }

    pub(crate) const fn set_doubted(&mut self, doubted: bool) {
        self.packed = DOUBTED.put(self.packed, doubted as u64);
    }

    /// Whether this record is the block of the reallocation of this number.
    pub(crate) fn is_moved_by(&self, number: u32) -> bool {
        self.state() == BlockState::Moving && self.tag == number
    }

    /// The same block at another address.
    pub(crate) const fn moved_to(self, address: NonZeroU64) -> Self {
        Self { address, ..self }
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
        self.state() == BlockState::Gone
    }
}

#[inline]
const fn align_word(align: u64) -> u64 {
    if align.is_power_of_two() {
        align.trailing_zeros() as u64 & 63
    } else {
        ODD
    }
}

/// Some bits of a word.
struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    #[inline]
    const fn get(&self, word: u64) -> u64 {
        word >> self.shift & ((1 << self.bits) - 1)
    }

    #[inline]
    const fn put(&self, word: u64, value: u64) -> u64 {
        let mask = ((1 << self.bits) - 1) << self.shift;
        word & !mask | value << self.shift & mask
    }
}
