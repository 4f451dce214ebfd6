//! What the records' lock guards, and what it may have to be given from outside.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::array::{Array, Spare};
use super::foreign::Foreign;
use super::index::Index;
use super::kinds::{Kind, Kinds};
use super::parked::{Park, Parked};
use super::table::{Table, TableLack};
use crate::error::Limit;

pub(super) struct State {
    pub(super) table: Table,
    pub(super) index: Index,
    pub(super) kinds: Kinds,
    pub(super) park: Park,
    /// Memory objects of the application's that wrapped buffers lie in.
    pub(super) foreign: Option<NonNull<Foreign>>,
    pub(super) counts: Counts,
}

// SAFETY: the pointers are to blocks that the records alone refer to, and are followed under their lock, but for a `Foreign` that
// a mapping counts, whose own fields are behind its gate.
unsafe impl Send for State {}

/// How many there are of what; exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Wrapped buffers, and their bytes.
    pub(crate) wrapped: u64,
    pub(crate) wrapped_bytes: u64,
    pub(crate) crops: u64,
    /// Regions that go with their last crop or mapping.
    pub(crate) waiting: u64,
    /// Buffers kept for reuse, and their bytes.
    pub(crate) parked: u64,
    pub(crate) parked_bytes: u64,
}

/// What a call is about to put in.
#[derive(Clone, Copy, Default)]
pub(super) struct Need {
    pub(super) slot: bool,
    pub(super) bucket: bool,
    pub(super) kind: Option<Kind>,
    /// Room for so many kept buffers.
    pub(super) park: u32,
}

/// Memory that lacks for it.
#[derive(Clone, Copy)]
pub(super) enum Lack {
    Table(TableLack),
    Buckets(u32),
    Kinds(u32),
    Park(u32),
}

impl Lack {
    pub(super) fn layout(self) -> Option<Layout> {
        match self {
            Self::Table(lack) => lack.layout(),
            Self::Buckets(capacity) => Array::<u32>::layout(capacity),
            Self::Kinds(capacity) => Array::<Kind>::layout(capacity),
            Self::Park(capacity) => Array::<Parked>::layout(capacity),
        }
    }
}

impl State {
    pub(super) const fn new() -> Self {
        Self {
            table: Table::new(),
            index: Index::new(),
            kinds: Kinds::new(),
            park: Park::new(),
            foreign: None,
            counts: Counts { wrapped: 0, wrapped_bytes: 0, crops: 0, waiting: 0, parked: 0, parked_bytes: 0 },
        }
    }

    pub(super) fn lacks(&self, need: &Need) -> Result<Option<Lack>, Limit> {
        if need.slot
            && let Some(lack) = self.table.lacks()?
        {
            return Ok(Some(Lack::Table(lack)));
        }
        if need.bucket
            && let Some(capacity) = self.index.lacks()
        {
            return Ok(Some(Lack::Buckets(capacity)));
        }
        if let Some(kind) = &need.kind
            && let Some(capacity) = self.kinds.lacks()
            && self.kinds.find(kind).is_none()
        {
            return Ok(Some(Lack::Kinds(capacity)));
        }
        Ok(self.park.lacks(need.park).map(Lack::Park))
    }

    /// Takes memory that lacked; gives back what is not needed any more, the block itself perhaps.
    ///
    /// # Safety
    /// `block` is one of `lack.layout()` that nothing else refers to.
    pub(super) unsafe fn supply(&mut self, lack: Lack, block: NonNull<u8>) -> Option<Spare> {
        match lack {
            // SAFETY: the caller's promise.
            Lack::Table(lack) => unsafe { self.table.supply(lack, block) },
            Lack::Buckets(capacity) => {
                // SAFETY: the caller's promise.
                let spare = unsafe { self.index.array().supply(capacity, block) };
                self.index.spread(&mut self.table);
                spare
            }
            // SAFETY: the caller's promise.
            Lack::Kinds(capacity) => unsafe { self.kinds.array().supply(capacity, block) },
            // SAFETY: the caller's promise.
            Lack::Park(capacity) => unsafe { self.park.array().supply(capacity, block) },
        }
    }

    /// All memory, a block a call, until `None`.
    pub(super) fn dismantle(&mut self) -> Option<Spare> {
        self.table
            .dismantle()
            .or_else(|| self.index.dismantle())
            .or_else(|| self.kinds.dismantle())
            .or_else(|| self.park.dismantle())
    }
}
