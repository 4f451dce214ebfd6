//! Pages and slabs of a pool: ranges of its blocks, in which small and short-lived regions lie.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::blocks::{BlockMiss, BlockSpace};
use super::config::PoolConfig;
use super::linear::{LinearMiss, LinearRegions, LinearSuballocation};
use super::request::{AllocationRequest, LINEAR_RANGE, PAGE_RANGE, SLAB_RANGE};
use super::state::PoolState;
use crate::classes::{
    ClassShortage, FreeError, GroupedAllocator as Class, HostShortage, PageAllocator,
    RangeShortage, SlabAllocator, SlabClass, SlotAllocation as Seated, SlotLocation, SpareRange,
    TransientClass,
};
use crate::error::GpuMisuse;
use crate::host_block::HostBlock;
use crate::id::{RegionPlaceKind, RegionSlot};
use crate::range::{Fit, NodeShortage as NodesLack};
use crate::request::Lifetime;

/// Empty slabs of a pool that wait for what comes next, in bytes. Of pages it is one.
const KEPT_SLABS: u64 = 1 << 16;

/// Which range a page or slab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeRef {
    pub(super) block: u32,
    pub(super) node: u32,
    pub(super) generation: u32,
}

/// The two classes of a pool.
pub(super) struct SizeClasses {
    pub(super) pages: TransientClass<RangeRef>,
    pub(super) slabs: SlabClass<RangeRef>,
    pub(super) linear: LinearRegions,
    page_size: u64,
}

/// What a region could not be placed for.
#[derive(Clone, Copy, Debug)]
pub(super) enum PoolShortage {
    /// Blocks lack memory for their records.
    Records(NodesLack),
    /// Pages, or slabs, lack memory for their records.
    Class { slab: bool, need: HostShortage },
    /// A linear pool lacks memory for its records.
    Linear(Layout),
    /// No block has `need` bytes in one piece; with `class` they are for a page or slab, and the region itself may fit somewhere.
    Block { need: u64, class: bool },
}

impl SizeClasses {
    pub(super) const fn new(facts: &PoolConfig) -> Self {
        let granule = 1 << facts.granule_log2;
        Self {
            pages: Class::new(PageAllocator::new(granule, facts.page_size)),
            slabs: Class::new(SlabAllocator::new(granule)),
            linear: LinearRegions::new(facts),
            page_size: facts.page_size,
        }
    }

    fn allocate(
        &mut self,
        slab: bool,
        ask: &AllocationRequest,
        alignment: u64,
    ) -> Result<Seated, ClassShortage> {
        if slab {
            self.slabs.allocate(ask.size, alignment, ask.user_data)
        } else {
            self.pages.allocate(ask.size, alignment, ask.user_data)
        }
    }

    fn add(
        &mut self,
        slab: bool,
        home: RangeRef,
        base: u64,
        need: RangeShortage,
    ) -> Result<u32, ClassShortage> {
        if slab {
            self.slabs.add(home, base, need)
        } else {
            self.pages.add(home, base, need)
        }
    }

    /// Hands in what a class lacked.
    pub(super) fn grow_with(
        &mut self,
        slab: bool,
        need: HostShortage,
        memory: HostBlock,
    ) -> Option<HostBlock> {
        if slab {
            self.slabs.grow_with(need, memory)
        } else {
            self.pages.grow_with(need, memory)
        }
    }

    /// The block that a live region is in, and what is known of it.
    pub(super) fn find(&self, at: RegionSlot) -> Result<(u32, SlotLocation), GpuMisuse> {
        let (group, slot, generation) = (at.place.block(), at.slot, at.generation);
        if at.kind() == RegionPlaceKind::Linear {
            // A linear pool has one line: its ids have no block.
            return if group == 0 {
                self.linear.find(slot, generation)
            } else {
                Err(GpuMisuse::Stale)
            };
        }
        let (found, home) = if at.kind() == RegionPlaceKind::Slab {
            (
                self.slabs.find(group, slot, generation),
                self.slabs.range_ref(group),
            )
        } else {
            (
                self.pages.find(group, slot, generation),
                self.pages.range_ref(group),
            )
        };
        Ok((home.ok_or(GpuMisuse::Stale)?.block, found.map_err(misuse)?))
    }

