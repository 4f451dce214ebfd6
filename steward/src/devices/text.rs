//! The report for a terminal.

#![forbid(unsafe_code)]

use std::fmt;

use super::report::{DevicesReport, EdgeRow, ShownDevice};

impl fmt::Display for DevicesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            writeln!(f, "{device}")?;
        }
        for (number, group) in self.groups.iter().enumerate() {
            let members: Vec<String> = group.devices.iter().map(ToString::to_string).collect();
            write!(
                f,
                "device group {number} (VkPhysicalDeviceGroup): device{} {}",
                if members.len() == 1 { "" } else { "s" },
                members.join(", ")
            )?;
            writeln!(
                f,
                "{}",
                if group.subset_allocation {
                    "; memory can be allocated on some of them"
                } else {
                    ""
                }
            )?;
            match &group.peer_memory {
                Some(rows) => {
                    for row in rows {
                        let features = if row.features.is_empty() {
                            "nothing".to_owned()
                        } else {
                            row.features.join(", ")
                        };
                        writeln!(
                            f,
                            "  heap {}: {} with memory of {}: {features}",
                            row.heap, row.local, row.remote
                        )?;
                    }
                }
                None => writeln!(
                    f,
                    "  no device can be made of it, so what its members can do with each other's memory is not known"
                )?,
            }
        }
        if self.devices.len() < 2 {
            return writeln!(f, "\nOne device: there is nothing to reach.");
        }
        writeln!(
            f,
            "\nHow the device of a row uses what belongs to the device of a column (memory / semaphores; link):"
        )?;
        self.matrix(f)
    }
}

impl DevicesReport {
    fn matrix(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |from: usize, to: usize| match self.edge(from, to) {
            _ if from == to => "itself".to_owned(),
            Some(edge) => format!("{} / {}; {}", edge.read, edge.wait, edge.link),
            None => "isolated".to_owned(),
        };
        let count = self.devices.len();
        let width = |to: usize| {
            (0..count)
                .map(|from| cell(from, to).chars().count())
                .max()
                .unwrap_or(0)
        };
        let mut head = "   ".to_owned();
        for to in 0..count {
            head += &format!("  {to:<width$}", width = width(to));
        }
        writeln!(f, "{}", head.trim_end())?;
        for from in 0..count {
            let mut line = format!("{from:>3}");
            for to in 0..count {
                line += &format!("  {:<width$}", cell(from, to), width = width(to));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        for edge in self
            .edges
            .iter()
            .filter(|edge| edge.from < edge.to && !edge.link_told_by.is_empty())
        {
            writeln!(
                f,
                "link {} - {}: {}, told by {}",
                edge.from, edge.to, edge.link, edge.link_told_by
            )?;
        }
        if self.edges.iter().any(|edge| edge.link_told_by.is_empty()) {
            writeln!(
                f,
                "Vulkan has no word for links: what nobody told is unknown, and not guessed."
            )?;
        }
        Ok(())
    }

    /// How `from` uses what belongs to `to`.
    #[must_use]
    pub fn edge(&self, from: usize, to: usize) -> Option<&EdgeRow> {
        self.edges
            .iter()
            .find(|edge| (edge.from, edge.to) == (from, to))
    }
}

impl fmt::Display for ShownDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let list = |names: &[String]| {
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        writeln!(
            f,
            "device {}: {} ({} {}, Vulkan {})",
            self.index, self.name, self.driver_name, self.driver_id, self.api_version
        )?;
        writeln!(
            f,
            "  device UUID {}, driver UUID {}",
            or_none(&self.device_uuid),
            or_none(&self.driver_uuid)
        )?;
        let node = self
            .numa_node
            .map_or_else(|| "unknown".to_owned(), |node| node.to_string());
        writeln!(
            f,
            "  LUID {}, PCI {}, NUMA node {node}",
            or_none(&self.device_luid),
            or_none(&self.pci)
        )?;
        writeln!(
            f,
            "  memory in: {}; out: {}",
            list(&self.memory_import),
            list(&self.memory_export)
        )?;
        writeln!(
            f,
            "  semaphores in: {}; out: {}",
            list(&self.semaphore_import),
            list(&self.semaphore_export)
        )?;
        write!(f, "  can: {}", list(&self.capabilities))
    }
}
