use core::alloc::Layout;

use crate::context::{CLOSED, Context, ContextHandle, ContextMove, ContextNode, check_room, check_transfer, transfer};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;
use crate::unwind::{Defer, run_to_end};

pub use hold::{Hold, HoldMut, Owned};
use table::{DOOMED, Locked, RemovedValue, ValueSlot, ValueType};
pub(crate) use table::{NodeBlock, bytes_freed_with, free_table};

mod hold;
mod table;

/// Owned values: a context owns them until it ends or the caller destroys or removes them; an id reaches them.
///
/// When a context ends (see [`Context`]), the values of the contexts below it are destroyed first, newest context
/// first, then its own, newest first, each outside any lock. A destructor may use the whole library, but allocating
/// from the ending context or adding a value to it is [`Closed`](HostError::Closed). When one panics, the rest is
/// destroyed first. The order holds within a thread, which does not wait for values that another thread destroys.
///
/// A value has a block of exactly its size (none without size), and 40 bytes in the context's table.
impl ContextHandle {
    /// Moves `value` into a block of this context, which owns it from now on.
    ///
    /// A value may hold handles, also of this context: they keep no values alive. Any thread may destroy it.
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
            return Err(Rejected { value, error: node.refusal(layout, node.scope) });
        };
        // SAFETY: a new block with the layout of a `T`.
        unsafe { block.cast::<T>().write(value) };
        let kind = ValueType::of::<T>();
        let unlisted = || RemovedValue { value: block, kind };
        // If the allocator unwinds, the value is destroyed.
        let unwound = Defer(|| unlisted().destroy(node));
        let put = table::put(node, block, kind);
        core::mem::forget(unwound);
        put.map(|put| Owned::new(node.id(), &put)).map_err(|error| {
            // SAFETY: a `T` was written above.
            let value = unsafe { unlisted().into_value(node) };
            Rejected { value, error }
        })
    }

    /// Removes a value and returns it.
    ///
    /// # Errors
    /// [`Misuse::OtherContext`] when this context never owned the value; [`Misuse::NotOwned`] when it no longer does
    /// ([`HostError::Closed`] after its end); [`Misuse::Held`] while there is a hold on it.
    #[inline]
    pub fn remove<T: Send + 'static>(&self, id: Owned<T>) -> Result<T, HostError> {
        let taken = remove_slot(self.node(), id)?;
        // SAFETY: generations: an id's value is of its type.
        Ok(unsafe { taken.into_value(self.node()) })
    }

    /// Destroys a value now. Fails as [`remove`](ContextHandle::remove) does.
    #[inline]
    pub fn destroy<T: Send + 'static>(&self, id: Owned<T>) -> Result<(), HostError> {
        remove_slot(self.node(), id)?.destroy(self.node());
        Ok(())
    }

    /// How many values this context owns. O(values).
    #[must_use]
    pub fn owned_values(&self) -> usize {
        table::lock(self.node()).map_or(0, |table| table.live_values().count)
    }
}

impl Context {
    /// Destroys what this context owns when the call begins, newest first. It stays open, and so do held values, and
    /// all that destructors or other threads add meanwhile.
    ///
    /// Call it before [`close_root`](Context::close_root) or [`try_close`](Context::try_close) when values hold
    /// handles, blocks or contexts of the tree.
    pub fn clear(&self) {
        run_to_end(clearing(self.node()));
    }
}

#[inline]
fn remove_slot<T>(node: &ContextNode, id: Owned<T>) -> Result<RemovedValue, HostError> {
    let table = locked_for(node, id)?;
    let (slot, kind) = find(node, &table, id)?;
    Ok(table.remove(slot, kind))
}

#[inline]
fn locked_for<T>(node: &ContextNode, id: Owned<T>) -> Result<Locked<'_>, HostError> {
    if id.context() != node.id() {
        return Err(HostError::Misuse(Misuse::OtherContext));
    }
    table::lock(node).ok_or(HostError::Misuse(Misuse::NotOwned))
}

#[inline]
fn find<'t, T>(
    node: &ContextNode,
    table: &'t Locked<'_>,
    id: Owned<T>,
) -> Result<(&'t ValueSlot, &'static ValueType), HostError> {
    let (slot, kind) = look_up(node, table, id)?;
    if slot.is_free_to_go() { Ok((slot, kind)) } else { Err(HostError::Misuse(Misuse::Held)) }
}

#[inline]
fn look_up<'t, T>(
    node: &ContextNode,
    _: &'t Locked<'_>,
    id: Owned<T>,
) -> Result<(&'t ValueSlot, &'static ValueType), HostError> {
    // SAFETY: the slot rule; the id's context is this node.
    let slot: &'t ValueSlot = unsafe { id.slot().as_ref() };
    match slot.kind.get() {
        Some(kind) if slot.generation.get() == id.generation() && slot.holds.get() & DOOMED == 0 => Ok((slot, kind)),
        _ if node.flags() & CLOSED != 0 => Err(HostError::Closed { context: node.id() }),
        _ => Err(HostError::Misuse(Misuse::NotOwned)),
    }
}

