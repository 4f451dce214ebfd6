//! The division of device memory, for the report.

#![forbid(unsafe_code)]

use gpu_suballoc::allocator::DefragmentationOptions;
use gpu_suballoc::report::{
    BlockContent, BlockView, MemoryMap, RangePlacement, RangeUse, RangeView,
};
use gpu_suballoc::{DeviceMemory as _, GpuError};

use super::Allocator;
use vk_accounts::report::{DeviceMemory, MemoryBlock, MemoryCrop, MemoryRange};

pub(super) fn memory_report(allocator: &Allocator<'_>) -> Result<DeviceMemory, GpuError> {
    let (stats, properties) = (allocator.stats(), allocator.device().properties());
    let picture = allocator.memory_map()?;
    // Only a plan: it is dropped before any move.
    let mut run = allocator.defragment(DefragmentationOptions::new().move_bare_regions())?;
    let moves = run.next_pass()?.moves().len() as u64;
    let planned = run.totals();
    drop(run);
    let properties_of = |block: &BlockView| {
        let of = block
            .memory_type
            .and_then(|index| properties.types.get(index as usize));
        of.map(|of| of.properties.to_string()).unwrap_or_default()
    };
    let blocks: Vec<_> = picture
        .blocks_with_ranges()
        .map(|(block, ranges)| block_report(&picture, block, ranges, properties_of(block)))
        .collect();
    let padding_bytes = blocks
        .iter()
        .filter(|block| block.content != "wrapped")
        .flat_map(|block| &block.ranges);
    let padding_bytes = padding_bytes.map(|range| range.padding).sum();
    Ok(DeviceMemory {
        blocks,
        block_bytes: stats.total.block_bytes,
        regions: stats.total.regions,
        region_bytes: stats.total.region_bytes.saturating_sub(padding_bytes),
        padding_bytes,
        wrapped: stats.total.wrapped,
        wrapped_bytes: stats.total.wrapped_bytes,
        crops: stats.total.crops,
        host_bytes: stats.host_bytes,
        moves,
        moves_free_blocks: u64::from(planned.planned_blocks),
        free_bytes_in_use: stats.total.free_bytes_in_use(),
        largest_free_bytes: stats.total.largest_free_bound,
        peak_block_bytes: stats.peak_block_bytes,
        reserved_percent: stats.total.reserved_percent(),
    })
}

fn block_report(
    picture: &MemoryMap<'_>,
    block: &BlockView,
    ranges: &[RangeView],
    properties: String,
) -> MemoryBlock {
    let content = match block.content {
        BlockContent::Linear => "linear",
        BlockContent::Optimal => "optimal",
        BlockContent::Dedicated => "dedicated",
        BlockContent::Wrapped => "wrapped",
        _ => "mixed",
    };
    MemoryBlock {
        pool: block.pool,
        number: block.block,
        memory_type: block.memory_type,
        properties,
        content: content.to_owned(),
        size: block.size,
        ranges: ranges
            .iter()
            .map(|range| range_report(picture, range))
            .collect(),
    }
}

fn range_report(picture: &MemoryMap<'_>, range: &RangeView) -> MemoryRange {
    let what = match range.range_use {
        RangeUse::Free => "free",
        RangeUse::Region => "region",
        _ => "spent",
    };
    let placement = match range.placement {
        RangePlacement::Linear => "linear",
        RangePlacement::Dedicated => "dedicated",
        RangePlacement::Wrapped => "wrapped",
        _ => "general",
    };
    let name = |name: Option<&str>| name.unwrap_or_default().to_owned();
    let crops = range.id.into_iter().flat_map(|id| picture.crops_of(id));
    let crops = crops.map(|crop| MemoryCrop {
        offset: crop.offset,
        size: crop.size,
        name: name(picture.name(crop)),
    });
    MemoryRange {
        what: what.to_owned(),
        offset: range.offset,
        size: range.size,
        padding: range.padding,
        placement: placement.to_owned(),
        name: name(picture.name(range)),
        crops: crops.collect(),
    }
}
