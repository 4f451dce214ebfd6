//! The snapshot for a terminal.

#![forbid(unsafe_code)]

use core::fmt::{self, Write as _};

use super::{Snapshot, SnapshotNode};
use crate::adapters::HostSource;
use crate::byte_count::ByteCount;
use crate::foreign::ForeignKind;
use crate::scope::Scope;

const NAME_WIDTH: usize = 34;

/// What the columns are, for who sees a table for the first time.
const LEGEND: &str = "  bytes of a context and all below it. command to instance: live now, by scope; live: their sum; own: without the\n  contexts below; peak: the most that was live (<=: or less); blocks: live now; taken: allocated since it was created\n";

/// A tree with live bytes by scope, in sum, at the peak, live blocks and bytes ever taken. A row is the sum of its context and of all
/// below it, so that a context's row is its `own` bytes and its children's rows; a sum of peaks is an upper limit, `<=`. Two lines that
/// explain the columns follow, and one with the totals, which says how much of them the copy itself is where that is known, and, where there is any, foreign memory by kind and by the contexts that declared it.
impl<A: HostSource> fmt::Display for Snapshot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:NAME_WIDTH$}", "context")?;
        for scope in Scope::ALL {
            write!(f, "{scope:>10}")?;
        }
        writeln!(
            f,
            "{:>10}{:>10}{:>12}{:>8}{:>10}",
            "live", "own", "peak", "blocks", "taken"
        )?;
        for (index, node) in self.nodes().iter().enumerate() {
            self.write_name(f, node)?;
            let sum = self.subtree(index);
            for scope in Scope::ALL {
                write!(f, "{:>10}", Amount(sum.scope(scope).live_bytes))?;
            }
            let all = sum.total();
            let own = node.usage.total().live_bytes;
            let bound = if all.peak_slack > 0 { "<=" } else { "" };
            writeln!(
                f,
                "{:>10}{:>10}{bound:>4}{:>8}{:>8}{:>10}",
                Amount(all.live_bytes),
                Amount(own),
                Amount(all.peak_bytes),
                all.live_blocks,
                Amount(all.total_bytes),
            )?;
        }
        f.write_str(LEGEND)?;
        self.write_total(f)?;
        self.write_foreign(f)
    }
}

/// Nothing is a dash: a table is read by what stands out.
struct Amount(u64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            f.pad("-")
        } else {
            ByteCount(self.0).fmt(f)
        }
    }
}

impl<A: HostSource> Snapshot<A> {
    /// Indented, with label, up to the first column of figures.
    fn write_name(&self, f: &mut fmt::Formatter<'_>, node: &SnapshotNode) -> fmt::Result {
        let label = self.label(node).unwrap_or("");
        let separator = if label.is_empty() { "" } else { " " };
        let closed = if node.closed { " (closed)" } else { "" };
        let indent = node.depth.saturating_mul(2).min(NAME_WIDTH);
        write!(f, "{:indent$}{}{separator}", "", node.name)?;
        for c in label.chars() {
            // A row stays a row.
            f.write_char(if c.is_control() { ' ' } else { c })?;
        }
        f.write_str(closed)?;
        let width = [node.name, separator, label, closed]
            .iter()
            .fold(indent, |sum, part| sum.saturating_add(part.chars().count()));
        write!(f, "{:1$}", "", NAME_WIDTH.saturating_sub(width))
    }

    fn write_total(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.total().total();
        let contexts = self.nodes().len();
        write!(
            f,
            "total: {} ({} bytes) live in {} blocks of {contexts} contexts, each with its own record; at most {} ({} bytes) at the peak",
            ByteCount(all.live_bytes),
            all.live_bytes,
            all.live_blocks,
            ByteCount(all.peak_bytes),
            all.peak_bytes,
        )?;
        if self.counted {
            write!(f, "; {} bytes are this snapshot's", self.copy_bytes())?;
        }
        writeln!(f)
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
                    Amount(declared.live_bytes),
                    Amount(declared.peak_bytes),
                    Amount(declared.total_bytes)
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
