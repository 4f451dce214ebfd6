//! The report as one page.

#![forbid(unsafe_code)]

use askama::Template;

use super::report::{DevicesReport, EdgeRow, GroupRow, ShownDevice, or};
use vk_accounts::report::one_line;

#[derive(Template)]
#[template(path = "devices.html")]
struct DevicesPage<'r> {
    version: &'static str,
    devices: Vec<DeviceCard<'r>>,
    groups: &'r [GroupRow],
}

struct DeviceCard<'r> {
    shown: &'r ShownDevice,
    name: String,
    facts: [(&'static str, String); 10],
    cells: Vec<Cell>,
}

/// How the device of a row uses resources of the device of a column.
#[derive(Default)]
struct Cell {
    /// `itself`, `isolated`, or the mode of reading.
    class: &'static str,
    memory: String,
    semaphores: String,
    link: String,
    exact: String,
}

/// The page about these devices, as a complete HTML document.
///
/// # Errors
/// Never with the template as it is: it writes into memory.
pub fn html(report: &DevicesReport) -> Result<String, askama::Error> {
    let devices = report
        .devices
        .iter()
        .map(|shown| device(report, shown))
        .collect();
    DevicesPage {
        version: env!("CARGO_PKG_VERSION"),
        devices,
        groups: &report.groups,
    }
    .render()
}

fn device<'r>(report: &DevicesReport, shown: &'r ShownDevice) -> DeviceCard<'r> {
    let cells = report
        .devices
        .iter()
        .map(|other| {
            cell(
                shown.index == other.index,
                report.edge(shown.index, other.index),
            )
        })
        .collect();
    DeviceCard {
        shown,
        name: one_line(&shown.name),
        facts: shown.facts(),
        cells,
    }
}

fn cell(itself: bool, edge: Option<&EdgeRow>) -> Cell {
    let Some(edge) = edge else {
        let class = if itself { "itself" } else { "isolated" };
        return Cell {
            class,
            memory: class.to_owned(),
            ..Cell::default()
        };
    };
    let class = match edge.read.as_str() {
        "native" => "native",
        "import" => "import",
        "copy" => "copy",
        _ => "isolated",
    };
    let told = if edge.link_told_by.is_empty() {
        "nobody told the link".to_owned()
    } else {
        format!("link told by {}", edge.link_told_by)
    };
    let cost = edge.copy_cost.map(|cost| cost.to_string());
    Cell {
        class,
        memory: edge.read.clone(),
        semaphores: edge.wait.clone(),
        link: edge.link.clone(),
        exact: format!(
            "memory through {}; semaphores through {}; copy cost {}; {told}",
            or(&edge.memory_handles, "no handle"),
            or(&edge.semaphore_handles, "no handle"),
            cost.unwrap_or_else(|| "unknown".to_owned())
        ),
    }
}
