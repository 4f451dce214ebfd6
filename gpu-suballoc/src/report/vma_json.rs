//! A memory map as JSON with the keys of the Vulkan Memory Allocator's `vmaBuildStatsString`.
//!
//! Tools that draw such files can read it: the `Suballocations` of a block tile it, and `Type` is one of VMA's values.
//! Keys that VMA does not have: `HostBytes`, `EmptyBytes`, `LargestFreeBytes`, `MovingBytes`, `PeakBlockBytes`.

use core::fmt::{self, Write};

use alloc_core::HostAllocator;
use alloc_core::support::Json;

use super::memory_map::MemoryMap;
use super::totals::GpuStats;
use crate::allocator::GpuAllocator;
use crate::device::{DeviceMemory, DeviceProperties, HeapBudget};
use crate::memory_type::MemoryType;
use crate::pool::Pools;
use crate::view::{BlockContent, BlockView, RangeUse, RangeView, RegionResource};

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Writes a memory map as JSON with the keys of `vmaBuildStatsString` into `sink`.
    ///
    /// # Errors
    /// An error of the sink.
    #[doc(alias("vmaBuildStatsString"))]
    pub fn write_json(&self, map: &MemoryMap<'_>, sink: &mut dyn Write) -> fmt::Result {
        let head = DumpContext { properties: self.device().properties(), pools: &self.pools, stats: &self.stats() };
        map.write_vma_json(&head, sink)
    }
}

struct DumpContext<'a> {
    properties: DeviceProperties<'a>,
    pools: &'a Pools,
    stats: &'a GpuStats,
}