impl RemovedValue {
    /// No lock is held.
    #[inline]
    pub(super) fn destroy(self, node: &ContextNode) {
        let _block = self.block(node);
        if let Some(destroy) = self.kind.destroy {
            // SAFETY: removed from its slot: nothing else reaches it.
            unsafe { destroy(self.value) };
        }
    }

    fn block<'n>(&self, node: &'n ContextNode) -> NodeBlock<'n> {
        NodeBlock { node, block: self.value, layout: self.kind.layout }
    }

    /// # Safety
    /// The value is a `T`.
    #[inline]
    unsafe fn into_value<T>(self, node: &ContextNode) -> T {
        let _block = self.block(node);
        // SAFETY: this function's contract.
        unsafe { self.value.cast::<T>().read() }
    }
}

/// A held value is destroyed with its last hold.
pub(crate) fn end_values(node: &ContextNode) {
    let mut step = clearing(node);
    while step() {}
}

/// False if no value is left.
fn clearing(node: &ContextNode) -> impl FnMut() -> bool {
    if let Some(table) = table::lock(node) {
        table.begin_clear();
    }
    move || {
        // A held value of an ended context is doomed under the lock.
        let next = table::lock(node).and_then(|table| table.next_to_clear(node.flags() & CLOSED != 0));
        next.is_some_and(|removed| {
            removed.destroy(node);
            true
        })
    }
}

/// The holds of these values were forgotten (`mem::forget`).
pub(crate) fn destroy_leftovers(node: &ContextNode) {
    let leftover = || {
        let table = table::lock(node)?;
        let slot = table.live.newest()?;
        Some(table.remove(slot, slot.kind.get()?))
    };
    while let Some(taken) = leftover() {
        taken.destroy(node);
    }
}

impl ContextHandle {
    /// Moves a value from `from` to this context, as its newest: the block stays where it is and is charged to this
    /// context. Returns the new id; the old one is invalid. O(1).
    ///
    /// The table of this context may have to grow.
    ///
    /// # Errors
    /// Nothing was changed: as [`remove`](ContextHandle::remove), for `from`; [`Misuse::SameContext`];
    /// [`Misuse::OtherBacking`] and [`Misuse::OtherScope`] when the contexts differ in these; [`HostError::Closed`];
    /// [`HostError::OverBudget`].
    #[doc(alias("ralloc_steal", "talloc_steal"))]
    pub fn steal<T: Send + 'static>(&self, from: &ContextHandle, id: Owned<T>) -> Result<Owned<T>, HostError> {
        let (source, node) = (from.node(), self.node());
        check_transfer(source, node)?;
        drop(locked_for(source, id)?);
        loop {
            if let (Some(theirs), Some(ours)) = table::lock_both(source, node)
                && ours.free.newest().is_some()
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

    /// Moves all values of `from` and all contexts below it, whatever their owners, to this context, or nothing. They
    /// keep their order and are newer than this context's own. `from` stays and is empty.
    ///
    /// The values' ids become invalid. Contexts move as with [`Context::reparent`].
    ///
    /// O(slots of both tables + contexts directly below).
    ///
    /// # Errors
    /// Nothing was changed. [`Misuse::SameContext`]; [`Misuse::Cycle`] when this context is below `from`;
    /// [`Misuse::Held`]; otherwise as [`steal`](ContextHandle::steal) and [`Context::reparent`].
    #[doc(alias("ralloc_adopt"))]
    pub fn adopt(&self, from: &Context) -> Result<(), HostError> {
        let (source, node) = (from.node(), self.node());
        check_transfer(source, node)?;
        loop {
            let (theirs, ours) = table::lock_both(source, node);
            let owned = theirs.as_ref().map(|table| table.live_values());
            let owned = owned.unwrap_or_default();
            if owned.are_held {
                return Err(HostError::Misuse(Misuse::Held));
            }
            let room = ours.as_ref().map_or(0, |table| table.room());
            let (values, missing) = (owned.size, owned.count.saturating_sub(room));
            if missing == 0 {
                return adopt_all(from, self, values, theirs.as_ref().zip(ours.as_ref()));
            }
            drop((theirs, ours));
            ContextMove::of_children(from, self, values, |context_move, held, above| context_move.check(held, above))?;
            check_room(source, node, values.0.saturating_add(table::growth(node, missing)))?;
            table::grow_by(node, missing)?;
        }
    }
}

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
    if !ContextMove::of_children(from, to, values, |context_move, held, above| context_move.apply(held, above))? {
        transfer(source, node, values.1, values.0)?;
    }
    let Some((theirs, ours)) = tables else {
        return Ok(());
    };
    let mut at = theirs.live.iter().last();
    while let Some(slot) = at {
        at = slot.newer();
        if let Some(kind) = slot.kind.get() {
            let taken = theirs.remove(slot, kind);
            ours.put(taken.value, kind);
        }
    }
    Ok(())
}
