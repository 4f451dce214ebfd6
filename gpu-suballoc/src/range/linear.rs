//! Consecutive ranges of a space of offsets: the base of linear pools and linear virtual blocks.
//!
//! ```text
//!   lower end:  oldest <-> .. <-> newest        upper end:  newest <-> .. <-> oldest, from the end down
//! ```
//! Each end is a list of nodes in the order of allocation. A range that is freed in the middle stays in its list, dead, until all ranges on
//! one side of it are freed. A caller that forbids this calls [`LinearRanges::check_order`] first.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::rounding::{align_down, align_up};
use super::types::MAX_GENERATION;
use crate::block_algorithm::BlockAlgorithm;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;

const NONE: u32 = u32::MAX;

/// The ranges of one block.
#[derive(Debug)]
pub(crate) struct LinearRanges {
    nodes: GrowableVec<LinearNode, 16>,
    algorithm: BlockAlgorithm,
    granule: u64,
    /// The offsets that can be allocated: `start..end`.
    start: u64,
    end: u64,
    spare: u32,
    lower: LinearEnd,
    upper: LinearEnd,
    live: u32,
    used: u64,
}

/// The oldest and the newest range of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinearEnd {
    first: u32,
    last: u32,
}

/// A live range, or a dead range whose space is free when all ranges on one side of it are freed.
#[derive(Clone, Copy, Debug)]
struct LinearNode {
    offset: u64,
    /// The requested size.
    size: u64,
    user_data: u32,
    generation: u32,
    before: u32,
    /// The next newer node; in a spare node, the next spare node.
    after: u32,
    is_live: bool,
    is_upper: bool,
}

/// A live range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinearRange {
    pub(crate) node: u32,
    pub(crate) generation: u32,
    pub(crate) offset: u64,
    /// The requested size.
    pub(crate) asked: u64,
    /// In whole granules.
    pub(crate) size: u64,
    pub(crate) user_data: u32,
}

/// Why no range was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinearShortage {
    /// Memory for nodes is missing.
    Nodes(Layout),
    /// There is no room at that end.
    Full,
    /// The algorithm has no upper end.
    NoUpperEnd,
}

/// Why a range is not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinearRefusal {
    Stale,
    OtherUserData,
    OutOfOrder,
}

impl LinearEnd {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

impl LinearRanges {
    pub(crate) const fn new(algorithm: BlockAlgorithm, granule: u64, start: u64, end: u64) -> Self {
        Self {
            nodes: GrowableVec::new(),
            algorithm,
            granule,
            start,
            end,
            spare: NONE,
            lower: LinearEnd::EMPTY,
            upper: LinearEnd::EMPTY,
            live: 0,
            used: 0,
        }
    }

    /// Changes algorithm, granule and offsets. No range may be live.
    pub(crate) fn open(&mut self, algorithm: BlockAlgorithm, granule: u64, start: u64, end: u64) {
        (self.algorithm, self.granule) = (algorithm, granule);
        (self.start, self.end) = (start, end);
    }

    /// The memory to allocate before `more` ranges.
    pub(crate) fn missing_capacity(&self, more: u32) -> Option<Layout> {
        if more == 1 && self.spare != NONE {
            return None;
        }
        self.nodes.missing_capacity(more)
    }

    /// Whether there is memory for `more` ranges. Also false if the number of nodes would overflow.
    pub(crate) fn has_capacity(&self, more: u32) -> bool {
        let wanted = self.nodes.len().checked_add(more);
        more == 1 && self.spare != NONE
            || wanted.is_some_and(|wanted| wanted <= self.nodes.capacity())
    }

    /// Adds the missing memory. Returns memory that is not needed.
    pub(crate) fn grow_with(&mut self, memory: HostBlock) -> Option<HostBlock> {
        self.nodes.grow_with(memory)
    }

    /// Removes all ranges. Returns the memory, to be freed.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        (self.spare, self.live, self.used) = (NONE, 0, 0);
        (self.lower, self.upper) = (LinearEnd::EMPTY, LinearEnd::EMPTY);
        self.nodes.detach_memory()
    }

