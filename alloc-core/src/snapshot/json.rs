//! The snapshot as JSON, written straight into a sink.

#![forbid(unsafe_code)]

use core::fmt::{self, Write};

use super::{Snapshot, SnapshotNode};
use crate::account::{ScopeUsage, Usage};
use crate::adapters::HostSource;
use crate::foreign::{ForeignKind, ForeignUsage};
use crate::scope::Scope;

impl<A: HostSource> Snapshot<A> {
    /// Writes an array of contexts, parents before children, allocating nothing.
    ///
    /// Each is `{"id", "parent", "depth", "name", "label", "scope", "closed", "usage": {scope: {..}}, "foreign": {kind: {..}},
    /// "gone", "foreign_gone", "budget"}`; a scope or kind that nothing was ever taken for is left out. Byte and block counts are integers.
    ///
    /// # Errors
    /// Whatever the sink says.
    pub fn write_json(&self, sink: &mut impl Write) -> fmt::Result {
        sink.write_char('[')?;
        for (index, node) in self.nodes().iter().enumerate() {
            if index > 0 {
                sink.write_char(',')?;
            }
            self.write_node(sink, node)?;
        }
        sink.write_char(']')
    }

    fn write_node(&self, sink: &mut impl Write, node: &SnapshotNode) -> fmt::Result {
        write!(sink, "{{\"id\":{},\"parent\":", node.id.get())?;
        match node.parent {
            Some(parent) => write!(sink, "{}", parent.get())?,
            None => sink.write_str("null")?,
        }
        write!(sink, ",\"depth\":{},\"name\":", node.depth)?;
        write_string(sink, node.name)?;
        sink.write_str(",\"label\":")?;
        match self.label(node) {
            Some(label) => write_string(sink, label)?,
            None => sink.write_str("null")?,
        }
        write!(
            sink,
            ",\"scope\":\"{}\",\"closed\":{},\"usage\":",
            node.scope, node.closed
        )?;
        write_usage(sink, &node.usage)?;
        sink.write_str(",\"foreign\":")?;
        write_foreign(sink, &node.usage)?;
        sink.write_str(",\"gone\":")?;
        write_usage(sink, &node.gone)?;
        sink.write_str(",\"foreign_gone\":")?;
        write_foreign(sink, &node.gone)?;
        sink.write_str(",\"budget\":")?;
        match node.budget {
            Some(b) => write!(
                sink,
                "{{\"limit\":{},\"charged\":{},\"high\":{},\"slice\":{}}}",
                b.limit, b.charged, b.high, b.slice
            )?,
            None => sink.write_str("null")?,
        }
        sink.write_char('}')
    }
}

fn write_usage(sink: &mut impl Write, usage: &Usage) -> fmt::Result {
    sink.write_char('{')?;
    let mut first = true;
    for scope in Scope::ALL {
        let ScopeUsage {
            live_bytes,
            live_blocks,
            peak_bytes,
            peak_slack,
            peak_blocks,
            total_bytes,
            total_blocks,
        } = usage.scope(scope);
        if total_blocks == 0 && live_blocks == 0 {
            continue;
        }
        let comma = if first { "" } else { "," };
        first = false;
        write!(
            sink,
            "{comma}\"{scope}\":{{\"live_bytes\":{live_bytes},\"live_blocks\":{live_blocks},\"peak_bytes\":{peak_bytes},\
             \"peak_slack\":{peak_slack},\"peak_blocks\":{peak_blocks},\"total_bytes\":{total_bytes},\"total_blocks\":{total_blocks}}}"
        )?;
    }
    sink.write_char('}')
}

fn write_foreign(sink: &mut impl Write, usage: &Usage) -> fmt::Result {
    sink.write_char('{')?;
    for (at, kind) in ForeignKind::ALL
        .into_iter()
        .filter(|kind| !usage.foreign(*kind).is_empty())
        .enumerate()
    {
        let ForeignUsage {
            live_bytes,
            peak_bytes,
            total_bytes,
        } = usage.foreign(kind);
        let comma = if at == 0 { "" } else { "," };
        write!(
            sink,
            "{comma}\"{kind}\":{{\"live_bytes\":{live_bytes},\"peak_bytes\":{peak_bytes},\"total_bytes\":{total_bytes}}}"
        )?;
    }
    sink.write_char('}')
}

/// RFC 8259, section 7.
fn write_string(sink: &mut impl Write, text: &str) -> fmt::Result {
    sink.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => sink.write_str("\\\"")?,
            '\\' => sink.write_str("\\\\")?,
            c if u32::from(c) < 0x20 => write!(sink, "\\u{:04x}", u32::from(c))?,
            c => sink.write_char(c)?,
        }
    }
    sink.write_char('"')
}
