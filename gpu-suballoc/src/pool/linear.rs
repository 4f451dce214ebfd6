//! A linear pool: regions one behind the other, in one range.
//!
//! ```text
//!   |   free   | first | . | . | last |   free   |        what comes next lies behind the last,
//!   | . | last |     free     | first | . | . | - |        or, where that reaches the end, at the beginning again
//! ```
//!
//! Regions may go in any order; room comes back at the two ends alone. Freed in the order they came it is a ring, in the reverse a stack.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::blocks::NONE;
use super::size_class::RangeRef;
use crate::classes::{LiveSlot, SlotLocation};
use crate::error::GpuMisuse;
use crate::growable_vec::GrowableVec;
use crate::range::{MAX_GENERATION, align_up};

/// The regions of a linear pool, in the order they came.
pub(super) struct LinearRegions {
    pub(super) nodes: GrowableVec<LinearNode>,
    spare: u32,
    first: u32,
    last: u32,
    range: Option<(RangeRef, u64, u64)>,
}

/// A region, or room that comes back when its neighbour on one side is gone.
pub(super) struct LinearNode {
    offset: u64,
    size: u64,
    user_data: u32,
    generation: u32,
    before: u32,
    /// The next one; of a spare node, the next spare one.
    after: u32,
    is_live: bool,
}

/// Why nothing was taken.
pub(super) enum LinearShortage {
    /// Memory for nodes.
    Nodes(Layout),
    /// A range to lie in.
    Range,
    /// Room.
    Full,
}

/// A region that was taken.
pub(super) struct LinearSuballocation {
    pub(super) node: u32,
    pub(super) generation: u32,
    pub(super) range_ref: RangeRef,
    pub(super) offset: u64,
}

impl LinearRegions {
    pub(super) const fn new() -> Self {
        Self {
            nodes: GrowableVec::new(),
            spare: NONE,
            first: NONE,
            last: NONE,
            range: None,
        }
    }

    /// The range that everything lies in: where it is, its offset and size.
    pub(super) fn open(&mut self, home: RangeRef, offset: u64, size: u64) {
        self.range = Some((home, offset, size));
    }

    /// Takes `size` bytes, which are whole granules.
    pub(super) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        word: u32,
    ) -> Result<LinearSuballocation, LinearShortage> {
        let (home, base, length) = self.range.ok_or(LinearShortage::Range)?;
        let offset = self
            .find_room(base, base.saturating_add(length), size, alignment)
            .ok_or(LinearShortage::Full)?;
        if self.spare == NONE {
            if let Some(layout) = self.nodes.missing_capacity(1) {
                return Err(LinearShortage::Nodes(layout));
            }
            let made = LinearNode {
                offset: 0,
                size: 0,
                user_data: 0,
                generation: 0,
                before: NONE,
                after: NONE,
                is_live: false,
            };
            let number = self.nodes.len();
            self.nodes.push(made).map_err(|_| LinearShortage::Full)?;
            self.spare = number;
        }
        let (number, last) = (self.spare, self.last);
        let node = self.nodes.get_mut(number).ok_or(LinearShortage::Full)?;
        self.spare = node.after;
        let generation = node.generation.saturating_add(1);
        *node = LinearNode {
            offset,
            size,
            user_data: word,
            generation,
            before: last,
            after: NONE,
            is_live: true,
        };
        match self.nodes.get_mut(last) {
            Some(before) => before.after = number,
            None => self.first = number,
        }
        self.last = number;
        Ok(LinearSuballocation {
            node: number,
            generation,
            range_ref: home,
            offset,
        })
    }

    fn find_room(&self, base: u64, end: u64, size: u64, alignment: u64) -> Option<u64> {
        let fits = |from: u64, to: u64| {
            align_up(from, alignment)
                .filter(|at| at.checked_add(size).is_some_and(|behind| behind <= to))
        };
        let (Some(first), Some(last)) = (self.nodes.get(self.first), self.nodes.get(self.last))
        else {
            return fits(base, end);
        };
        let behind = last.offset.saturating_add(last.size);
        if last.offset < first.offset {
            return fits(behind, first.offset);
        }
        fits(behind, end).or_else(|| fits(base, first.offset))
    }

    fn node(&self, number: u32, generation: u32) -> Result<&LinearNode, GpuMisuse> {
        self.nodes
            .get(number)
            .filter(|node| node.is_live && node.generation == generation)
            .ok_or(GpuMisuse::Stale)
    }

    pub(super) fn find(
        &self,
        number: u32,
        generation: u32,
    ) -> Result<(u32, SlotLocation), GpuMisuse> {
        let node = self.node(number, generation)?;
        let (home, ..) = self.range.ok_or(GpuMisuse::Stale)?;
        Ok((
            home.block,
            SlotLocation {
                offset: node.offset,
                size: node.size,
                user_data: node.user_data,
            },
        ))
    }

    pub(super) fn set_user_data(
        &mut self,
        number: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<(), GpuMisuse> {
        self.node(number, generation)?;
        self.nodes
            .get_mut(number)
            .ok_or(GpuMisuse::Stale)?
            .user_data = user_data;
        Ok(())
    }

    /// Gives a region back that has `word`: its size.
    pub(super) fn free(
        &mut self,
        number: u32,
        generation: u32,
        word: u32,
    ) -> Result<u64, GpuMisuse> {
        let found = self.node(number, generation)?;
        if found.user_data != word {
            return Err(GpuMisuse::Held);
        }
        let size = found.size;
        if let Some(node) = self.nodes.get_mut(number) {
            node.is_live = false;
        }
        while let Some(node) = self.nodes.get(self.last).filter(|node| !node.is_live) {
            let (gone, before) = (self.last, node.before);
            self.last = before;
            match self.nodes.get_mut(before) {
                Some(node) => node.after = NONE,
                None => self.first = NONE,
            }
            self.recycle_node(gone);
        }
        while let Some(node) = self.nodes.get(self.first).filter(|node| !node.is_live) {
            let (gone, after) = (self.first, node.after);
            self.first = after;
            match self.nodes.get_mut(after) {
                Some(node) => node.before = NONE,
                None => self.last = NONE,
            }
            self.recycle_node(gone);
        }
        Ok(size)
    }

    /// A node whose generations are used up is not used again.
    fn recycle_node(&mut self, number: u32) {
        if let Some(node) = self
            .nodes
            .get_mut(number)
            .filter(|node| node.generation < MAX_GENERATION)
        {
            node.after = self.spare;
            self.spare = number;
        }
    }

    /// The range, where nothing lies in it any more: it is the caller's again.
    pub(super) fn close(&mut self) -> Option<RangeRef> {
        if self.first != NONE {
            return None;
        }
        self.range.take().map(|(home, ..)| home)
    }

    /// The live regions in order of their offsets.
    pub(super) fn walk(&self, see: &mut dyn FnMut(LiveSlot)) {
        // Where it wraps, what came after the wrap lies in front.
        let mut wrap = self.first;
        while let Some(node) = self.nodes.get(wrap) {
            if self
                .nodes
                .get(node.before)
                .is_some_and(|before| before.offset > node.offset)
            {
                break;
            }
            wrap = node.after;
        }
        for (from, to) in [(wrap, NONE), (self.first, wrap)] {
            let mut at = from;
            while let Some(node) = self.nodes.get(at).filter(|_| at != to) {
                if node.is_live {
                    see(LiveSlot {
                        group: 0,
                        slot: at,
                        generation: node.generation,
                        offset: node.offset,
                        size: node.size,
                        user_data: node.user_data,
                    });
                }
                at = node.after;
            }
        }
    }
}
