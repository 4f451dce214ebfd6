//! What the records' lock guards, and what it may have to be given from outside.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::array::{Array, Spare};
use super::foreign::Foreign;
use super::index::Index;
use super::kinds::{Kind, Kinds};
use super::parked::Park;
use super::table::Table;
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
    /// Up to two.
    pub(super) slots: u32,
    pub(super) bucket: bool,
    pub(super) kind: Option<Kind>,
}

/// Memory that lacks for it.
#[derive(Clone, Copy)]
pub(super) enum Lack {
    Directory(u32),
    Chunk,
    Buckets(u32),
    Kinds(u32),
}

/// All that lacks for one call, in the order in which it is supplied.
pub(super) type Lacks = [Option<Lack>; 4];

impl Lack {
    /// `None` when it is more than can be addressed.
    pub(super) fn layout(self) -> Option<Layout> {
        match self {
            Self::Directory(capacity) => Table::directory_layout(capacity),
            Self::Chunk => Some(Table::CHUNK),
            Self::Buckets(capacity) => Array::<u32>::layout(capacity),
            Self::Kinds(capacity) => Array::<Kind>::layout(capacity),
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

    pub(super) fn lacks(&self, need: &Need) -> Result<Lacks, Limit> {
        let table = self.table.lacks(need.slots)?;
        let buckets = if need.bucket { self.index.lacks() } else { None };
        let kinds = need.kind.and_then(|kind| self.kinds.lacks().filter(|_| self.kinds.find(&kind).is_none()));
        Ok([
            table.directory.map(Lack::Directory),
            table.chunk.then_some(Lack::Chunk),
            buckets.map(Lack::Buckets),
            kinds.map(Lack::Kinds),
        ])
    }

    /// Takes memory that lacked; gives back what is not needed any more, the block itself perhaps.
    ///
    /// # Safety
    /// `block` is one of `lack.layout()` that nothing else refers to.
    pub(super) unsafe fn supply(&mut self, lack: Lack, block: NonNull<u8>) -> Option<Spare> {
        match lack {
            // SAFETY: the caller's promise.
            Lack::Directory(capacity) => unsafe { self.table.supply_directory(capacity, block) },
            // SAFETY: the caller's promise.
            Lack::Chunk => unsafe { self.table.supply_chunk(block) },
            Lack::Buckets(capacity) => {
                // SAFETY: the caller's promise.
                let spare = unsafe { self.index.array().supply(capacity, block) };
                self.index.spread(&mut self.table);
                spare
            }
            // SAFETY: the caller's promise.
            Lack::Kinds(capacity) => unsafe { self.kinds.array().supply(capacity, block) },
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
