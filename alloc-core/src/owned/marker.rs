//! A mark in the order of a context's values, which divides values added later from older ones.
//!
//! ```text
//!   live list:   newest | added later .. | marker | older .. | oldest
//! ```
//! A marker is a slot without a value on the stack of the thread that clears the context: it allocates nothing and uses no slot of the table.
//! Other walks skip it. It is unlinked with its [`PlacedMarker`].

use core::cell::Cell;
use core::iter::successors;

use super::slot::ValueSlot;
use super::table::{self, RemovedValue};
use crate::context::ContextNode;

/// See the file's head.
pub(crate) struct Marker(ValueSlot);

impl Marker {
    pub(crate) const fn new() -> Self {
        Self(ValueSlot::new())
    }

    /// Links the marker before the newest value of the node, if the node has values.
    pub(crate) fn mark<'m>(&'m self, node: &'m ContextNode) -> PlacedMarker<'m> {
        let marked = PlacedMarker {
            node,
            slot: &self.0,
            linked: Cell::new(false),
        };
        if let Some(table) = table::lock(node) {
            table.live.push(marked.slot);
            marked.linked.set(true);
        }
        marked
    }
}

/// A marker in a node's list, unlinked when dropped.
pub(crate) struct PlacedMarker<'m> {
    node: &'m ContextNode,
    slot: &'m ValueSlot,
    linked: Cell<bool>,
}

impl PlacedMarker<'_> {
    /// Destroys the values older than the marker, newest first, except held ones.
    pub(crate) fn destroy_older(&self) {
        while let Some(taken) = self.next() {
            taken.destroy(self.node);
        }
    }

    fn next(&self) -> Option<RemovedValue> {
        let table = table::lock(self.node)?;
        let newest = self.slot.older().filter(|_| self.linked.get());
        let (slot, kind) = successors(newest, |slot| slot.older())
            .find_map(|slot| Some((slot, slot.kind.get().filter(|_| slot.is_free_to_go())?)))?;
        Some(table.remove(slot, kind))
    }
}

impl Drop for PlacedMarker<'_> {
    fn drop(&mut self) {
        if self.linked.get()
            && let Some(table) = table::lock(self.node)
        {
            table.live.unlink(self.slot);
        }
    }
}
