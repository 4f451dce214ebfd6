//! The snapshot for a terminal.

#![forbid(unsafe_code)]

use core::fmt;

use super::Snapshot;
use crate::adapters::HostSource;
use crate::scope::Scope;

const NAME_WIDTH: usize = 34;

/// A tree with live bytes a scope, then live, peak, blocks and bytes ever taken; each row is the context's own account.
impl<A: HostSource> fmt::Display for Snapshot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:NAME_WIDTH$}", "context")?;
        for scope in Scope::ALL {
            write!(f, "{scope:>11}")?;
        }
        writeln!(f, "{:>12}{:>12}{:>8}{:>8}{:>13}", "live", "peak", "slack", "blocks", "total")?;
        for node in self.nodes() {
            let label = self.label(node).unwrap_or("");
            let separator = if label.is_empty() { "" } else { " " };
            let closed = if node.closed { " (closed)" } else { "" };
            let indent = node.depth.saturating_mul(2).min(NAME_WIDTH);
            write!(f, "{:indent$}{}{separator}{label}{closed}", "", node.name)?;
            let width =
                [node.name, separator, label, closed].iter().fold(indent, |sum, part| sum.saturating_add(part.chars().count()));
            write!(f, "{:1$}", "", NAME_WIDTH.saturating_sub(width))?;
            for scope in Scope::ALL {
                write!(f, "{:>11}", node.usage.scope(scope).live_bytes)?;
            }
            let total = node.usage.total();
            writeln!(
                f,
                "{:>12}{:>12}{:>8}{:>8}{:>13}",
                total.live_bytes, total.peak_bytes, total.peak_slack, total.live_blocks, total.total_bytes
            )?;
        }
        Ok(())
    }
}

impl<A: HostSource> fmt::Debug for Snapshot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}
