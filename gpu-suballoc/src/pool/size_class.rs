//! Pages and slabs of a pool: ranges of its blocks for small and short-lived regions.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::blocks::{BlockMiss, BlockSpace};
use super::config::PoolConfig;
use super::linear::{LinearMiss, LinearRegions, LinearSuballocation};
use super::request::{AllocationRequest, LINEAR_RANGE, PAGE_RANGE, SLAB_RANGE};
use super::state::PoolState;
use crate::classes::{
    ClassShortage, FreeError, HostShortage, PageAllocator, RangeShortage, SlabAllocator, SlabClass,
    SlotAllocation, SlotLocation, SpareRange, TransientClass,
};
use crate::error::GpuMisuse;
use crate::host_block::HostBlock;
use crate::id::{RegionPlaceKind, RegionSlot};
use crate::range::{Fit, NodeShortage};
use crate::request::Lifetime;

/// Bytes of empty slabs that a pool keeps. It keeps one empty page.
const KEPT_SLABS: u64 = 1 << 16;

/// The range of a page, a slab or a linear pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeRef {
    pub(super) block: u32,
    pub(super) node: u32,
    pub(super) generation: u32,
}

/// The sub-allocators of a pool.
pub(super) struct SizeClasses {
    pub(super) pages: TransientClass<RangeRef>,
    pub(super) slabs: SlabClass<RangeRef>,
    pub(super) linear: LinearRegions,
    page_size: u64,
}

/// Why a region was not placed.
#[derive(Clone, Copy, Debug)]
pub(super) enum PoolShortage {
    /// Missing memory for nodes.
    Records(NodeShortage),
    /// Missing memory for pages or slabs.
    Class { slab: bool, need: HostShortage },
    /// Missing memory for nodes of a linear pool.
    Linear(Layout),
    /// No block has `need` bytes in one piece; with `class` they are for a page or slab, and the region itself may still fit.
    Block { need: u64, class: bool },
}

impl SizeClasses {
    pub(super) const fn new(config: &PoolConfig) -> Self {
        let granule = 1 << config.granule_log2;
        Self {
            pages: TransientClass::new(PageAllocator::new(granule, config.page_size)),
            slabs: SlabClass::new(SlabAllocator::new(granule)),
            linear: LinearRegions::new(config),
            page_size: config.page_size,
        }
    }

    fn allocate(
        &mut self,
        slab: bool,
        request: &AllocationRequest,
        alignment: u64,
    ) -> Result<SlotAllocation, ClassShortage> {
        if slab {
            self.slabs
                .allocate(request.size, alignment, request.user_data)
        } else {
            self.pages
                .allocate(request.size, alignment, request.user_data)
        }
    }

    fn add(
        &mut self,
        slab: bool,
        range_ref: RangeRef,
        base: u64,
        need: RangeShortage,
    ) -> Result<u32, ClassShortage> {
        if slab {
            self.slabs.add(range_ref, base, need)
        } else {
            self.pages.add(range_ref, base, need)
        }
    }

    /// Supplies a class with its missing memory. Returns memory that must be freed.
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

