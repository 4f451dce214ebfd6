//! The shared free list: the position on the ring of cells, and the queues. Its lock is acquired once for some dozens of blocks.

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::fill::next;
use super::free_lists::{Queue, SmallStack};
use super::record::CellRecord;
use super::slot_state::SlotKind;
use super::table::{CHUNK, SideChunk, SideTable};
use crate::lock::Abandoned;

/// The unit of [`CellRecord::left_at`].
pub(super) const STEP: u32 = 16;
/// Dead chunks that keep their records: 2^17 dead blocks are remembered.
const REMEMBERED: u32 = 256;
/// Cells searched before the lock is released for other threads.
const LOOKED_AT: u32 = 2048;

/// The state of a [`SideChunk`] in the ring.
pub(super) mod standing {
    /// The lowest bit: it is in the list of retired chunks.
    pub(crate) const LISTED: u32 = 1;
    pub(crate) const ACTIVE: u32 = 0;
    /// Its pages are being returned to the system.
    pub(crate) const RETIRING: u32 = 2;
    /// All its cells are dead.
    pub(crate) const RETIRED: u32 = 4;
}

#[derive(Debug)]
pub(super) struct SharedFreeList {
    /// Cells passed on the ring, over all laps.
    position: u64,
    /// Freed blocks in quarantine.
    pub(super) quarantine: Queue,
    /// Ready pages without room in a thread's stack.
    pub(super) ready: Queue,
    /// Chunks that may serve other cells, the oldest first; numbers plus one.
    retired_first: u32,
    retired_last: u32,
    retired: u32,
    random: u64,
    /// A chunk that the ring has left without a block in it.
    pub(super) left: Option<u32>,
}

/// The result of a search along the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellStatus {
    /// Cells were claimed.
    Found,
    /// The records of this chunk are needed first.
    Missing(u32),
    /// Nothing yet.
    Further,
}

/// The ring during one search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring<'a> {
    pub(super) table: &'a SideTable,
    pub(super) cells: u32,
    /// Cells left, ever.
    pub(super) left: u64,
    /// Cells that must be left before a cell serves again.
    pub(super) distance: u32,
}

impl SharedFreeList {
    pub(super) const fn new(random: u64) -> Self {
        Self {
            position: 0,
            quarantine: Queue::EMPTY,
            ready: Queue::EMPTY,
            retired_first: 0,
            retired_last: 0,
            retired: 0,
            random,
            left: None,
        }
    }

    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// The cell that comes next.
    pub(super) fn at(&self, ring: Ring<'_>) -> u32 {
        (self.position % u64::from(ring.cells)) as u32
    }

    fn advance(&mut self, ring: Ring<'_>, by: u32) {
        let from = self.at(ring) / CHUNK;
        self.position += u64::from(by);
        if self.at(ring) / CHUNK != from
            && ring
                .table
                .chunk(from)
                .is_some_and(|chunk| chunk.busy.load(Relaxed) == 0)
        {
            self.left = Some(from);
        }
    }

    /// Claims up to `want` single cells, with a gap now and then: a program that always writes one stride too far does not always hit its
    /// next block.
    pub(super) fn some(
        &mut self,
        ring: Ring<'_>,
        want: usize,
        into: &mut SmallStack,
    ) -> CellStatus {
        let until = self.position + u64::from(LOOKED_AT);
        while self.position < until && into.len() < want && self.left.is_none() {
            let cell = self.at(ring);
            let Some(chunk) = self.chunk(ring, cell / CHUNK) else {
                return if into.len() > 0 {
                    CellStatus::Found
                } else {
                    CellStatus::Missing(cell / CHUNK)
                };
            };
            if is_closed(chunk) {
                self.advance(ring, to_end_of_chunk(ring, cell));
                continue;
            }
            if Self::claim(ring, chunk, cell) {
                into.push(cell);
            }
            let chance = next(&mut self.random) as u32;
            let gap = if chance & 7 == 0 { chance >> 3 & 3 } else { 0 };
            self.advance(ring, 1 + gap);
        }
        if into.len() > 0 {
            CellStatus::Found
        } else {
            CellStatus::Further
        }
    }

