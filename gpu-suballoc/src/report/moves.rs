//! Which regions to move so that whole blocks become free: arithmetic over a picture.
//!
//! ```text
//!   before   A |##  #     |   B |### #### #|        the emptiest block goes first, into the fullest that has room
//!   moves    A's two regions -> holes of B
//!   after    A |          |   B |#########|         A can be given back
//! ```
//!
//! A move goes only to bytes that are free *now*, and no two moves share a byte, neither as source nor as destination: they can
//! be carried out in any order, or in part. A block is planned as a whole or not at all, since half an empty block frees nothing.

#![forbid(unsafe_code)]

use alloc_core::{HostError, HostSource, TryVec};

use super::memory_map::MemoryMap;
use super::view::{BlockContent, BlockView, RangePlacement, RangeUse, RangeView};
use crate::id::RegionId;

/// A place in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovePlace {
    /// The pool's number.
    pub pool: u32,
    /// The block's number within it.
    pub block: u32,
    /// The `VkDeviceMemory`.
    pub memory: u64,
    /// Bytes from the block's start.
    pub offset: u64,
}

/// One region that is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub region: RegionId,
    /// Where it lies.
    pub from: MovePlace,
    /// Where there is room for it: of the same pool, so of the same memory type, and aligned as it needs.
    pub to: MovePlace,
    /// Bytes to copy: the whole region, padding included.
    pub size: u64,
}

/// How far a plan may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveLimits {
    /// So many moves at most.
    pub moves: usize,
    /// So many bytes at most.
    pub bytes: u64,
}

impl Default for MoveLimits {
    /// No limit.
    fn default() -> Self {
        Self {
            moves: usize::MAX,
            bytes: u64::MAX,
        }
    }
}

/// What to move, and what that frees.
pub struct MovePlan<A: HostSource> {
    moves: TryVec<Move, A>,
    freed_blocks: u32,
    freed_bytes: u64,
}

impl<A: HostSource> MovePlan<A> {
    /// The moves, block by block; they may be carried out in any order.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        self.moves.as_slice()
    }

    /// How many blocks hold nothing when all moves are done.
    #[must_use]
    pub const fn freed_blocks(&self) -> u32 {
        self.freed_blocks
    }

    /// Their bytes.
    #[must_use]
    pub const fn freed_bytes(&self) -> u64 {
        self.freed_bytes
    }

    /// Bytes to copy.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        self.moves()
            .iter()
            .fold(0, |sum, each| sum.saturating_add(each.size))
    }
}

/// Free bytes of a block that may receive.
#[derive(Clone, Copy)]
struct PlanHole {
    block: u32,
    offset: u64,
    size: u64,
}

/// A block, by how full it is.
#[derive(Clone, Copy)]
struct Candidate {
    block: u32,
    used: u64,
    /// It gives its regions away, or is as good as gone.
    is_drained: bool,
    /// A planned move ends in it: it has to stay.
    receives: bool,
}

