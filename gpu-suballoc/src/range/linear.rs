//! Consecutive ranges of a space of offsets: the base of linear pools and linear virtual blocks.
//!
//! ```text
//!   lower end:  oldest .. newest        upper end:  newest .. oldest, from the end down
//! ```
//! Each end is a table of ranges in the order of allocation. A range that is freed in the middle stays in its table, dead, until all ranges
//! on one side of it are freed. A caller that forbids this calls [`LinearRanges::check_order`] first.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::allocator::RangeId;
use super::allocator::next_serial;
use super::rounding::{align_down, align_up};
use crate::growable_vec::GrowableVec;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::request::BlockAlgorithm;

/// A bit of the positions of the upper end.
const UPPER: u32 = 1 << 31;

/// The ranges of one block.
#[derive(Debug)]
pub(crate) struct LinearRanges {
    algorithm: BlockAlgorithm,
    granule: u64,
    /// The offsets that can be allocated: `start..end`.
    start: u64,
    end: u64,
    lower: LinearEnd,
    upper: LinearEnd,
    live: u32,
    used: u64,
    /// Of the last range. No two ranges have the same.
    pub(super) serial: u64,
    /// The number of further ranges at each end for which there is memory in reserve.
    pub(super) reserve: u32,
}

/// An end: the ranges from `first` on. Before it are freed ones; the positions count them.
#[derive(Debug)]
struct LinearEnd {
    ranges: GrowableVec<LinearEntry, 16>,
    first: u32,
    /// The position of the first entry of `ranges`, modulo [`UPPER`].
    base: u32,
}

#[derive(Clone, Copy, Debug)]
struct LinearEntry {
    offset: u64,
    /// The bytes that it takes, less what fills the last granule.
    size: u64,
    /// The requested bytes.
    asked: u64,
    serial: u64,
    user_data: u32,
    is_live: bool,
}

/// A live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinearRange {
    /// The node is the position in its end.
    pub(crate) id: RangeId,
    pub(crate) offset: u64,
    /// The requested size.
    pub(crate) asked: u64,
    /// In whole granules.
    pub(crate) size: u64,
    pub(crate) user_data: u32,
}

/// Why a range is not allocated or not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinearError {
    /// There is no room at that end.
    Full,
    /// The algorithm has no upper end.
    NoUpperEnd,
    Stale,
    OutOfOrder,
}

impl LinearEnd {
    const EMPTY: Self = Self {
        ranges: GrowableVec::new(),
        first: 0,
        base: 0,
    };

    /// In order of allocation.
    fn entries(&self) -> &[LinearEntry] {
        (self.ranges.as_slice())
            .get(self.first as usize..)
            .unwrap_or_default()
    }

    /// The index of a position.
    fn index(&self, position: u32) -> u32 {
        position.wrapping_sub(self.base) & !UPPER
    }

    fn position(&self, index: u32) -> u32 {
        self.base.wrapping_add(index) & !UPPER
    }

    /// What to allocate before `more` ranges. Ranges move to the start of the memory where that makes room for as many.
    fn missing(&self, more: u32) -> Option<Layout> {
        let (capacity, len) = (self.ranges.capacity(), self.ranges.len());
        let room_behind = capacity - len;
        if room_behind >= more || room_behind + self.first >= more.max(capacity / 2 + 1) {
            return None;
        }
        self.ranges.missing_capacity(more)
    }

    /// Appends a range. Returns its position; `None` without memory.
    fn push(&mut self, entry: LinearEntry) -> Option<u32> {
        if self.ranges.len() == self.ranges.capacity() && self.first > 0 {
            let (first, len) = (self.first as usize, self.ranges.len());
            self.ranges.as_mut_slice().copy_within(first.., 0);
            self.ranges.truncate(len - self.first);
            self.base = self.position(self.first);
            self.first = 0;
        }
        let position = self.position(self.ranges.len());
        self.ranges.push(entry).ok()?;
        Some(position)
    }

    /// Removes dead ranges at both sides.
    fn remove_dead(&mut self) {
        while self.entries().last().is_some_and(|last| !last.is_live) {
            self.ranges.pop();
        }
        while self.entries().first().is_some_and(|first| !first.is_live) {
            self.first += 1;
        }
        if self.entries().is_empty() {
            self.base = self.position(self.ranges.len());
            self.ranges.truncate(0);
            self.first = 0;
        }
    }
}

