//! Moving values from one context to another: one of them, or all that a context owns.

use super::grow;
use super::table::{self, Locked};
use super::{Owned, find, locked_for};
use crate::context::{
    CLOSED, Context, ContextHandle, ContextMove, ContextNode, check_room, check_transfer, transfer,
};
use crate::error::{HostError, Misuse};

impl ContextHandle {
    /// Moves a value from `from` to this context, as its newest: the block stays where it is and is charged to this context. Returns the new
    /// id; the old one is invalid. O(1).
    ///
    /// The value's charge does not change in budgets above both contexts; the table of this context may have to grow.
    ///
    /// # Errors
    /// Nothing was changed: as [`remove`](ContextHandle::remove), for `from`; [`Misuse::SameContext`]; [`Misuse::OtherBacking`] when the
    /// contexts draw on different allocators, [`Misuse::OtherScope`] when they name different scopes; [`HostError::Closed`] when
    /// this one is closed; [`HostError::OverBudget`] when its budget cannot hold the value.
    pub fn steal<T: Send + 'static>(
        &self,
        from: &ContextHandle,
        id: Owned<T>,
    ) -> Result<Owned<T>, HostError> {
        let (source, node) = (from.node(), self.node());
        check_transfer(source, node)?;
        drop(locked_for(source, id)?);
        loop {
            if let (Some(theirs), Some(ours)) = table::lock_both(source, node)
                && ours.room() > 0
            {
                let (slot, kind) = find(source, &theirs, id)?;
                if node.flags() & CLOSED != 0 {
                    return Err(HostError::Closed { context: node.id() });
                }
                let bytes = kind.layout.size() as u64;
                transfer(source, node, u64::from(bytes > 0), bytes)?;
                let taken = theirs.remove(slot, kind);
                if let Some(put) = ours.put(taken.value, kind) {
                    return Ok(Owned::new(node.id(), &put));
                }
            }
            let bytes = find(source, &locked_for(source, id)?, id)?.1.layout.size() as u64;
            check_room(source, node, bytes.saturating_add(grow::growth(node, 1)))?;
            grow::grow_by(node, 1)?;
        }
    }

    /// Moves all values of `from` and all contexts below it, whatever their owners, to this context. They keep their order and are newer
    /// than this context's own. Moves everything or nothing. `from` stays and is empty.
    ///
    /// The ids of the values become invalid; [`steal`](ContextHandle::steal) a value that is needed by id later. Contexts move as with
    /// [`Context::reparent`].
    ///
    /// O(values + contexts directly below). Budgets above both contexts do not change.
    ///
    /// # Errors
    /// Nothing was changed. [`Misuse::SameContext`]; [`Misuse::Cycle`] when this context is below `from`; [`Misuse::Held`] while there is a
    /// hold on one of the values; as [`steal`](ContextHandle::steal) and [`Context::reparent`] otherwise.
    pub fn adopt(&self, from: &Context) -> Result<(), HostError> {
        let (source, node) = (from.node(), self.node());
        check_transfer(source, node)?;
        loop {
            let (theirs, ours) = table::lock_both(source, node);
            if theirs.as_ref().is_some_and(|table| table.is_held()) {
                return Err(HostError::Misuse(Misuse::Held));
            }
            let wanted = theirs.as_ref().map_or(0, |table| table.live_len.get());
            let room = ours.as_ref().map_or(0, |table| table.room());
            let values = theirs.as_ref().map_or((0, 0), |table| table.values());
            let missing = wanted.saturating_sub(room);
            if missing == 0 {
                return adopt_all(from, self, values, theirs.as_ref().zip(ours.as_ref()));
            }
            drop((theirs, ours));
            ContextMove::of_children(from, self, values, |context_move, held, above| {
                context_move.check(held, above)
            })?;
            check_room(
                source,
                node,
                values.0.saturating_add(grow::growth(node, missing)),
            )?;
            grow::grow_by(node, missing)?;
        }
    }
}

/// With room for all values in the destination's table.
fn adopt_all(
    from: &Context,
    to: &ContextHandle,
    values: (u64, u64),
    tables: Option<(&Locked<'_>, &Locked<'_>)>,
) -> Result<(), HostError> {
    let (source, node): (&ContextNode, &ContextNode) = (from.node(), to.node());
    if node.flags() & CLOSED != 0 {
        return Err(HostError::Closed { context: node.id() });
    }
    if !ContextMove::of_children(from, to, values, |context_move, held, above| {
        context_move.apply(held, above)
    })? {
        // Values alone.
        transfer(source, node, values.1, values.0)?;
    }
    let Some((theirs, ours)) = tables else {
        return Ok(());
    };
    let mut at = theirs.live.oldest();
    while let Some(slot) = at {
        at = slot.newer();
        if let Some(kind) = slot.kind.get() {
            let taken = theirs.remove(slot, kind);
            ours.put(taken.value, kind);
        }
    }
    Ok(())
}