    pub(super) fn set_user_data(
        &mut self,
        at: RegionSlot,
        from: u32,
        to: u32,
    ) -> Result<u32, GpuMisuse> {
        let (group, slot, generation) = (at.place.block(), at.slot, at.generation);
        let was = if at.kind() == RegionPlaceKind::Slab {
            self.slabs.set_user_data(group, slot, generation, from, to)
        } else {
            self.pages.set_user_data(group, slot, generation, from, to)
        };
        was.map_err(misuse)
    }

    /// An empty page or slab that is not kept; with `all` none is.
    fn remove_spare(&mut self, all: bool) -> Option<SpareRange<RangeRef>> {
        let (pages, slabs) = if all {
            (0, 0)
        } else {
            (self.page_size, KEPT_SLABS)
        };
        self.pages
            .remove_spare(pages)
            .or_else(|| self.slabs.remove_spare(slabs))
    }

    /// Pages, slabs, and the line.
    pub(super) fn ranges(&self) -> u64 {
        u64::from(self.pages.totals().ranges)
            .saturating_add(self.slabs.totals().ranges.into())
            .saturating_add(1)
    }

    /// At the end: their memory, until there is none.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.pages
            .detach_memory()
            .or_else(|| self.slabs.detach_memory())
    }
}

impl PoolState {
    /// At an end of a linear pool.
    pub(super) fn place_linear(
        &mut self,
        size: u64,
        alignment: u64,
        ask: &AllocationRequest,
        spot: &mut BlockSpace,
    ) -> Result<(), PoolShortage> {
        let size = size
            .checked_next_multiple_of(self.config.granule())
            .unwrap_or(u64::MAX);
        loop {
            let whole = self.growth.max() & !(self.config.granule() - 1);
            match self.size_classes.linear.allocate(
                size,
                alignment,
                ask.user_data,
                ask.upper_address,
            ) {
                Ok(taken) => {
                    let LinearSuballocation {
                        node,
                        generation,
                        range_ref: home,
                        offset,
                    } = taken;
                    *spot = BlockSpace {
                        kind: RegionPlaceKind::Linear,
                        block: 0,
                        slot: node,
                        generation,
                        containing_block: home.block,
                        offset,
                        size,
                    };
                    return Ok(());
                }
                Err(LinearMiss::Nodes(layout)) => return Err(PoolShortage::Linear(layout)),
                Err(LinearMiss::Full) => {
                    return Err(PoolShortage::Block {
                        need: whole,
                        class: false,
                    });
                }
                Err(LinearMiss::Range) => {
                    let home = self.allocate_internal_range(
                        whole,
                        1,
                        LINEAR_RANGE,
                        Fit::Low,
                        false,
                        spot,
                    )?;
                    self.size_classes
                        .linear
                        .open(&self.config, home, spot.offset, spot.size);
                }
            }
        }
    }

    /// A range of the pool's own, for a page, a slab or a line.
    fn allocate_internal_range(
        &mut self,
        size: u64,
        alignment: u64,
        own: u32,
        fit: Fit,
        class: bool,
        spot: &mut BlockSpace,
    ) -> Result<RangeRef, PoolShortage> {
        self.blocks
            .allocate(size, alignment, own, fit, spot)
            .map_err(|miss| match miss {
                BlockMiss::Records(lack) => PoolShortage::Records(lack),
                BlockMiss::Full => PoolShortage::Block { need: size, class },
            })?;
        Ok(RangeRef {
            block: spot.containing_block,
            node: spot.slot,
            generation: spot.generation,
        })
    }

    /// A region of a linear pool goes; with the last one the range does.
    pub(super) fn free_linear(
        &mut self,
        at: RegionSlot,
        word: u32,
    ) -> Result<(u64, bool), GpuMisuse> {
        let size = self
            .size_classes
            .linear
            .free(at.slot, at.generation, word)?;
        let Some(RangeRef {
            block,
            node,
            generation,
        }) = self.size_classes.linear.close()
        else {
            return Ok((size, false));
        };
        if self
            .blocks
            .free(block, node, generation, LINEAR_RANGE)
            .is_ok_and(|(_, empty)| empty)
        {
            self.emptied_block = Some(block);
        }
        Ok((size, true))
    }

