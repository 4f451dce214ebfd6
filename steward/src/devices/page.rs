//! The report as one page.

#![forbid(unsafe_code)]

use askama::Template;

use super::report::{DevicesReport, EdgeRow, GroupRow, ShownDevice};
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
    facts: Vec<(&'static str, String)>,
    cells: Vec<Cell>,
}

/// How the device of a row uses what belongs to that of a column.
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
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let list = |names: &[String]| {
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let facts = vec![
        ("device UUID", or_none(&shown.device_uuid)),
        ("driver UUID", or_none(&shown.driver_uuid)),
        ("LUID", or_none(&shown.device_luid)),
        ("PCI", or_none(&shown.pci)),
        (
            "NUMA node",
            shown
                .numa_node
                .map_or_else(|| "unknown".to_owned(), |node| node.to_string()),
        ),
        ("memory in", list(&shown.memory_import)),
        ("memory out", list(&shown.memory_export)),
        ("semaphores in", list(&shown.semaphore_import)),
        ("semaphores out", list(&shown.semaphore_export)),
        ("can", list(&shown.capabilities)),
    ];
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
        facts,
        cells,
    }
}

fn cell(itself: bool, edge: Option<&EdgeRow>) -> Cell {
    let bare = |class: &'static str| Cell {
        class,
        memory: class.to_owned(),
        semaphores: String::new(),
        link: String::new(),
        exact: String::new(),
    };
    let Some(edge) = edge else {
        return bare(if itself { "itself" } else { "isolated" });
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
    let cost =
        |cost: Option<u8>| cost.map_or_else(|| "unknown".to_owned(), |cost| cost.to_string());
    Cell {
        class,
        memory: edge.read.clone(),
        semaphores: edge.wait.clone(),
        link: edge.link.clone(),
        exact: format!(
            "memory through {}; semaphores through {}; copy cost {}; {told}",
            or_nothing(&edge.memory_handles),
            or_nothing(&edge.semaphore_handles),
            cost(edge.copy_cost)
        ),
    }
}

fn or_nothing(names: &[String]) -> String {
    if names.is_empty() {
        "no handle".to_owned()
    } else {
        names.join(", ")
    }
}