impl<A: HostSource + Clone> MemoryMap<A> {
    /// Plans moves from the emptiest blocks into holes of fuller ones of the same pool. The plan lies in the picture's memory.
    ///
    /// `granularity` is the device's `bufferImageGranularity`: in blocks of mixed content a region only moves to pages that it
    /// has for itself. Left where they are: regions that are mapped, or have crops, wrapped and dedicated ones, and what lies in
    /// transient pages, slabs and linear blocks; so a block with such a region is none that can be emptied. A region whose
    /// alignment nobody wrote down goes only where it lies at least as well aligned as now.
    ///
    /// # Errors
    /// The memory of the plan was refused.
    pub fn moves(&self, granularity: u64, limits: MoveLimits) -> Result<MovePlan<A>, HostError> {
        let memory = self.blocks.allocator().clone();
        let mut plan = MovePlan {
            moves: TryVec::new_in(memory.clone()),
            freed_blocks: 0,
            freed_bytes: 0,
        };
        let mut order = TryVec::try_with_capacity_in(self.blocks().len(), memory.clone())?;
        let mut holes = TryVec::new_in(memory);
        for (number, (block, ranges)) in (0u32..).zip(self.blocks_with_ranges()) {
            if matches!(
                block.content,
                BlockContent::Wrapped | BlockContent::Dedicated
            ) {
                continue;
            }
            let (_, bytes, padding) = Self::used(ranges);
            order.try_push(Candidate {
                block: number,
                used: bytes.saturating_add(padding),
                is_drained: false,
                receives: false,
            })?;
            let free = ranges
                .iter()
                .filter(|range| range.range_use == RangeUse::Free);
            holes.try_extend(free.map(|range| PlanHole {
                block: number,
                offset: range.offset,
                size: range.size,
            }))?;
        }
        // The emptiest first; of equals the newest, which the pool fills last.
        order
            .as_mut_slice()
            .sort_unstable_by_key(|each| (each.used, u32::MAX - each.block));
        for at in 0..order.as_slice().len() {
            let (moves, bytes) = (plan.moves().len(), plan.moved_bytes());
            let left = MoveLimits {
                moves: limits.moves.saturating_sub(moves),
                bytes: limits.bytes.saturating_sub(bytes),
            };
            self.plan_block(at, granularity, left, &mut order, &mut holes, &mut plan)?;
        }
        Ok(plan)
    }

    /// Plans all regions of one block away, or none.
    fn plan_block(
        &self,
        at: usize,
        granularity: u64,
        left: MoveLimits,
        order: &mut TryVec<Candidate, A>,
        holes: &mut TryVec<PlanHole, A>,
        plan: &mut MovePlan<A>,
    ) -> Result<(), HostError> {
        let Some(source) = order.as_slice().get(at).copied() else {
            return Ok(());
        };
        let Some(block) = self.blocks().get(source.block as usize) else {
            return Ok(());
        };
        let ranges = self.ranges(block);
        let regions = || {
            ranges
                .iter()
                .filter(|range| range.range_use == RangeUse::Region)
        };
        let movable = |range: &RangeView| is_movable(range) && (range.id.is_some());
        if source.used == 0
            || source.receives
            || source.used > left.bytes
            || regions().count() > left.moves
        {
            return Ok(());
        }
        if !regions().all(movable)
            || ranges
                .iter()
                .any(|range| matches!(range.range_use, RangeUse::Spent | RangeUse::Reusable))
        {
            return Ok(());
        }
        // What is undone when a region finds no hole.
        let (before, saved) = (plan.moves().len(), holes.try_clone()?);
        set(order, at, |each| each.is_drained = true);
        for range in regions() {
            let Some(region) = range.id else { continue };
            let Some((hole, offset)) =
                self.hole_for(block, range, granularity, order, holes.as_slice())
            else {
                plan.moves.truncate(before);
                *holes = saved;
                set(order, at, |each| each.is_drained = false);
                return Ok(());
            };
            let size = range.size;
            let place = |to: &BlockView, offset| MovePlace {
                pool: to.pool,
                block: to.block,
                memory: to.memory,
                offset,
            };
            let Some(taken) = holes.as_slice().get(hole).copied() else {
                continue;
            };
            let Some(to) = self.blocks().get(taken.block as usize) else {
                continue;
            };
            plan.moves.try_push(Move {
                region,
                from: place(block, range.offset),
                to: place(to, offset),
                size,
            })?;
            split(holes, hole, offset, footprint(block, size, granularity))?;
        }
        let receivers = plan.moves().get(before..).unwrap_or_default();
        for candidate in order.as_mut_slice() {
            let Some(to) = self.blocks().get(candidate.block as usize) else {
                continue;
            };
            candidate.receives |= receivers
                .iter()
                .any(|each| (each.to.pool, each.to.block) == (to.pool, to.block));
        }
        plan.freed_blocks = plan.freed_blocks.saturating_add(1);
        plan.freed_bytes = plan.freed_bytes.saturating_add(block.size);
        Ok(())
    }

