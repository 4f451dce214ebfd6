//! Values that a context owns: reached by id, destroyed with the context.

use core::alloc::Layout;

use crate::context::{
    CLOSED, Context, ContextHandle, ContextMove, ContextNode, check_room, check_transfer, transfer,
};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;

pub use hold::{Hold, HoldMut, Owned};
use table::{DOOMED, Entry, Locked, Value, ValueType};
pub(crate) use table::{bytes_freed_with, free_table};

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
/// A value has a block of its own, of exactly its size, and 32 bytes in the context's table, which doubles when it is full; the table is memory of the context,
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
        let unlisted = DetachedValue {
            node,
            value: Value {
                block,
                kind: ValueType::of::<T>(),
            },
        };
        match table::put(node, unlisted.value) {
            Ok(number) => {
                core::mem::forget(unlisted);
                Ok(Owned::new(node.id(), number))
            }
            // SAFETY: a `T` was written above.
            Err(error) => Err(Rejected::new(unsafe { unlisted.into_value() }, error)),
        }
    }

    /// Removes a value and returns it.
    ///
    /// # Errors
    /// [`Misuse::OtherContext`] when this context never owned the value; [`Misuse::NotOwned`] when it no longer owns it
    /// ([`HostError::Closed`] when the context has ended); [`Misuse::Held`] while there is a hold on it.
    #[inline]
    pub fn remove<T: Send + 'static>(&self, id: Owned<T>) -> Result<T, HostError> {
        let removed = remove(self.node(), id)?;
        // SAFETY: an id's value is of its type: its number is no other value's.
        Ok(unsafe { removed.into_value() })
    }

    /// Destroys a value now. Allocates nothing.
    ///
    /// # Errors
    /// As [`remove`](ContextHandle::remove).
    #[inline]
    pub fn destroy<T: Send + 'static>(&self, id: Owned<T>) -> Result<(), HostError> {
        remove(self.node(), id).map(drop)
    }

    /// How many values this context owns. O(1).
    #[must_use]
    pub fn owned_values(&self) -> usize {
        table::lock(self.node()).map_or(0, |table| table.live())
    }
}

/// Removes a value without holds.
#[inline]
fn remove<T>(node: &ContextNode, id: Owned<T>) -> Result<DetachedValue<'_>, HostError> {
    let mut table = locked_for(node, id)?;
    find(node, &mut table, id)?;
    let value = table.remove(id.number());
    value
        .map(|value| DetachedValue { node, value })
        .ok_or(HostError::Misuse(Misuse::NotOwned))
}

/// Locks the table of `node`, if that is the id's context.
#[inline]
fn locked_for<T>(node: &ContextNode, id: Owned<T>) -> Result<Locked<'_>, HostError> {
    if id.context() != node.id() {
        return Err(HostError::Misuse(Misuse::OtherContext));
    }
    table::lock(node).ok_or(HostError::Misuse(Misuse::NotOwned))
}

/// A present value without holds.
#[inline]
fn find<T>(node: &ContextNode, table: &mut Locked<'_>, id: Owned<T>) -> Result<Value, HostError> {
    match look_up(node, table, id)? {
        (value, entry) if entry.holds == 0 => Ok(value),
        _ => Err(HostError::Misuse(Misuse::Held)),
    }
}

/// A present value and its entry. The id's context is `node`.
#[inline]
fn look_up<'t, T>(
    node: &ContextNode,
    table: &'t mut Locked<'_>,
    id: Owned<T>,
) -> Result<(Value, &'t mut Entry), HostError> {
    let entry = table
        .entry(id.number())
        .filter(|entry| entry.holds & DOOMED == 0);
    match entry.and_then(|entry| Some((entry.value?, entry))) {
        Some(found) => Ok(found),
        None if node.flags() & CLOSED != 0 => Err(HostError::Closed { context: node.id() }),
        None => Err(HostError::Misuse(Misuse::NotOwned)),
    }
}

/// A value that is in no table. Dropping it runs the destructor and frees the block, without a lock held.
struct DetachedValue<'n> {
    node: &'n ContextNode,
    value: Value,
}

/// A value's block, freed after the value, also after a panic of its destructor.
struct ValueBlock<'n>(&'n ContextNode, Value);

