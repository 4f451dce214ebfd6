#![forbid(unsafe_code)]

use core::fmt::{self, Write};

use crate::account::{ForeignKind, Usage};
use crate::adapters::HostSource;
use crate::budget::BudgetUsage;
use crate::byte_count::ByteCount;
use crate::collections::TryVec;
use crate::context::{CLOSED, ContextHandle, ContextNode, tree};
use crate::error::{ContextId, HostError};
use crate::json::Json;
use crate::scope::Scope;

/// A copy of a tree's accounts.
///
/// The tree's lock is held during the copy, so its shape is consistent; each account is exact when quiet.
/// [`Display`](core::fmt::Display) draws the tree with a column a scope; [`write_json`](Snapshot::write_json)
/// writes each context's own account. Both allocate nothing.
pub struct Snapshot<A: HostSource> {
    nodes: TryVec<SnapshotNode, A>,
    labels: TryVec<u8, A>,
}

/// One context of a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub struct SnapshotNode {
    /// The context's id.
    pub id: ContextId,
    /// The context above; `None` for the snapshot's top.
    pub parent: Option<ContextId>,
    /// The depth below the top.
    pub depth: usize,
    /// The name given at creation.
    pub name: &'static str,
    /// The scope of requests that name none.
    pub scope: Scope,
    /// True when the context is closed.
    pub closed: bool,
    /// Its own account.
    pub usage: Usage,
    /// The sums of ended contexts below it; their live bytes and blocks are lost.
    pub gone: Usage,
    /// The budget set on it.
    pub budget: Option<BudgetUsage>,
    label: (usize, usize),
}

impl<A: HostSource> Snapshot<A> {
    /// The contexts, parents before children, older siblings first.
    #[must_use]
    pub fn nodes(&self) -> &[SnapshotNode] {
        self.nodes.as_slice()
    }

    /// The label of a context of this snapshot.
    #[must_use]
    pub fn label(&self, node: &SnapshotNode) -> Option<&str> {
        let bytes = self.labels.as_slice().get(node.label.0..node.label.1)?;
        core::str::from_utf8(bytes).ok().filter(|label| !label.is_empty())
    }

    /// The account of the whole tree, ended contexts included.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.subtree(0)
    }

    /// The context at `index` of [`nodes`](Snapshot::nodes) and all below it; zeros when there is none.
    #[must_use]
    pub fn subtree(&self, index: usize) -> Usage {
        let Some((top, rest)) = self.nodes().get(index..).and_then(<[_]>::split_first) else {
            return Usage::default();
        };
        let below = rest.iter().take_while(|node| node.depth > top.depth);
        below.fold(top.usage.plus(&top.gone), |sum, node| sum.plus(&node.usage).plus(&node.gone))
    }
}

impl<A: HostSource + Clone> Snapshot<A> {
    /// Copies the accounts of `top` and all below it into memory of `allocator`, which may be a context of the same
    /// tree.
    ///
    /// If `allocator` is `top` or below it, the copied accounts contain the copy's two blocks.
    ///
    /// # Errors
    /// [`HostError`] when `allocator` refuses the room.
    pub fn capture(top: &ContextHandle, allocator: A) -> Result<Self, HostError> {
        let top = top.node();
        let mut nodes = TryVec::new_in(allocator.clone());
        let mut labels = TryVec::new_in(allocator);
        loop {
            // If `allocator` makes contexts, twice as much room each time ends the loop.
            let (mut count, mut label_bytes) = (nodes.capacity(), labels.capacity());
            tree::each(top, |node, _| {
                count += 1;
                label_bytes += node.label().map_or(0, str::len);
            });
            nodes.try_reserve_exact(count)?;
            labels.try_reserve_exact(label_bytes)?;
            let mut fits = true;
            tree::each(top, |node, depth| fits &= copy(node, depth, &mut nodes, &mut labels));
            if fits {
                return Ok(Self { nodes, labels });
            }
            // The tree grew meanwhile.
            nodes.clear();
            labels.clear();
        }
    }
}

/// Appends nothing without room.
fn copy<A: HostSource>(
    node: &ContextNode,
    depth: usize,
    nodes: &mut TryVec<SnapshotNode, A>,
    labels: &mut TryVec<u8, A>,
) -> bool {
    let label = node.label().unwrap_or("");
    let start = labels.len();
    let end = start.saturating_add(label.len());
    if nodes.len() == nodes.capacity() || end > labels.capacity() {
        return false;
    }
    let taken = SnapshotNode {
        id: node.id(),
        parent: node.parent().filter(|_| depth > 0).map(ContextNode::id),
        depth,
        name: node.name,
        scope: node.scope,
        closed: node.flags() & CLOSED != 0,
        usage: tree::node_usage(node),
        gone: tree::gone_usage(node),
        budget: node.budget_usage(),
        label: (start, end),
    };
    labels.try_extend_from_slice(label.as_bytes()).is_ok() && nodes.try_push(taken).is_ok()
}

const NAME_WIDTH: usize = 34;

const LEGEND: &str = "  bytes of a context and all below it. command to instance: live now, by scope; live: their sum; own: without the\n  contexts below; peak: the most that was live (<=: or less); blocks: live now; taken: allocated since it was created\n";

/// A row is the sum of its context and of all below it; a sum of peaks is an upper limit, `<=`. Two lines that explain
/// the columns follow, one with the totals, and foreign memory by kind and by the contexts that declared it.
impl<A: HostSource> fmt::Display for Snapshot<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:NAME_WIDTH$}", "context")?;
        for scope in Scope::ALL {
            write!(f, "{scope:>10}")?;
        }
        writeln!(f, "{:>10}{:>10}{:>12}{:>8}{:>10}", "live", "own", "peak", "blocks", "taken")?;
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
                "{:>10}{:>10}{bound:>4}{:>8} {:>7}{:>10}",
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

struct Amount(u64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.pad("-") } else { ByteCount(self.0).fmt(f) }
    }
}

impl<A: HostSource> Snapshot<A> {
    fn write_name(&self, f: &mut fmt::Formatter<'_>, node: &SnapshotNode) -> fmt::Result {
        let label = self.label(node).unwrap_or("");
        let separator = if label.is_empty() { "" } else { " " };
        let closed = if node.closed { " (closed)" } else { "" };
        let indent = node.depth.saturating_mul(2).min(NAME_WIDTH);
        write!(f, "{:indent$}{}{separator}", "", node.name)?;
        for c in label.chars() {
            // A control character must not end the row.
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
        writeln!(
            f,
            "total: {} ({} bytes) live in {} blocks of {contexts} contexts, each with its own record; at most {} ({} bytes) at the peak",
            ByteCount(all.live_bytes),
            all.live_bytes,
            all.live_blocks,
            ByteCount(all.peak_bytes),
            all.peak_bytes,
        )
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

impl<A: HostSource> Snapshot<A> {
    /// Writes an array of contexts, parents before children, allocating nothing.
    ///
    /// Each is `{"id", "parent", "depth", "name", "label", "scope", "closed", "usage": {scope: {..}}, "foreign": {kind:
    /// {..}}, "gone", "foreign_gone", "budget"}`; unused scopes and kinds are left out.
    ///
    /// # Errors
    /// The sink's.
    pub fn write_json(&self, sink: &mut impl Write) -> fmt::Result {
        Json::new(sink)
            .list(|json| self.nodes().iter().try_for_each(|node| json.object(|json| self.write_node(json, node))))
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