    /// The smallest hole that fits, of the fullest block that has one; with where the region would begin.
    fn hole_for(
        &self,
        block: &BlockView,
        range: &RangeView,
        granularity: u64,
        order: &TryVec<Candidate, A>,
        holes: &[PlanHole],
    ) -> Option<(usize, u64)> {
        let alignment = alignment_of(range).max(if block.content == BlockContent::Mixed {
            granularity
        } else {
            1
        });
        let need = footprint(block, range.size, granularity);
        order
            .as_slice()
            .iter()
            .rev()
            .filter(|each| !each.is_drained && each.used > 0)
            .find_map(|each| {
                let to = self.blocks().get(each.block as usize)?;
                if (to.pool, to.memory_type, to.content, to.is_custom)
                    != (
                        block.pool,
                        block.memory_type,
                        block.content,
                        block.is_custom,
                    )
                {
                    return None;
                }
                let of_it = (0usize..)
                    .zip(holes)
                    .filter(|(_, hole)| hole.block == each.block);
                let fitting = of_it.filter_map(|(index, hole)| {
                    let offset = hole.offset.checked_next_multiple_of(alignment)?;
                    let end = offset.checked_add(need)?;
                    (end <= hole.offset.saturating_add(hole.size))
                        .then_some((hole.size, index, offset))
                });
                fitting.min().map(|(_, index, offset)| (index, offset))
            })
    }
}

fn is_movable(range: &RangeView) -> bool {
    range.placement == RangePlacement::General && range.crops == 0 && range.maps == 0
}

/// The alignment that is known, or that of where the region lies; at offset 0 that is all there is.
fn alignment_of(range: &RangeView) -> u64 {
    match (range.alignment, range.offset) {
        (0, 0) => 1 << 63,
        (0, offset) => 1 << offset.trailing_zeros(),
        (known, _) => known,
    }
}

/// Bytes that have to be free: where granularity counts and contents are mixed, whole pages.
fn footprint(block: &BlockView, size: u64, granularity: u64) -> u64 {
    match block.content {
        BlockContent::Mixed => size
            .checked_next_multiple_of(granularity.max(1))
            .unwrap_or(u64::MAX),
        _ => size,
    }
}

/// Takes `size` bytes from `offset` on out of a hole; what is left in front and behind stays.
fn split<A: HostSource>(
    holes: &mut TryVec<PlanHole, A>,
    hole: usize,
    offset: u64,
    size: u64,
) -> Result<(), HostError> {
    let Some(old) = holes.swap_remove(hole) else {
        return Ok(());
    };
    let (front, end) = (
        offset.saturating_sub(old.offset),
        offset.saturating_add(size),
    );
    let behind = old.offset.saturating_add(old.size).saturating_sub(end);
    let parts = [
        PlanHole { size: front, ..old },
        PlanHole {
            block: old.block,
            offset: end,
            size: behind,
        },
    ];
    holes.try_extend(parts.into_iter().filter(|part| part.size > 0))
}