impl LinearRanges {
    pub(crate) const fn new(algorithm: BlockAlgorithm, granule: u64, start: u64, end: u64) -> Self {
        Self {
            algorithm,
            granule,
            start,
            end,
            lower: LinearEnd::EMPTY,
            upper: LinearEnd::EMPTY,
            live: 0,
            used: 0,
            serial: u64::MAX,
            reserve: 1,
        }
    }

    /// Changes algorithm, granule and offsets. No range may be live.
    pub(crate) fn open(&mut self, algorithm: BlockAlgorithm, granule: u64, start: u64, end: u64) {
        (self.algorithm, self.granule) = (algorithm, granule);
        (self.start, self.end) = (start, end);
    }

    /// Places `size` bytes, at least 1, at a multiple of `alignment`, a power of two. `asked` of them were requested.
    pub(crate) fn allocate(
        &mut self,
        (size, asked): (u64, u64),
        alignment: u64,
        user_data: u32,
        upper: bool,
    ) -> Result<LinearRange, LinearError> {
        if upper && self.algorithm != BlockAlgorithm::DoubleStack {
            return Err(LinearError::NoUpperEnd);
        }
        let whole = align_up(size, self.granule).ok_or(LinearError::Full)?;
        let alignment = alignment.max(self.granule);
        let offset = if upper {
            self.find_upper(whole, alignment)
        } else {
            self.find_lower(whole, alignment)
        };
        let entry = LinearEntry {
            offset: offset.ok_or(LinearError::Full)?,
            size,
            asked,
            serial: next_serial(self.serial),
            user_data,
            is_live: true,
        };
        let position = self.end_mut(upper).push(entry).ok_or(LinearError::Full)?;
        self.serial = entry.serial;
        self.live += 1;
        self.used = self.used.saturating_add(whole);
        Ok(self.range(position | if upper { UPPER } else { 0 }, &entry))
    }

    fn end(&self, upper: bool) -> &LinearEnd {
        if upper { &self.upper } else { &self.lower }
    }

    fn end_mut(&mut self, upper: bool) -> &mut LinearEnd {
        if upper {
            &mut self.upper
        } else {
            &mut self.lower
        }
    }

    fn size_of(&self, entry: &LinearEntry) -> u64 {
        align_up(entry.size, self.granule).unwrap_or(u64::MAX)
    }

