//! The snapshot as JSON, written straight into a sink.

#![forbid(unsafe_code)]

use core::fmt::{self, Write};

use super::{Snapshot, SnapshotNode};
use crate::account::Usage;
use crate::adapters::HostSource;
use crate::error::ContextId;
use crate::foreign::ForeignKind;
use crate::json::Json;
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
        Json::new(sink).list(|json| {
            self.nodes()
                .iter()
                .try_for_each(|node| json.object(|json| self.write_node(json, node)))
        })
    }

    fn write_node(&self, json: &mut Json<'_>, node: &SnapshotNode) -> fmt::Result {
        json.plain("id", node.id.get())?;
        json.plain_or_null("parent", node.parent.map(ContextId::get))?;
        json.plain("depth", node.depth)?;
        json.string("name", node.name)?;
        json.string_or_null("label", self.label(node))?;
        json.string("scope", node.scope)?;
        json.plain("closed", node.closed)?;
        write_usage(json, ["usage", "foreign"], &node.usage)?;
        write_usage(json, ["gone", "foreign_gone"], &node.gone)?;
        let Some(budget) = node.budget else {
            return json.plain("budget", "null");
        };
        json.object_at("budget", |json| {
            json.plain("limit", budget.limit)?;
            json.plain("charged", budget.charged)?;
            json.plain("high", budget.high)?;
            json.plain("slice", budget.slice)
        })
    }
}

fn write_usage(json: &mut Json<'_>, [own, foreign]: [&str; 2], usage: &Usage) -> fmt::Result {
    json.object_at(own, |json| {
        Scope::ALL.into_iter().try_for_each(|scope| {
            let row = usage.scope(scope);
            if row.total_blocks == 0 && row.live_blocks == 0 {
                return Ok(());
            }
            json.object_at(scope, |json| {
                json.plain("live_bytes", row.live_bytes)?;
                json.plain("live_blocks", row.live_blocks)?;
                json.plain("peak_bytes", row.peak_bytes)?;
                json.plain("peak_slack", row.peak_slack)?;
                json.plain("peak_blocks", row.peak_blocks)?;
                json.plain("total_bytes", row.total_bytes)?;
                json.plain("total_blocks", row.total_blocks)
            })
        })
    })?;
    json.object_at(foreign, |json| {
        ForeignKind::ALL.into_iter().try_for_each(|kind| {
            let row = usage.foreign(kind);
            if row.is_empty() {
                return Ok(());
            }
            json.object_at(kind, |json| {
                json.plain("live_bytes", row.live_bytes)?;
                json.plain("peak_bytes", row.peak_bytes)?;
                json.plain("total_bytes", row.total_bytes)
            })
        })
    })
}