    /// Into a page or slab, if one takes it: whether one did.
    #[inline]
    pub(super) fn place_in_size_class(
        &mut self,
        ask: &AllocationRequest,
        alignment: u64,
        spot: &mut BlockSpace,
    ) -> Result<bool, PoolShortage> {
        let slab = ask.lifetime == Lifetime::Persistent;
        loop {
            let need = match self.size_classes.allocate(slab, ask, alignment) {
                Ok(taken) => {
                    let home = if slab {
                        self.size_classes.slabs.range_ref(taken.group)
                    } else {
                        self.size_classes.pages.range_ref(taken.group)
                    };
                    let Some(home) = home else { return Ok(false) };
                    spot.containing_block = home.block;
                    spot.kind = if slab {
                        RegionPlaceKind::Slab
                    } else {
                        RegionPlaceKind::Transient
                    };
                    spot.block = taken.group;
                    spot.slot = taken.slot;
                    spot.generation = taken.generation;
                    spot.offset = taken.offset;
                    spot.size = taken.size;
                    return Ok(true);
                }
                Err(ClassShortage::Unsupported) => return Ok(false),
                Err(ClassShortage::Memory(need)) => return Err(PoolShortage::Class { slab, need }),
                Err(ClassShortage::Range(need)) => need,
            };
            if let Some(need) = self.add_range(slab, need, spot)? {
                return Err(PoolShortage::Class { slab, need });
            }
        }
    }

    /// Hands a range to a class; host memory that it lacks after all.
    #[cold]
    fn add_range(
        &mut self,
        slab: bool,
        need: RangeShortage,
        spot: &mut BlockSpace,
    ) -> Result<Option<HostShortage>, PoolShortage> {
        let (own, fit) = if slab {
            (SLAB_RANGE, Fit::Low)
        } else {
            (PAGE_RANGE, Fit::High)
        };
        let home = self.allocate_internal_range(need.size, need.alignment, own, fit, true, spot)?;
        match self.size_classes.add(slab, home, spot.offset, need) {
            Ok(number) => {
                let _ =
                    self.blocks
                        .set_user_data(home.block, home.node, home.generation, own | number);
                Ok(None)
            }
            Err(lack) => {
                // The range goes back as it came; a block that was empty is so again.
                let _ = self
                    .blocks
                    .free(home.block, home.node, home.generation, own);
                match lack {
                    ClassShortage::Memory(need) => Ok(Some(need)),
                    ClassShortage::Range(_) | ClassShortage::Unsupported => {
                        Err(PoolShortage::Block {
                            need: need.size,
                            class: true,
                        })
                    }
                }
            }
        }
    }

    pub(super) fn free_in_size_class(
        &mut self,
        at: RegionSlot,
        word: u32,
    ) -> Result<(u64, bool), GpuMisuse> {
        let (group, slot, generation) = (at.place.block(), at.slot, at.generation);
        let given = if at.kind() == RegionPlaceKind::Slab {
            self.size_classes.slabs.free(group, slot, generation, word)
        } else {
            self.size_classes.pages.free(group, slot, generation, word)
        };
        let given = given.map_err(misuse)?;
        Ok((given.size, given.is_emptied && self.free_spare(false)))
    }

    /// Gives the range of an empty page or slab back to its block; what came of that is left for [later](PoolState::deferred_free). False where
    /// there is none, or none that is not kept.
    pub(super) fn free_spare(&mut self, all: bool) -> bool {
        // A line that was opened for a region that was not placed after all: the last region's end would have closed it.
        if all
            && let Some(RangeRef {
                block,
                node,
                generation,
            }) = self.size_classes.linear.close()
        {
            if self
                .blocks
                .free(block, node, generation, LINEAR_RANGE)
                .is_ok_and(|(_, empty)| empty)
            {
                self.emptied_block = Some(block);
            }
            return true;
        }
        let Some(SpareRange {
            range_ref:
                RangeRef {
                    block,
                    node,
                    generation,
                },
            ..
        }) = self.size_classes.remove_spare(all)
        else {
            return false;
        };
        let word = self
            .blocks
            .range(block, node, generation)
            .map(|(_, found)| found.user_data);
        let Ok((_, empty)) = word.and_then(|word| self.blocks.free(block, node, generation, word))
        else {
            return false;
        };
        if empty {
            self.emptied_block = Some(block);
        }
        true
    }
}

/// What a class's refusal says about the caller.
const fn misuse(error: FreeError) -> GpuMisuse {
    match error {
        FreeError::Held => GpuMisuse::Held,
        FreeError::Foreign | FreeError::Stale | FreeError::Double => GpuMisuse::Stale,
    }
}