impl Drop for ValueBlock<'_> {
    fn drop(&mut self) {
        let Self(node, value) = *self;
        // SAFETY: the block was allocated from this node, or its charge moved here, in its default scope with the layout of the kind.
        unsafe { node.deallocate(value.block, value.kind.layout, node.scope) };
    }
}

impl DetachedValue<'_> {
    /// Moves the value out of its block, and frees the block.
    ///
    /// # Safety
    /// The value is a `T`.
    #[inline]
    unsafe fn into_value<T>(self) -> T {
        let block = ValueBlock(self.node, self.value);
        core::mem::forget(self);
        // SAFETY: the value is a `T` (this function's contract), which is read once: freeing the block does not touch it.
        unsafe { block.1.block.cast::<T>().read() }
    }
}

impl Drop for DetachedValue<'_> {
    #[inline]
    fn drop(&mut self) {
        let block = ValueBlock(self.node, self.value);
        if let Some(destroy) = self.value.kind.destroy {
            // SAFETY: the value is in no table, so that nothing else reaches it.
            unsafe { destroy(block.1.block) };
        }
    }
}

/// Destroys the values of an ending node, newest first. A held value is destroyed with its last hold.
pub(crate) fn end_values(node: &ContextNode) {
    let mut before = u64::MAX;
    destroy_each(node, |table| table.remove_newest(&mut before, true));
}

/// The number of the next value of the node.
pub(crate) fn next_value(node: &ContextNode) -> u64 {
    table::lock(node).map_or(0, |table| table.next_number())
}

/// Destroys the values with a number below `before`, newest first, except held ones. `before` tells how far it came, also after a panic.
pub(crate) fn destroy_values(node: &ContextNode, before: &mut u64) {
    destroy_each(node, |table| table.remove_newest(before, false));
}

/// Destroys the remaining values of a node without references: their holds were forgotten (`mem::forget`) and can no longer be used.
pub(crate) fn destroy_leftovers(node: &ContextNode) {
    destroy_each(node, Locked::remove_any);
}

/// Destroys values one by one, each removed under the lock and destroyed outside it.
fn destroy_each<'n>(
    node: &'n ContextNode,
    mut remove: impl FnMut(&mut Locked<'n>) -> Option<Value>,
) {
    while let Some(value) = table::lock(node).and_then(|mut table| remove(&mut table)) {
        drop(DetachedValue { node, value });
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
            if let (Some(mut theirs), Some(mut ours)) = table::lock_both(source, node)
                && ours.room() > 0
            {
                let value = find(source, &mut theirs, id)?;
                if node.flags() & CLOSED != 0 {
                    return Err(HostError::Closed { context: node.id() });
                }
                let bytes = value.kind.layout.size() as u64;
                transfer(source, node, u64::from(bytes > 0), bytes)?;
                theirs.remove(id.number());
                if let Some(number) = ours.push(value) {
                    return Ok(Owned::new(node.id(), number));
                }
            }
            let value = find(source, &mut locked_for(source, id)?, id)?;
            let bytes = value.kind.layout.size() as u64;
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
            let is_held = |table: &Locked<'_>| table.entries().any(|entry| entry.holds != 0);
            if theirs.as_ref().is_some_and(is_held) {
                return Err(HostError::Misuse(Misuse::Held));
            }
            let wanted = theirs.as_ref().map_or(0, Locked::live);
            let room = ours.as_ref().map_or(0, Locked::room);
            let values = theirs.as_ref().map_or((0, 0), Locked::sums);
            if wanted <= room {
                return adopt_all(from, self, values, theirs.zip(ours));
            }
            drop((theirs, ours));
            ContextMove::of_children(from, self, values, |context_move, _, above| {
                context_move.check(above)
            })?;
            check_room(
                source,
                node,
                values.0.saturating_add(table::growth(node, wanted)),
            )?;
            table::grow_by(node, wanted)?;
        }
    }
}

/// With room for all values in the destination's table.
fn adopt_all(
    from: &Context,
    to: &ContextHandle,
    values: (u64, u64),
    tables: Option<(Locked<'_>, Locked<'_>)>,
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
    if let Some((mut theirs, mut ours)) = tables {
        theirs.drain(|value| {
            ours.push(value);
        });
    }
    Ok(())
}
