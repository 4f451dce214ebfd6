//! Device memory that a program allocated, by heap and memory type.

#![forbid(unsafe_code)]

use super::label::cell;
use super::tables::{FigureRow, FigureTable};
use vk_report::report::{Report, VulkanMemoryRow, one_line};

/// The columns after the name.
pub(super) const COLUMNS: [&str; 6] = ["live", "blocks", "peak", "taken", "all blocks", "refused"];

/// A strong row for each device, then its heaps and types.
pub(super) fn vulkan_memory(report: &Report) -> FigureTable {
    let figures = |name: &str, row: &VulkanMemoryRow| FigureRow {
        name: format!("{name} {}", row.index),
        depth: 1,
        cells: [
            row.live_bytes,
            row.live_blocks,
            row.peak_bytes,
            row.total_bytes,
            row.total_blocks,
            row.refusals,
        ]
        .map(cell)
        .into(),
        ..FigureRow::default()
    };
    let mut rows = Vec::new();
    for device in report.vulkan_memory.iter().flatten() {
        if device.heaps.is_empty() && device.types.is_empty() {
            continue;
        }
        let lost = match device.lost_blocks {
            0 => String::new(),
            lost => format!("; {lost} blocks are counted nowhere"),
        };
        rows.push(FigureRow {
            name: format!("{}{lost}", one_line(&device.device)),
            strong: true,
            cells: vec![String::new(); COLUMNS.len()],
            ..FigureRow::default()
        });
        rows.extend(device.heaps.iter().map(|row| figures("heap", row)));
        rows.extend(device.types.iter().map(|row| figures("type", row)));
    }
    FigureTable::of(&COLUMNS, rows.into_iter())
}