impl MemoryMap<'_> {
    fn write_vma_json(&self, head: &DumpContext<'_>, sink: &mut dyn Write) -> fmt::Result {
        Json::new(sink).object(|json| {
            json.object_at("General", |json| general(json, head))?;
            self.figures(json, "Total", |_| true)?;
            json.object_at("MemoryInfo", |json| self.heaps(json, head))?;
            json.object_at("DefaultPools", |json| self.default_pools(json, head))?;
            json.object_at("CustomPools", |json| self.custom_pools(json, head))
        })
    }

    fn heaps(&self, json: &mut Json<'_>, head: &DumpContext<'_>) -> fmt::Result {
        let types = head.properties.types;
        for (index, heap) in (0u32..).zip(head.properties.heaps) {
            let of_heap = |block: &BlockView| type_of(head, block).is_some_and(|of| of.heap_index == index);
            json.object_at(format_args!("Heap {index}"), |json| {
                json.list_at("Flags", |json| heap.flags.names().try_for_each(|name| json.text(name)))?;
                json.plain("Size", heap.size)?;
                let HeapBudget { budget, usage } = head.pools.heap_budget(index);
                json.object_at("Budget", |json| {
                    write_figures(json, &[("BudgetBytes", budget), ("UsageBytes", usage)])
                })?;
                self.figures(json, "Stats", of_heap)?;
                json.object_at("MemoryPools", |json| {
                    for (number, of) in (0u32..).zip(types).filter(|(_, of)| of.heap_index == index) {
                        json.object_at(format_args!("Type {number}"), |json| {
                            json.list_at("Flags", |json| of.properties.names().try_for_each(|name| json.text(name)))?;
                            self.figures(json, "Stats", |block| block.memory_type == Some(number))
                        })?;
                    }
                    Ok(())
                })
            })?;
        }
        Ok(())
    }

    fn default_pools(&self, json: &mut Json<'_>, head: &DumpContext<'_>) -> fmt::Result {
        for number in 0..head.properties.types.len() as u32 {
            let of_type = |block: &BlockView| !block.is_custom && block.memory_type == Some(number);
            json.object_at(format_args!("Type {number}"), |json| {
                preferred_size(json, head, number)?;
                self.pool(json, of_type)
            })?;
        }
        Ok(())
    }

    fn custom_pools(&self, json: &mut Json<'_>, head: &DumpContext<'_>) -> fmt::Result {
        for number in 0..head.properties.types.len() as u32 {
            let mut pools =
                self.blocks().iter().filter(|block| block.is_custom && block.memory_type == Some(number)).peekable();
            if pools.peek().is_none() {
                continue;
            }
            json.list_at(format_args!("Type {number}"), |json| {
                let mut last = None;
                for pool in pools.map(|block| block.pool) {
                    // The blocks of a pool are neighbours.
                    if last.replace(pool) == Some(pool) {
                        continue;
                    }
                    json.object(|json| {
                        json.string("Name", pool)?;
                        preferred_size(json, head, pool)?;
                        self.pool(json, |block| block.is_custom && block.pool == pool)
                    })?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn pool(&self, json: &mut Json<'_>, of_pool: impl Fn(&BlockView) -> bool) -> fmt::Result {
        let is_shared = |block: &BlockView| block.content == BlockContent::Shared;
        json.object_at("Blocks", |json| {
            for (number, (block, ranges)) in
                self.blocks_with_ranges().enumerate().filter(|(_, each)| of_pool(each.0) && is_shared(each.0))
            {
                json.object_at(number, |json| self.block(json, block, ranges))?;
            }
            Ok(())
        })?;
        json.list_at("DedicatedAllocations", |json| {
            let is_dedicated = |block: &BlockView| block.content == BlockContent::Dedicated;
            self.regions(|block| of_pool(block) && is_dedicated(block))
                .try_for_each(|range| json.object(|json| self.region(json, range)))
        })
    }

    fn block(&self, json: &mut Json<'_>, block: &BlockView, ranges: &[RangeView]) -> fmt::Result {
        let sums = Figures::of(core::iter::once((block, ranges)));
        let figures = [
            ("MapRefCount", u64::from(block.maps)),
            ("TotalBytes", block.size),
            ("UnusedBytes", block.size.saturating_sub(sums.allocations.bytes)),
            ("Allocations", sums.allocations.count),
            ("UnusedRanges", sums.unused.count),
        ];
        write_figures(json, &figures)?;
        json.list_at("Suballocations", |json| {
            for range in ranges {
                json.object(|json| {
                    json.plain("Offset", range.offset)?;
                    match range.range_use {
                        RangeUse::Region => self.region(json, range),
                        _ => {
                            json.string("Type", "FREE")?;
                            json.plain("Size", range.size)
                        }
                    }
                })?;
            }
            Ok(())
        })
    }

    fn region(&self, json: &mut Json<'_>, range: &RangeView) -> fmt::Result {
        json.string("Type", resource_name(range.resource))?;
        json.plain("Size", range.size)?;
        json.plain("Usage", range.usage)?;
        if range.tag != 0 {
            json.string("CustomData", format_args!("{:#018x}", range.tag))?;
        }
        self.name(range).map_or(Ok(()), |name| json.string("Name", name))
    }

    fn regions(&self, of: impl Fn(&BlockView) -> bool) -> impl Iterator<Item = &RangeView> {
        self.blocks_with_ranges()
            .filter(move |(block, _)| of(block))
            .flat_map(|(_, ranges)| ranges)
            .filter(|range| range.range_use == RangeUse::Region)
    }

    fn figures(&self, json: &mut Json<'_>, key: &str, which: impl Fn(&BlockView) -> bool) -> fmt::Result {
        let own = self.blocks_with_ranges().filter(|(block, _)| block.content != BlockContent::Wrapped && which(block));
        json.object_at(key, |json| Figures::of(own).write(json))
    }
}

#[derive(Default)]
struct Figures {
    blocks: u64,
    block_bytes: u64,
    allocations: SizeFigures,
    unused: SizeFigures,
}

#[derive(Default)]
struct SizeFigures {
    count: u64,
    bytes: u64,
    range: Option<(u64, u64)>,
}

impl SizeFigures {
    fn add(&mut self, size: u64) {
        self.count += 1;
        self.bytes += size;
        let (least, most) = self.range.unwrap_or((size, size));
        self.range = Some((least.min(size), most.max(size)));
    }
}

impl Figures {
    fn of<'p>(blocks: impl Iterator<Item = (&'p BlockView, &'p [RangeView])>) -> Self {
        let mut sum = Self::default();
        for (block, ranges) in blocks {
            sum.blocks += 1;
            sum.block_bytes += block.size;
            for range in ranges {
                match range.range_use {
                    RangeUse::Region => sum.allocations.add(range.size),
                    _ => sum.unused.add(range.size),
                }
            }
        }
        sum
    }

    fn write(&self, json: &mut Json<'_>) -> fmt::Result {
        let figures = [
            ("BlockCount", self.blocks),
            ("BlockBytes", self.block_bytes),
            ("AllocationCount", self.allocations.count),
            ("AllocationBytes", self.allocations.bytes),
            ("UnusedRangeCount", self.unused.count),
        ];
        write_figures(json, &figures)?;
        if let Some((least, most)) = self.allocations.range {
            write_figures(json, &[("AllocationSizeMin", least), ("AllocationSizeMax", most)])?;
        }
        if let Some((least, most)) = self.unused.range {
            write_figures(json, &[("UnusedRangeSizeMin", least), ("UnusedRangeSizeMax", most)])?;
        }
        Ok(())
    }
}

fn general(json: &mut Json<'_>, head: &DumpContext<'_>) -> fmt::Result {
    let DeviceProperties { limits, heaps, types, .. } = &head.properties;
    let (stats, total) = (head.stats, &head.stats.total);
    json.string("API", "Vulkan")?;
    let figures = [
        ("maxMemoryAllocationCount", u64::from(limits.max_memory_allocation_count)),
        ("bufferImageGranularity", limits.buffer_image_granularity),
        ("nonCoherentAtomSize", limits.non_coherent_atom_size),
        ("memoryHeapCount", heaps.len() as u64),
        ("memoryTypeCount", types.len() as u64),
        ("HostBytes", stats.host_bytes),
        ("EmptyBytes", total.empty_bytes),
        ("LargestFreeBytes", total.largest_free_bound),
        ("MovingBytes", total.moving_bytes),
        ("PeakBlockBytes", stats.peak_block_bytes),
    ];
    write_figures(json, &figures)
}

fn write_figures(json: &mut Json<'_>, figures: &[(&str, u64)]) -> fmt::Result {
    figures.iter().try_for_each(|(key, figure)| json.plain(key, *figure))
}

fn type_of<'a>(head: &DumpContext<'a>, block: &BlockView) -> Option<&'a MemoryType> {
    head.properties.types.get(block.memory_type? as usize)
}

fn preferred_size(json: &mut Json<'_>, head: &DumpContext<'_>, pool: u32) -> fmt::Result {
    let pool = u16::try_from(pool).ok();
    let totals = pool.and_then(|pool| head.pools.totals(pool));
    totals.map_or(Ok(()), |totals| json.plain("PreferredBlockSize", totals.preferred_block))
}

const fn resource_name(resource: RegionResource) -> &'static str {
    match resource {
        RegionResource::Unknown => "UNKNOWN",
        RegionResource::Buffer => "BUFFER",
        RegionResource::ImageLinear => "IMAGE_LINEAR",
        RegionResource::ImageOptimal => "IMAGE_OPTIMAL",
    }
}
