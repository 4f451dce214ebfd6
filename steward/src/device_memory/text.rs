//! The report for a terminal.

#![forbid(unsafe_code)]

use std::fmt;

use super::report::{DeviceMemoryReport, PairRow, TraceRow};
use crate::table::{Columns, aligned};
use vk_accounts::units::bytes;

impl fmt::Display for DeviceMemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "driver: {} {}", self.driver, self.driver_version)?;
        writeln!(f, "device: {}", self.device)?;
        writeln!(
            f,
            "memory: type {} ({}) of heap {}, which has {}; at most {} are used; {} traces",
            self.memory_type,
            self.properties,
            self.heap,
            bytes(self.heap_bytes),
            bytes(self.budget_bytes),
            self.scale,
        )?;
        writeln!(
            f,
            "times: nanoseconds; of single calls with the clock's own, {} ns{}\n",
            self.clock_ns,
            if cfg!(debug_assertions) {
                "; this program is built without optimization, which makes it several times slower: use one that is"
            } else {
                ""
            }
        )?;
        writeln!(f, "the traces, by the sub-allocator")?;
        let head = [
            "trace",
            "regions",
            "refused",
            "live",
            "reserved",
            "ratio",
            "ns/op",
            "allocate",
            "p99",
            "longest",
            "free",
            "p99",
            "longest",
            "driver calls",
            "in them",
        ];
        table(f, &head, self.traces.iter().map(trace_cells))?;
        writeln!(
            f,
            "\nthe same allocations and frees, by the sub-allocator and with vkAllocateMemory for each"
        )?;
        let head = [
            "size",
            "operations",
            "live",
            "by",
            "pair",
            "allocate",
            "p99",
            "free",
            "p99",
            "refused",
            "driver calls",
            "times",
        ];
        table(f, &head, self.pairs.iter().flat_map(pair_cells))
    }
}

fn trace_cells(row: &TraceRow) -> Vec<String> {
    let ratio = row.peak_reserved_bytes as f64 / row.peak_live_bytes.max(1) as f64;
    let mut cells = vec![
        row.name.clone(),
        row.regions.to_string(),
        row.refused.to_string(),
        bytes(row.peak_live_bytes),
        bytes(row.peak_reserved_bytes),
        format!("{ratio:.2}"),
        format!("{:.0}", row.operation_ns),
    ];
    for times in [row.allocate, row.free] {
        cells.extend([times.median_ns, times.p99_ns, times.longest_ns].map(|ns| ns.to_string()));
    }
    let calls = row.driver_allocations + row.driver_refusals + row.driver_frees;
    cells.push(calls.to_string());
    cells.push(format!("{:.2} ms", row.driver_ns as f64 / 1e6));
    cells
}

/// Two lines; the second one has the ratio of both times.
fn pair_cells(row: &PairRow) -> [Vec<String>; 2] {
    let times = row.raw.pair_ns / row.ours.pair_ns.max(1.0);
    [("ours", row.ours), ("raw", row.raw)].map(|(by, of)| {
        let only = |shown: bool, text: String| if shown { text } else { String::new() };
        let is_ours = by == "ours";
        vec![
            only(is_ours, row.what.clone()),
            only(is_ours, row.operations.to_string()),
            only(is_ours, row.live.to_string()),
            by.to_owned(),
            format!("{:.0}", of.pair_ns),
            of.allocate.median_ns.to_string(),
            of.allocate.p99_ns.to_string(),
            of.free.median_ns.to_string(),
            of.free.p99_ns.to_string(),
            of.refused.to_string(),
            (of.driver_allocations + of.driver_frees).to_string(),
            only(!is_ours, format!("{times:.1}")),
        ]
    })
}

fn table(
    f: &mut fmt::Formatter<'_>,
    head: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> fmt::Result {
    let head = head.iter().map(|&name| name.to_owned()).collect();
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    writeln!(f, "{}", aligned(&rows, Columns::Numbers))
}
