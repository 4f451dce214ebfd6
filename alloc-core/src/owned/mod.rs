//! Values that a context owns: reached by id, destroyed with the context.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::context::{
    CLOSED, Context, ContextHandle, ContextMove, ContextNode, check_room, check_transfer, transfer,
};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;

pub use hold::{Hold, HoldMut, Owned};
use table::{DOOMED, List, Locked, RemovedValue, ValueSlot, ValueType};
pub(crate) use table::{Marker, PlacedMarker, bytes_freed_with, free_table};

mod hold;
mod table;

/// Owned values. A context owns them until it ends or the caller destroys or removes them; an id reaches them.
///
/// When a context ends (see [`Context`]), the values of the contexts below it are destroyed first, newest context first,
/// then its own values, newest first; each is removed under the context's lock and destroyed outside any lock. A destructor may use the
/// whole library: it may free its siblings, drop handles and close contexts. Allocating from the ending context or adding a value to it
/// fails with [`Closed`](HostError::Closed). When a destructor panics, the rest is destroyed first and the panic then continues. Several
/// threads may end parts of a tree at the same time: one of them destroys each value, once. The order holds within one thread, which does
/// not wait for values of a context that another thread is ending.
///
/// A value has a block of its own, of exactly its size, and 40 bytes in the context's table; the table is memory of the context,
/// made with the first value. A value without size takes no block.
impl ContextHandle {
    /// Moves `value` into a block of this context, which owns it from now on.
    ///
    /// A value may hold handles, also of this context: handles keep no values alive, so there is no cycle. Any thread may destroy it.
    ///
    /// ```
    /// use alloc_core::{Context, ContextOptions, FromGlobalAlloc, HostError, Misuse};
    /// # static SYSTEM: FromGlobalAlloc<std::alloc::System> = FromGlobalAlloc::SYSTEM;
    /// let root = Context::root_static(&SYSTEM, ContextOptions::new("compiler"))?;
    /// let (module, function) = (root.child("module")?, root.child("function")?);
    ///
    /// let name = function.own(String::from("main"))?;
    /// assert_eq!(*function.get(name)?, "main");
    /// let name = module.steal(&function, name)?; // its block stays where it is
    /// module.get_mut(name)?.push_str("_0");
    ///
    /// let temporary = function.own([0_u8; 256])?;
    /// drop(function); // and with it what it owns
    /// assert_eq!(module.remove(name)?, "main_0");
    /// assert_eq!(module.get(temporary).err(), Some(HostError::Misuse(Misuse::OtherContext)));
    /// # Ok::<(), HostError>(())
    /// ```
    ///
    /// # Errors
    /// The value, with [`HostError::Closed`], [`HostError::OverBudget`] or [`HostError::OutOfHostMemory`].
    #[inline]
    pub fn own<T: Send + 'static>(&self, value: T) -> Result<Owned<T>, Rejected<T, HostError>> {
        let node = self.node();
        let layout = Layout::new::<T>();
        let Ok(block) = node.allocate(layout, node.scope) else {
            return Err(Rejected {
                value,
                error: node.refusal(layout, node.scope),
            });
        };
        // SAFETY: the new block is as large and as aligned as a `T`.
        unsafe { block.cast::<T>().write(value) };
        // If the allocator unwinds, the value is destroyed and its block freed.
        let unlisted = UnlistedValue {
            node,
            value: block,
            kind: ValueType::of::<T>(),
        };
        let put = table::put(node, block, unlisted.kind);
        core::mem::forget(unlisted);
        put.map(|put| Owned::new(node.id(), &put)).map_err(|error| {
            let removed = RemovedValue {
                value: block,
                kind: ValueType::of::<T>(),
            };
            // SAFETY: a `T` was written above.
            let value = unsafe { removed.into_value(node) };
            Rejected { value, error }
        })
    }

    /// Removes a value and returns it.
    ///
    /// # Errors
    /// [`Misuse::OtherContext`] when this context never owned the value; [`Misuse::NotOwned`] when it no longer owns it
    /// ([`HostError::Closed`] when the context has ended); [`Misuse::Held`] while there is a hold on it.
    #[inline]
    pub fn remove<T: Send + 'static>(&self, id: Owned<T>) -> Result<T, HostError> {
        let taken = remove_slot(self.node(), id)?;
        // SAFETY: an id's value is of its type: generations tell apart what else was in the slot.
        Ok(unsafe { taken.into_value(self.node()) })
    }

    /// Destroys a value now. Allocates nothing.
    ///
    /// # Errors
    /// As [`remove`](ContextHandle::remove).
    #[inline]
    pub fn destroy<T: Send + 'static>(&self, id: Owned<T>) -> Result<(), HostError> {
        remove_slot(self.node(), id)?.destroy(self.node());
        Ok(())
    }

    /// How many values this context owns. O(1).
    #[must_use]
    pub fn owned_values(&self) -> usize {
        table::lock(self.node()).map_or(0, |table| table.live_len.get())
    }
}

/// A value in its block that has no slot yet.
struct UnlistedValue<'n> {
    node: &'n ContextNode,
    value: NonNull<u8>,
    kind: &'static ValueType,
}