    /// Claims `count` cells in a row; `first` is the first of them.
    pub(super) fn run(&mut self, ring: Ring<'_>, count: u32, first: &mut u32) -> CellStatus {
        let until = self.position + u64::from(LOOKED_AT);
        'next: while self.position < until && self.left.is_none() {
            let cell = self.at(ring);
            if ring.cells - cell < count {
                self.advance(ring, ring.cells - cell);
                continue;
            }
            for at in cell..cell + count {
                let Some(chunk) = self.chunk(ring, at / CHUNK) else {
                    return CellStatus::Missing(at / CHUNK);
                };
                let free = !is_closed(chunk)
                    && ring
                        .table
                        .get(at)
                        .is_some_and(|record| Self::may_serve(ring, record));
                if !free {
                    self.advance(ring, at + 1 - cell);
                    continue 'next;
                }
            }
            for at in cell..cell + count {
                if let Some(chunk) = ring.table.chunk(at / CHUNK) {
                    Self::claim(ring, chunk, at);
                }
            }
            *first = cell;
            self.advance(ring, count);
            return CellStatus::Found;
        }
        CellStatus::Further
    }

    fn may_serve(ring: Ring<'_>, record: &CellRecord) -> bool {
        let kind = record.word().kind();
        let age = ((ring.left / u64::from(STEP)) as u32).wrapping_sub(record.left_at.load(Relaxed));
        kind == SlotKind::Never || kind.is_free() && age >= ring.distance / STEP
    }

    fn claim(ring: Ring<'_>, chunk: &SideChunk, cell: u32) -> bool {
        let Some(record) = chunk
            .records()
            .get((cell % CHUNK) as usize)
            .filter(|record| Self::may_serve(ring, record))
        else {
            return false;
        };
        chunk.busy.fetch_add(1, Relaxed);
        chunk.standing.fetch_and(standing::LISTED, Relaxed);
        record.set(record.word().with(SlotKind::Claimed));
        true
    }

    /// The chunk of these cells; if there is none, the oldest dead chunk takes its number.
    fn chunk<'a>(&mut self, ring: Ring<'a>, number: u32) -> Option<&'a SideChunk> {
        if let Some(chunk) = ring.table.chunk(number) {
            return Some(chunk);
        }
        while self.retired > REMEMBERED {
            let oldest = self.retired_first - 1;
            let Some(chunk) = ring.table.chunk(oldest) else {
                break;
            };
            self.retired_first = chunk.next.load(Relaxed);
            self.retired -= 1;
            if chunk.standing.swap(standing::ACTIVE, Relaxed) & !standing::LISTED
                == standing::RETIRED
            {
                ring.table.pass_on(oldest, number);
                return ring.table.chunk(number);
            }
        }
        None
    }

    /// Remembers that all cells of a chunk are dead.
    pub(super) fn retire(&mut self, table: &SideTable, number: u32) {
        let Some(chunk) = table.chunk(number) else {
            return;
        };
        if chunk
            .standing
            .swap(standing::RETIRED | standing::LISTED, Relaxed)
            & standing::LISTED
            != 0
        {
            return;
        }
        chunk.next.store(0, Relaxed);
        match table
            .chunk(self.retired_last.wrapping_sub(1))
            .filter(|_| self.retired > 0)
        {
            Some(last) => last.next.store(number + 1, Relaxed),
            None => self.retired_first = number + 1,
        }
        self.retired_last = number + 1;
        self.retired += 1;
    }
}

impl Abandoned for SharedFreeList {
    /// Cells in the queues are lost, and stay as they were.
    fn abandoned(&mut self) {
        self.quarantine = Queue::EMPTY;
        self.ready = Queue::EMPTY;
        (self.retired_first, self.retired_last, self.retired) = (0, 0, 0);
        self.left = None;
    }
}

/// True if no cell of the chunk can be claimed now.
fn is_closed(chunk: &SideChunk) -> bool {
    chunk.busy.load(Relaxed) == CHUNK || chunk.standing.load(Relaxed) & standing::RETIRING != 0
}

fn to_end_of_chunk(ring: Ring<'_>, cell: u32) -> u32 {
    (CHUNK - cell % CHUNK).min(ring.cells - cell)
}
