//! The report for a terminal.

#![forbid(unsafe_code)]

use std::fmt;

use super::report::{DevicesReport, EdgeRow, ShownDevice, or};
use crate::table::{Columns, aligned};

impl fmt::Display for DevicesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            writeln!(f, "{device}")?;
        }
        for (number, group) in self.groups.iter().enumerate() {
            let members: Vec<String> = group.devices.iter().map(ToString::to_string).collect();
            let subset = if group.subset_allocation {
                "; memory can be allocated on some of them"
            } else {
                ""
            };
            writeln!(
                f,
                "device group {number} (VkPhysicalDeviceGroup): device{} {}{subset}",
                if members.len() == 1 { "" } else { "s" },
                members.join(", ")
            )?;
            match &group.peer_memory {
                Some(rows) => {
                    for row in rows {
                        writeln!(
                            f,
                            "  heap {}: {} with memory of {}: {}",
                            row.heap,
                            row.local,
                            row.remote,
                            or(&row.features, "nothing")
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
        let all = || 0..self.devices.len();
        let mut rows = vec![vec!["   ".to_owned()]];
        rows[0].extend(all().map(|to| to.to_string()));
        rows.extend(all().map(|from| {
            let cells = all().map(|to| cell(from, to));
            std::iter::once(format!("{from:>3}")).chain(cells).collect()
        }));
        writeln!(f, "{}", aligned(&rows, Columns::Text))?;
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
        writeln!(
            f,
            "device {}: {} ({} {}, Vulkan {})",
            self.index, self.name, self.driver_name, self.driver_id, self.api_version
        )?;
        let facts = self.facts().map(|(_, fact)| fact);
        let [
            device,
            driver,
            luid,
            pci,
            node,
            memory_in,
            memory_out,
            in_,
            out,
            can,
        ] = facts;
        writeln!(f, "  device UUID {device}, driver UUID {driver}")?;
        writeln!(f, "  LUID {luid}, PCI {pci}, NUMA node {node}")?;
        writeln!(f, "  memory in: {memory_in}; out: {memory_out}")?;
        writeln!(f, "  semaphores in: {in_}; out: {out}")?;
        write!(f, "  can: {can}")
    }
}