    /// The block of a live region, and its location.
    pub(super) fn find(&self, at: RegionSlot) -> Result<(u32, SlotLocation), GpuMisuse> {
        let (group, slot, generation) = (at.place.block(), at.slot, at.generation);
        if at.kind() == RegionPlaceKind::Linear {
            // A linear pool has one range: its ids have no block.
            return if group == 0 {
                self.linear.find(slot, generation)
            } else {
                Err(GpuMisuse::Stale)
            };
        }
        let (found, range_ref) = if at.kind() == RegionPlaceKind::Slab {
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
        Ok((
            range_ref.ok_or(GpuMisuse::Stale)?.block,
            found.map_err(misuse)?,
        ))
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

    /// Removes an empty page or slab that is not kept; with `all` none is kept.
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

    /// The number of pages, slabs, and the linear range.
    pub(super) fn ranges(&self) -> u64 {
        u64::from(self.pages.totals().ranges)
            .saturating_add(self.slabs.totals().ranges.into())
            .saturating_add(1)
    }

    /// Removes a block of host memory, until none is left.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.pages
            .detach_memory()
            .or_else(|| self.slabs.detach_memory())
    }
}

impl PoolState {
    /// Places a region at an end of a linear pool.
    pub(super) fn place_linear(
        &mut self,
        size: u64,
        alignment: u64,
        request: &AllocationRequest,
        space: &mut BlockSpace,
    ) -> Result<(), PoolShortage> {
        let size = size
            .checked_next_multiple_of(self.config.granule())
            .unwrap_or(u64::MAX);
        loop {
            let whole = self.growth.max() & !(self.config.granule() - 1);
            match self.size_classes.linear.allocate(
                size,
                alignment,
                request.user_data,
                request.upper_address,
            ) {
                Ok(allocated) => {
                    let LinearSuballocation {
                        node,
                        generation,
                        range_ref,
                        offset,
                    } = allocated;
                    *space = BlockSpace {
                        kind: RegionPlaceKind::Linear,
                        block: 0,
                        slot: node,
                        generation,
                        containing_block: range_ref.block,
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
                    let range_ref = self.allocate_internal_range(
                        whole,
                        1,
                        LINEAR_RANGE,
                        Fit::Low,
                        false,
                        space,
                    )?;
                    self.size_classes.linear.open(
                        &self.config,
                        range_ref,
                        space.offset,
                        space.size,
                    );
                }
            }
        }
    }

    /// Allocates a range for a page, a slab or a linear pool.
    fn allocate_internal_range(
        &mut self,
        size: u64,
        alignment: u64,
        user_data: u32,
        fit: Fit,
        class: bool,
        space: &mut BlockSpace,
    ) -> Result<RangeRef, PoolShortage> {
        self.blocks
            .allocate(size, alignment, user_data, fit, space)
            .map_err(|miss| match miss {
                BlockMiss::Records(shortage) => PoolShortage::Records(shortage),
                BlockMiss::Full => PoolShortage::Block { need: size, class },
            })?;
        Ok(RangeRef {
            block: space.containing_block,
            node: space.slot,
            generation: space.generation,
        })
    }

    /// Frees a region of a linear pool; with the last one, the range.
    pub(super) fn free_linear(
        &mut self,
        at: RegionSlot,
        user_data: u32,
    ) -> Result<(u64, bool), GpuMisuse> {
        let size = self
            .size_classes
            .linear
            .free(at.slot, at.generation, user_data)?;
        Ok((size, self.free_empty_linear_range()))
    }

    /// Places a region in a page or slab. False if these cannot hold it.
    #[inline]
    pub(super) fn place_in_size_class(
        &mut self,
        request: &AllocationRequest,
        alignment: u64,
        space: &mut BlockSpace,
    ) -> Result<bool, PoolShortage> {
        let slab = request.lifetime == Lifetime::Persistent;
        loop {
            let need = match self.size_classes.allocate(slab, request, alignment) {
                Ok(allocated) => {
                    let range_ref = if slab {
                        self.size_classes.slabs.range_ref(allocated.group)
                    } else {
                        self.size_classes.pages.range_ref(allocated.group)
                    };
                    let Some(range_ref) = range_ref else {
                        return Ok(false);
                    };
                    space.containing_block = range_ref.block;
                    space.kind = if slab {
                        RegionPlaceKind::Slab
                    } else {
                        RegionPlaceKind::Transient
                    };
                    space.block = allocated.group;
                    space.slot = allocated.slot;
                    space.generation = allocated.generation;
                    space.offset = allocated.offset;
                    space.size = allocated.size;
                    return Ok(true);
                }
                Err(ClassShortage::Unsupported) => return Ok(false),
                Err(ClassShortage::Memory(need)) => return Err(PoolShortage::Class { slab, need }),
                Err(ClassShortage::Range(need)) => need,
            };
            if let Some(need) = self.add_range(slab, need, space)? {
                return Err(PoolShortage::Class { slab, need });
            }
        }
    }

    /// Adds a range to a class. Returns the host memory that the class still needs.
    #[cold]
    fn add_range(
        &mut self,
        slab: bool,
        need: RangeShortage,
        space: &mut BlockSpace,
    ) -> Result<Option<HostShortage>, PoolShortage> {
        let (user_data, fit) = if slab {
            (SLAB_RANGE, Fit::Low)
        } else {
            (PAGE_RANGE, Fit::High)
        };
        let range_ref =
            self.allocate_internal_range(need.size, need.alignment, user_data, fit, true, space)?;
        match self.size_classes.add(slab, range_ref, space.offset, need) {
            Ok(number) => {
                let _ = self.blocks.set_user_data(
                    range_ref.block,
                    range_ref.node,
                    range_ref.generation,
                    user_data | number,
                );
                Ok(None)
            }
            Err(shortage) => {
                // A block that was empty is empty again.
                let _ = self.blocks.free(
                    range_ref.block,
                    range_ref.node,
                    range_ref.generation,
                    user_data,
                );
                match shortage {
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
        user_data: u32,
    ) -> Result<(u64, bool), GpuMisuse> {
        let (group, slot, generation) = (at.place.block(), at.slot, at.generation);
        let freed = if at.kind() == RegionPlaceKind::Slab {
            self.size_classes
                .slabs
                .free(group, slot, generation, user_data)
        } else {
            self.size_classes
                .pages
                .free(group, slot, generation, user_data)
        };
        let freed = freed.map_err(misuse)?;
        Ok((freed.size, freed.is_emptied && self.free_spare(false)))
    }

    /// Frees the range of an empty page or slab, and leaves the rest to [`deferred_free`](PoolState::deferred_free). False if there is none, or
    /// if it is kept.
    pub(super) fn free_spare(&mut self, all: bool) -> bool {
        // A linear range whose first region was not placed: no later free would close it.
        if all && self.free_empty_linear_range() {
            return true;
        }
        let Some(spare) = self.size_classes.remove_spare(all) else {
            return false;
        };
        let freed = self.free_internal_range(spare.range_ref);
        if matches!(freed, Ok(true)) {
            self.emptied_block = Some(spare.range_ref.block);
        }
        freed.is_ok()
    }

    /// Frees the range of a linear pool, if it is empty.
    fn free_empty_linear_range(&mut self) -> bool {
        let Some(range_ref) = self.size_classes.linear.close() else {
            return false;
        };
        if matches!(self.free_internal_range(range_ref), Ok(true)) {
            self.emptied_block = Some(range_ref.block);
        }
        true
    }

    /// Frees the range of a page, a slab or a linear pool. Returns whether its block is empty now.
    pub(super) fn free_internal_range(&mut self, range_ref: RangeRef) -> Result<bool, GpuMisuse> {
        let RangeRef {
            block,
            node,
            generation,
        } = range_ref;
        let user_data = self.blocks.range(block, node, generation)?.1.user_data;
        let (_, is_empty) = self.blocks.free(block, node, generation, user_data)?;
        Ok(is_empty)
    }
}

/// The caller's mistake that a class's refusal stands for.
const fn misuse(error: FreeError) -> GpuMisuse {
    match error {
        FreeError::Held => GpuMisuse::Held,
        FreeError::Foreign | FreeError::Stale | FreeError::Double => GpuMisuse::Stale,
    }
}