fn set<A: HostSource>(
    order: &mut TryVec<Candidate, A>,
    at: usize,
    change: impl FnOnce(&mut Candidate),
) {
    if let Some(each) = order.as_mut_slice().get_mut(at) {
        change(each);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::super::block_fixture::{block, id, picture};
    use super::*;

    const LINEAR: BlockContent = BlockContent::Linear;

    /// Carries the moves out over a model of the bytes, and looks that nothing is lost and nothing overlaps.
    fn carried_out<A: HostSource + Clone>(
        picture: &MemoryMap<A>,
        limits: MoveLimits,
    ) -> (Vec<Move>, u32) {
        let plan = picture.moves(1, limits).expect("memory");
        let mut taken: Vec<(u32, u32, u64, u64)> = Vec::new();
        for (block, ranges) in picture.blocks_with_ranges() {
            for range in ranges
                .iter()
                .filter(|range| range.range_use != RangeUse::Free)
            {
                taken.push((block.pool, block.block, range.offset, range.size));
            }
        }
        for each in plan.moves() {
            let from = (each.from.pool, each.from.block, each.from.offset, each.size);
            assert!(taken.contains(&from), "{each:?} moves nothing");
            let to = (each.to.pool, each.to.block, each.to.offset, each.size);
            let within = picture
                .blocks()
                .iter()
                .find(|block| (block.pool, block.block) == (to.0, to.1))
                .expect("a block");
            assert!(
                to.2 + to.3 <= within.size && within.memory == each.to.memory,
                "{each:?}"
            );
            let apart = |other: &(u32, u32, u64, u64)| {
                (other.0, other.1) != (to.0, to.1)
                    || other.2 + other.3 <= to.2
                    || to.2 + to.3 <= other.2
            };
            // What moves away does not make room: so any order will do.
            assert!(taken.iter().all(apart), "{each:?} overlaps");
            taken.push(to);
        }
        assert_eq!(
            plan.moved_bytes(),
            plan.moves().iter().map(|each| each.size).sum::<u64>()
        );
        (plan.moves().to_vec(), plan.freed_blocks())
    }

    #[test]
    fn the_emptiest_block_goes_into_the_smallest_holes_of_the_fullest() {
        let full = block(0, LINEAR, 0)
            .region(1, 4096)
            .free(1024)
            .region(2, 4096)
            .free(512);
        let half = block(1, LINEAR, 0).region(3, 2048).free(8192);
        let emptiest = block(2, LINEAR, 0)
            .free(1024)
            .region(4, 512)
            .free(4096)
            .region(5, 1024);
        let picture = picture([full, half, emptiest], []);
        let (moves, freed) = carried_out(&picture, MoveLimits::default());
        // Both fit the fullest block; what it then lacks the half full one cannot get rid of.
        let to = |each: &Move| (each.region, each.to.block, each.to.offset);
        assert_eq!(
            moves.iter().map(to).collect::<Vec<_>>(),
            [(id(4), 0, 9216), (id(5), 0, 4096)]
        );
        assert_eq!(freed, 1);
    }

    #[test]
    fn a_block_that_received_stays_and_one_that_goes_receives_nothing() {
        let blocks = (0..4).map(|number| {
            block(number, LINEAR, 0)
                .region(number, 1024)
                .free(1024 * u64::from(number + 1))
        });
        let (moves, freed) = carried_out(&picture(blocks, []), MoveLimits::default());
        let gone: Vec<u32> = moves.iter().map(|each| each.from.block).collect();
        assert!(
            moves.iter().all(|each| !gone.contains(&each.to.block)),
            "{moves:?}"
        );
        assert_eq!(freed as usize, gone.len());
        assert!(freed >= 2, "{moves:?}");
    }

    #[test]
    fn what_may_not_move_keeps_its_block() {
        // What is in the other block stays, too: otherwise it would go instead.
        let holes = || {
            block(0, LINEAR, 0)
                .with(1, 8192, |range| range.maps = 1)
                .free(8192)
        };
        let whole = |change: fn(&mut RangeView)| {
            let alone = block(1, LINEAR, 0).with(2, 256, change).free(65536);
            carried_out(&picture([holes(), alone], []), MoveLimits::default())
                .0
                .len()
        };
        assert_eq!(whole(|_| {}), 1, "otherwise it moves");
        assert_eq!(whole(|range| range.maps = 1), 0, "mapped");
        assert_eq!(whole(|range| range.crops = 1), 0, "with crops");
        for fixed in [
            RangePlacement::Transient,
            RangePlacement::Slab,
            RangePlacement::Linear,
            RangePlacement::Dedicated,
            RangePlacement::Wrapped,
        ] {
            let alone = block(1, LINEAR, 0)
                .with(2, 256, |range| range.placement = fixed)
                .free(65536);
            assert_eq!(
                carried_out(&picture([holes(), alone], []), MoveLimits::default())
                    .0
                    .len(),
                0,
                "{fixed:?}"
            );
        }
        let spent = block(1, LINEAR, 0).region(2, 256).spent(256).free(65536);
        assert_eq!(
            carried_out(&picture([holes(), spent], []), MoveLimits::default())
                .0
                .len(),
            0,
            "a page"
        );
    }

    #[test]
    fn only_within_a_pool() {
        let holes =
            |content, memory_type| block(0, content, memory_type).region(1, 8192).free(8192);
        let alone = || block(1, LINEAR, 3).region(2, 256).free(65536);
        for (content, memory_type, moves) in [
            (LINEAR, 3, 1),
            (LINEAR, 2, 0),
            (BlockContent::Optimal, 3, 0),
        ] {
            let picture = picture([holes(content, memory_type), alone()], []);
            assert_eq!(
                carried_out(&picture, MoveLimits::default()).0.len(),
                moves,
                "{content:?} {memory_type}"
            );
        }
    }

    #[test]
    fn alignment_is_kept_and_an_unknown_one_is_not_guessed() {
        let moved = |alignment, offset| {
            let holes = block(0, LINEAR, 0).region(1, 768).free(3 * 4096);
            let alone = if offset > 0 {
                block(1, LINEAR, 0).free(offset)
            } else {
                block(1, LINEAR, 0)
            };
            let alone = alone.with(2, 512, |range| range.alignment = alignment);
            let picture = picture([holes, alone], []);
            carried_out(&picture, MoveLimits::default())
                .0
                .first()
                .map(|each| each.to.offset)
        };
        assert_eq!(moved(256, 0), Some(768));
        assert_eq!(moved(4096, 0), Some(4096));
        assert_eq!(moved(0, 2048), Some(2048), "as well aligned as it lies");
        assert_eq!(moved(0, 0), None, "at offset 0 any alignment may be meant");
        assert_eq!(moved(65536, 0), None);
    }

    #[test]
    fn where_contents_are_mixed_a_page_has_one_owner() {
        let holes = block(0, BlockContent::Mixed, 0).region(1, 1024).free(7168);
        let alone = block(1, BlockContent::Mixed, 0).region(2, 512).free(512);
        let picture = picture([holes, alone], []);
        let to = |granularity| {
            let plan = picture
                .moves(granularity, MoveLimits::default())
                .expect("memory");
            plan.moves().first().map(|each| each.to.offset)
        };
        assert_eq!((to(1), to(4096), to(8192)), (Some(1024), Some(4096), None));
    }

    #[test]
    fn limits_hold_and_half_a_block_is_not_moved() {
        let make = || {
            let full = block(0, LINEAR, 0).region(1, 65536).free(4096);
            let two = block(1, LINEAR, 0)
                .region(2, 1024)
                .region(3, 1024)
                .free(1024);
            picture([full, two], [])
        };
        let moves = |moves, bytes| carried_out(&make(), MoveLimits { moves, bytes }).0.len();
        assert_eq!((moves(2, 2048), moves(1, 2048), moves(2, 2047)), (2, 0, 0));
        // Only one of the two finds a hole: nothing is planned, and the hole is there for the next.
        let tight = block(0, LINEAR, 0).region(1, 65536).free(1024);
        let two = block(1, LINEAR, 0)
            .region(2, 1024)
            .region(3, 1024)
            .free(1024);
        let one = block(2, LINEAR, 0).free(9216).region(4, 1024).free(512);
        let (planned, freed) = carried_out(&picture([tight, two, one], []), MoveLimits::default());
        assert_eq!((planned.len(), freed, planned[0].region), (1, 1, id(4)));
    }

    #[test]
    fn random_pictures_are_planned_without_overlap() {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut freed = 0;
        for _ in 0..300 {
            let mut number = 0;
            let blocks: Vec<_> = (0..8)
                .map(|at| {
                    let mut built = block(at, LINEAR, 0);
                    let density = next(5);
                    for _ in 0..12 {
                        let size = 256 * (1 + next(16));
                        number += 1;
                        built = if next(5) < density {
                            built.region(number, size)
                        } else {
                            built.free(size)
                        };
                    }
                    built
                })
                .collect();
            freed += carried_out(&picture(blocks, []), MoveLimits::default()).1;
        }
        assert!(freed > 300, "{freed} blocks were freed in all");
    }
}