    /// Places `size` bytes, at least 1, at a multiple of `alignment`, a power of two.
    pub(crate) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        user_data: u32,
        upper: bool,
    ) -> Result<LinearRange, LinearShortage> {
        if upper && self.algorithm != BlockAlgorithm::DoubleStack {
            return Err(LinearShortage::NoUpperEnd);
        }
        let whole = align_up(size, self.granule).ok_or(LinearShortage::Full)?;
        let alignment = alignment.max(self.granule);
        let offset = if upper {
            self.find_upper(whole, alignment)
        } else {
            self.find_lower(whole, alignment)
        };
        let offset = offset.ok_or(LinearShortage::Full)?;
        let number = self.make_node()?;
        let end = *self.end_of(upper);
        let node = self.nodes.get_mut(number).ok_or(LinearShortage::Full)?;
        self.spare = node.after;
        let generation = node.generation.saturating_add(1);
        *node = LinearNode {
            offset,
            size,
            user_data,
            generation,
            before: end.last,
            after: NONE,
            is_live: true,
            is_upper: upper,
        };
        match self.nodes.get_mut(end.last) {
            Some(before) => before.after = number,
            None => self.end_of(upper).first = number,
        }
        self.end_of(upper).last = number;
        self.live = self.live.saturating_add(1);
        self.used = self.used.saturating_add(whole);
        Ok(LinearRange {
            node: number,
            generation,
            offset,
            asked: size,
            size: whole,
            user_data,
        })
    }

    /// The first spare node, which stays in its list. Creates one if there is none.
    fn make_node(&mut self) -> Result<u32, LinearShortage> {
        if self.spare == NONE {
            if let Some(layout) = self.nodes.missing_capacity(1) {
                return Err(LinearShortage::Nodes(layout));
            }
            let number = self.nodes.len();
            let spare = LinearNode {
                offset: 0,
                size: 0,
                user_data: 0,
                generation: 0,
                before: NONE,
                after: NONE,
                is_live: false,
                is_upper: false,
            };
            self.nodes.push(spare).map_err(|_| LinearShortage::Full)?;
            self.spare = number;
        }
        Ok(self.spare)
    }

    fn end_of(&mut self, upper: bool) -> &mut LinearEnd {
        if upper {
            &mut self.upper
        } else {
            &mut self.lower
        }
    }

    fn end_offset(&self, node: &LinearNode) -> u64 {
        node.offset
            .saturating_add(align_up(node.size, self.granule).unwrap_or(u64::MAX))
    }

    /// The lowest offset of the upper end.
    fn top(&self) -> u64 {
        self.nodes
            .get(self.upper.last)
            .map_or(self.end, |node| node.offset)
    }

    fn find_lower(&self, size: u64, alignment: u64) -> Option<u64> {
        let fits = |from: u64, to: u64| {
            align_up(from, alignment)
                .filter(|at| at.checked_add(size).is_some_and(|behind| behind <= to))
        };
        let (Some(first), Some(last)) = (
            self.nodes.get(self.lower.first),
            self.nodes.get(self.lower.last),
        ) else {
            return fits(self.start, self.top());
        };
        let behind = self.end_offset(last);
        if self.algorithm != BlockAlgorithm::Ring {
            return fits(behind, self.top());
        }
        if last.offset < first.offset {
            return fits(behind, first.offset);
        }
        fits(behind, self.end).or_else(|| fits(self.start, first.offset))
    }

    fn find_upper(&self, size: u64, alignment: u64) -> Option<u64> {
        let bottom = self
            .nodes
            .get(self.lower.last)
            .map_or(self.start, |last| self.end_offset(last));
        self.top()
            .checked_sub(size)
            .and_then(|offset| align_down(offset, alignment))
            .filter(|offset| *offset >= bottom)
    }

    /// Bytes that can be allocated now; in a ring they may be two pieces. Constant time.
    pub(crate) fn available_bytes(&self) -> u64 {
        let (Some(first), Some(last)) = (
            self.nodes.get(self.lower.first),
            self.nodes.get(self.lower.last),
        ) else {
            return self.top().saturating_sub(self.start);
        };
        let behind = self.end_offset(last);
        if self.algorithm != BlockAlgorithm::Ring {
            self.top().saturating_sub(behind)
        } else if last.offset < first.offset {
            first.offset.saturating_sub(behind)
        } else {
            let in_front = first.offset.saturating_sub(self.start);
            self.end.saturating_sub(behind).saturating_add(in_front)
        }
    }

    fn node(&self, number: u32, generation: u32) -> Result<&LinearNode, LinearRefusal> {
        self.nodes
            .get(number)
            .filter(|node| node.is_live && node.generation == generation)
            .ok_or(LinearRefusal::Stale)
    }

    fn range(&self, number: u32, node: &LinearNode) -> LinearRange {
        LinearRange {
            node: number,
            generation: node.generation,
            offset: node.offset,
            asked: node.size,
            size: align_up(node.size, self.granule).unwrap_or(u64::MAX),
            user_data: node.user_data,
        }
    }

    pub(crate) fn get(&self, number: u32, generation: u32) -> Result<LinearRange, LinearRefusal> {
        let node = self.node(number, generation)?;
        Ok(self.range(number, node))
    }

    /// The live range in a node.
    pub(crate) fn live(&self, number: u32) -> Option<LinearRange> {
        let node = self.nodes.get(number).filter(|node| node.is_live)?;
        Some(self.range(number, node))
    }

    pub(crate) fn set_user_data(
        &mut self,
        number: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<(), LinearRefusal> {
        self.node(number, generation)?;
        if let Some(node) = self.nodes.get_mut(number) {
            node.user_data = user_data;
        }
        Ok(())
    }

    /// Checks that a range is the next to free: the newest of its end or, in a ring, the oldest.
    pub(crate) fn check_order(&self, number: u32, generation: u32) -> Result<(), LinearRefusal> {
        let node = self.node(number, generation)?;
        if self.next_of(node.is_upper) == number {
            Ok(())
        } else {
            Err(LinearRefusal::OutOfOrder)
        }
    }

    /// As [`check_order`](Self::check_order), for ranges that are freed in sequence, each at most once. The error has the index of the
    /// first range that cannot be freed.
    pub(crate) fn check_orders(
        &self,
        names: impl Iterator<Item = (u32, u32)>,
    ) -> Result<(), (usize, LinearRefusal)> {
        // The next range to free at each end, after the ranges checked so far.
        let (mut next_lower, mut next_upper) = (self.next_of(false), self.next_of(true));
        for (number, (node, generation)) in names.enumerate() {
            let found = self
                .node(node, generation)
                .map_err(|stale| (number, stale))?;
            let turn = if found.is_upper {
                &mut next_upper
            } else {
                &mut next_lower
            };
            if *turn != node {
                // Also a range that is listed twice.
                return Err((number, LinearRefusal::OutOfOrder));
            }
            *turn = if self.algorithm == BlockAlgorithm::Ring {
                found.after
            } else {
                found.before
            };
        }
        Ok(())
    }

    /// The next range to free at an end.
    fn next_of(&self, upper: bool) -> u32 {
        if upper {
            self.upper.last
        } else if self.algorithm == BlockAlgorithm::Ring {
            self.lower.first
        } else {
            self.lower.last
        }
    }

    /// Frees a range and returns it. If `user_data` is given, the range must have this user data. A range freed out of order leaves no room
    /// yet.
    pub(crate) fn free(
        &mut self,
        number: u32,
        generation: u32,
        user_data: Option<u32>,
    ) -> Result<LinearRange, LinearRefusal> {
        let freed = self.get(number, generation)?;
        if user_data.is_some_and(|wanted| wanted != freed.user_data) {
            return Err(LinearRefusal::OtherUserData);
        }
        let Some(node) = self.nodes.get_mut(number) else {
            return Err(LinearRefusal::Stale);
        };
        node.is_live = false;
        let upper = node.is_upper;
        self.live = self.live.saturating_sub(1);
        self.used = self.used.saturating_sub(freed.size);
        self.drop_dead(upper);
        Ok(freed)
    }

    /// Removes dead ranges from both ends of a list.
    fn drop_dead(&mut self, upper: bool) {
        loop {
            let last = self.end_of(upper).last;
            let Some(node) = self.nodes.get(last).filter(|node| !node.is_live) else {
                break;
            };
            let before = node.before;
            self.end_of(upper).last = before;
            match self.nodes.get_mut(before) {
                Some(node) => node.after = NONE,
                None => self.end_of(upper).first = NONE,
            }
            self.recycle_node(last);
        }
        loop {
            let first = self.end_of(upper).first;
            let Some(node) = self.nodes.get(first).filter(|node| !node.is_live) else {
                break;
            };
            let after = node.after;
            self.end_of(upper).first = after;
            match self.nodes.get_mut(after) {
                Some(node) => node.before = NONE,
                None => self.end_of(upper).last = NONE,
            }
            self.recycle_node(first);
        }
    }

    /// Makes a node spare, unless its generations are used up.
    fn recycle_node(&mut self, number: u32) {
        let spare = self.spare;
        if let Some(node) = self
            .nodes
            .get_mut(number)
            .filter(|node| node.generation < MAX_GENERATION)
        {
            node.after = spare;
            self.spare = number;
        }
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self) {
        for upper in [false, true] {
            let mut at = self.end_of(upper).first;
            while let Some(node) = self.nodes.get_mut(at) {
                node.is_live = false;
                at = node.after;
            }
            self.drop_dead(upper);
        }
        (self.live, self.used) = (0, 0);
    }

    /// Whether both lists are empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.lower.first == NONE && self.upper.first == NONE
    }

    /// The number of live ranges, and their bytes in whole granules.
    pub(crate) fn totals(&self) -> (u32, u64) {
        (self.live, self.used)
    }

    /// Bytes of host memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.nodes.capacity()).saturating_mul(size_of::<LinearNode>() as u64)
    }

    /// Visits the live ranges in order of offset.
    pub(crate) fn for_each(&self, see: &mut dyn FnMut(LinearRange)) {
        // After a wrap, the newer ranges have the lower offsets.
        let mut wrap = self.lower.first;
        while let Some(node) = self.nodes.get(wrap) {
            let before = self.nodes.get(node.before);
            if before.is_some_and(|before| before.offset > node.offset) {
                break;
            }
            wrap = node.after;
        }
        for (from, to) in [(wrap, NONE), (self.lower.first, wrap)] {
            let mut at = from;
            while let Some(node) = self.nodes.get(at).filter(|_| at != to) {
                if node.is_live {
                    see(self.range(at, node));
                }
                at = node.after;
            }
        }
        let mut at = self.upper.last;
        while let Some(node) = self.nodes.get(at) {
            if node.is_live {
                see(self.range(at, node));
            }
            at = node.before;
        }
    }
}