    /// The offset of the oldest range of the lower end, and the end of the newest one.
    fn bounds(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.lower.entries().first()?, self.lower.entries().last()?);
        Some((first.offset, last.offset.saturating_add(self.size_of(last))))
    }

    /// The lowest offset of the upper end.
    fn top(&self) -> u64 {
        (self.upper.entries().last()).map_or(self.end, |newest| newest.offset)
    }

    fn find_lower(&self, size: u64, alignment: u64) -> Option<u64> {
        let fits = |from: u64, to: u64| {
            align_up(from, alignment)
                .filter(|at| at.checked_add(size).is_some_and(|behind| behind <= to))
        };
        let Some((first, behind)) = self.bounds() else {
            return fits(self.start, self.top());
        };
        if self.algorithm != BlockAlgorithm::Ring {
            fits(behind, self.top())
        } else if behind <= first {
            fits(behind, first)
        } else {
            fits(behind, self.end).or_else(|| fits(self.start, first))
        }
    }

    fn find_upper(&self, size: u64, alignment: u64) -> Option<u64> {
        let bottom = self.bounds().map_or(self.start, |(_, behind)| behind);
        self.top()
            .checked_sub(size)
            .and_then(|offset| align_down(offset, alignment))
            .filter(|offset| *offset >= bottom)
    }

    /// Bytes that can be allocated now; in a ring they may be two pieces. Constant time.
    pub(crate) fn available_bytes(&self) -> u64 {
        let Some((first, behind)) = self.bounds() else {
            return self.top().saturating_sub(self.start);
        };
        if self.algorithm != BlockAlgorithm::Ring {
            self.top().saturating_sub(behind)
        } else if behind <= first {
            first - behind
        } else {
            let in_front = first.saturating_sub(self.start);
            self.end.saturating_sub(behind).saturating_add(in_front)
        }
    }

    fn range(&self, node: u32, entry: &LinearEntry) -> LinearRange {
        LinearRange {
            id: RangeId {
                node,
                serial: entry.serial,
            },
            offset: entry.offset,
            asked: entry.asked,
            size: self.size_of(entry),
            user_data: entry.user_data,
        }
    }

    /// The live range at a position.
    pub(crate) fn live(&self, node: u32) -> Option<LinearRange> {
        let end = self.end(node & UPPER != 0);
        let index = end.index(node);
        let entry = end.ranges.get(index).filter(|_| index >= end.first)?;
        entry.is_live.then(|| self.range(node, entry))
    }

    pub(crate) fn get(&self, id: RangeId) -> Result<LinearRange, LinearError> {
        self.live(id.node)
            .filter(|found| found.id == id)
            .ok_or(LinearError::Stale)
    }

    fn entry_mut(&mut self, id: RangeId) -> Result<&mut LinearEntry, LinearError> {
        self.get(id)?;
        let end = self.end_mut(id.node & UPPER != 0);
        let index = end.index(id.node);
        end.ranges.get_mut(index).ok_or(LinearError::Stale)
    }

    pub(crate) fn set_user_data(&mut self, id: RangeId, user_data: u32) -> Result<(), LinearError> {
        self.entry_mut(id)?.user_data = user_data;
        Ok(())
    }

    /// Checks that a range is the next to be freed: the newest of its end or, in a ring, the oldest.
    pub(crate) fn check_order(&self, id: RangeId) -> Result<(), LinearError> {
        self.get(id)?;
        let end = self.end(id.node & UPPER != 0);
        let next = if self.algorithm == BlockAlgorithm::Ring {
            Some(end.first)
        } else {
            end.ranges.len().checked_sub(1)
        };
        if next == Some(end.index(id.node)) {
            Ok(())
        } else {
            Err(LinearError::OutOfOrder)
        }
    }

    /// Frees a range and returns it. A range freed out of order leaves no room yet.
    pub(crate) fn free(&mut self, id: RangeId) -> Result<LinearRange, LinearError> {
        let freed = self.get(id)?;
        self.entry_mut(id)?.is_live = false;
        self.live -= 1;
        self.used = self.used.saturating_sub(freed.size);
        self.end_mut(id.node & UPPER != 0).remove_dead();
        Ok(freed)
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self) {
        for end in [&mut self.lower, &mut self.upper] {
            for entry in end.ranges.as_mut_slice() {
                entry.is_live = false;
            }
            end.remove_dead();
        }
        (self.live, self.used) = (0, 0);
    }

    /// Whether both ends are empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.lower.entries().is_empty() && self.upper.entries().is_empty()
    }

    /// The number of live ranges, and their bytes in whole granules.
    pub(crate) fn totals(&self) -> (u32, u64) {
        (self.live, self.used)
    }

    /// Bytes of host memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.lower.ranges.memory_bytes() + self.upper.ranges.memory_bytes()
    }

    /// Visits the live ranges in order of offset.
    pub(crate) fn for_each(&self, visit: &mut dyn FnMut(LinearRange)) {
        let mut visit = |end: &LinearEnd, upper: u32, index: usize| {
            let number = end.first + index as u32;
            if let Some(entry) = end.ranges.get(number).filter(|entry| entry.is_live) {
                visit(self.range(end.position(number) | upper, entry));
            }
        };
        let lower = self.lower.entries();
        // After a wrap, the newer ranges have the lower offsets.
        let newer = (lower.windows(2))
            .position(|pair| matches!(pair, [one, next] if next.offset < one.offset))
            .map_or(0, |last| last + 1);
        for index in (newer..lower.len()).chain(0..newer) {
            visit(&self.lower, 0, index);
        }
        for index in (0..self.upper.entries().len()).rev() {
            visit(&self.upper, UPPER, index);
        }
    }
}

impl GrowableTable for LinearRanges {
    fn missing(&self) -> Option<Layout> {
        if !self.algorithm.is_linear() {
            return None;
        }
        let has_upper = self.algorithm == BlockAlgorithm::DoubleStack;
        (self.lower.missing(self.reserve))
            .or_else(|| self.upper.missing(self.reserve).filter(|_| has_upper))
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        if self.lower.missing(self.reserve).is_some() {
            self.lower.ranges.grow_with(block)
        } else {
            self.upper.ranges.grow_with(block)
        }
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.clear();
        (self.lower.ranges.detach_memory()).or_else(|| self.upper.ranges.detach_memory())
    }
}
