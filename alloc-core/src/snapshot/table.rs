//! The snapshot for a terminal.

#![forbid(unsafe_code)]

use core::fmt;

use super::{Snapshot, SnapshotNode};
use crate::adapters::HostSource;
use crate::foreign::ForeignKind;
use crate::scope::Scope;

const NAME_WIDTH: usize = 34;

/// A tree with live bytes a scope, then live, peak, blocks and bytes ever taken; each row is the context's own account. Below it,
/// where there is any, live, peak and total bytes of each kind of foreign memory, by the contexts that declared it.
impl<A: HostSource> fmt::Display for Snapshot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:NAME_WIDTH$}", "context")?;
        for scope in Scope::ALL {
            write!(f, "{scope:>11}")?;
        }
        writeln!(
            f,
            "{:>12}{:>12}{:>8}{:>8}{:>13}",
            "live", "peak", "slack", "blocks", "total"
        )?;
        for node in self.nodes() {
            self.write_name(f, node)?;
            for scope in Scope::ALL {
                write!(f, "{:>11}", node.usage.scope(scope).live_bytes)?;
            }
            let total = node.usage.total();
            writeln!(
                f,
                "{:>12}{:>12}{:>8}{:>8}{:>13}",
                total.live_bytes,
                total.peak_bytes,
                total.peak_slack,
                total.live_blocks,
                total.total_bytes
            )?;
        }
        self.write_foreign(f)
    }
}

impl<A: HostSource> Snapshot<A> {
    /// Indented, with label, up to the first column of figures.
    fn write_name(&self, f: &mut fmt::Formatter<'_>, node: &SnapshotNode) -> fmt::Result {
        let label = self.label(node).unwrap_or("");
        let separator = if label.is_empty() { "" } else { " " };
        let closed = if node.closed { " (closed)" } else { "" };
        let indent = node.depth.saturating_mul(2).min(NAME_WIDTH);
        write!(f, "{:indent$}{}{separator}{label}{closed}", "", node.name)?;
        let width = [node.name, separator, label, closed]
            .iter()
            .fold(indent, |sum, part| sum.saturating_add(part.chars().count()));
        write!(f, "{:1$}", "", NAME_WIDTH.saturating_sub(width))
    }

    fn write_foreign(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = true;
        for node in self.nodes() {
            for kind in ForeignKind::ALL {
                let declared = node.usage.foreign(kind);
                if declared.is_empty() {
                    continue;
                }
                if core::mem::take(&mut head) {
                    writeln!(
                        f,
                        "{:NAME_WIDTH$}{:>11}{:>12}{:>12}{:>13}",
                        "taken elsewhere", "kind", "live", "peak", "total"
                    )?;
                }
                self.write_name(f, node)?;
                writeln!(
                    f,
                    "{kind:>11}{:>12}{:>12}{:>13}",
                    declared.live_bytes, declared.peak_bytes, declared.total_bytes
                )?;
            }
        }
        Ok(())
    }
}

impl<A: HostSource> fmt::Debug for Snapshot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}