impl Drop for UnlistedValue<'_> {
    fn drop(&mut self) {
        RemovedValue {
            value: self.value,
            kind: self.kind,
        }
        .destroy(self.node);
    }
}

/// Removes a value without holds from its slot.
#[inline]
fn remove_slot<T>(node: &ContextNode, id: Owned<T>) -> Result<RemovedValue, HostError> {
    let table = locked_for(node, id)?;
    let (slot, kind) = find(node, &table, id)?;
    Ok(table.remove(slot, kind))
}

/// Locks the table of `node`, if that is the id's context.
#[inline]
fn locked_for<T>(node: &ContextNode, id: Owned<T>) -> Result<Locked<'_>, HostError> {
    if id.context() != node.id() {
        return Err(HostError::Misuse(Misuse::OtherContext));
    }
    table::lock(node).ok_or(HostError::Misuse(Misuse::NotOwned))
}

/// The slot of a present value without holds.
#[inline]
fn find<'t, T>(
    node: &ContextNode,
    table: &'t Locked<'_>,
    id: Owned<T>,
) -> Result<(&'t ValueSlot, &'static ValueType), HostError> {
    let (slot, kind) = look_up(node, table, id)?;
    if slot.is_free_to_go() {
        Ok((slot, kind))
    } else {
        Err(HostError::Misuse(Misuse::Held))
    }
}

/// The slot of a present value. The id's context is `node`.
#[inline]
fn look_up<'t, T>(
    node: &ContextNode,
    _: &'t Locked<'_>,
    id: Owned<T>,
) -> Result<(&'t ValueSlot, &'static ValueType), HostError> {
    // SAFETY: only this module makes ids; the id's context is this node, in whose table the slot stays.
    let slot: &'t ValueSlot = unsafe { id.slot().as_ref() };
    match slot.kind.get() {
        Some(kind)
            if slot.generation.get() == id.generation() && slot.holds.get() & DOOMED == 0 =>
        {
            Ok((slot, kind))
        }
        _ if node.flags() & CLOSED != 0 => Err(HostError::Closed { context: node.id() }),
        _ => Err(HostError::Misuse(Misuse::NotOwned)),
    }
}

/// Frees a value's block after the value, also after a panic of its destructor.
struct ValueBlock<'n> {
    node: &'n ContextNode,
    removed: RemovedValue,
}

impl Drop for ValueBlock<'_> {
    fn drop(&mut self) {
        // SAFETY: the block was allocated from this node, or its charge moved here, in its default scope with the layout of the kind.
        unsafe {
            self.node.deallocate(
                self.removed.value,
                self.removed.kind.layout,
                self.node.scope,
            )
        };
    }
}

impl RemovedValue {
    /// Runs the destructor and frees the block. No lock is held.
    #[inline]
    pub(super) fn destroy(self, node: &ContextNode) {
        let block = ValueBlock {
            node,
            removed: self,
        };
        if let Some(destroy) = block.removed.kind.destroy {
            // SAFETY: the value was removed from its slot, so that nothing else reaches it.
            unsafe { destroy(block.removed.value) };
        }
    }

    /// Moves the value out of its block, and frees the block.
    ///
    /// # Safety
    /// The value is a `T`.
    #[inline]
    unsafe fn into_value<T>(self, node: &ContextNode) -> T {
        let block = ValueBlock {
            node,
            removed: self,
        };
        // SAFETY: the value is a `T` (this function's contract), which is read once: freeing the block does not touch it.
        unsafe { block.removed.value.cast::<T>().read() }
    }
}

/// Destroys the values of an ending node, newest first. A held value is destroyed with its last hold.
pub(crate) fn end_values(node: &ContextNode) {
    while let Some(taken) = next(node) {
        taken.destroy(node);
    }
}

fn next(node: &ContextNode) -> Option<RemovedValue> {
    let table = table::lock(node)?;
    let mut at = table.live.newest();
    while let Some(slot) = at {
        at = slot.older();
        match slot.kind.get() {
            Some(kind) if slot.is_free_to_go() => return Some(table.remove(slot, kind)),
            Some(kind) => table.doom(slot, kind),
            None => {} // a marker
        }
    }
    None
}

fn newest(list: &List) -> Option<(&ValueSlot, &'static ValueType)> {
    let slot = list.newest()?;
    Some((slot, slot.kind.get()?))
}

/// Destroys the remaining values of a node without references: their holds were forgotten (`mem::forget`) and can no longer be used.
pub(crate) fn destroy_leftovers(node: &ContextNode) {
    let leftover = || {
        let table = table::lock(node)?;
        let (slot, kind) = newest(&table.live).or_else(|| newest(&table.doomed))?;
        Some(table.remove(slot, kind))
    };
    while let Some(taken) = leftover() {
        taken.destroy(node);
    }
}

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
            check_room(source, node, bytes.saturating_add(table::growth(node, 1)))?;
            table::grow_by(node, 1)?;
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
                values.0.saturating_add(table::growth(node, missing)),
            )?;
            table::grow_by(node, missing)?;
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
