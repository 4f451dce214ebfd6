//! Values that a context owns: reached by id, destroyed with the context.

mod adopt;
mod destroy;
mod grow;
mod hold;
mod id;
mod marker;
mod slot;
mod table;

pub(crate) use destroy::{destroy_leftovers, end_values};
pub(crate) use grow::free_table;
pub use hold::{Hold, HoldMut};
pub use id::Owned;
pub(crate) use marker::{Marker, PlacedMarker};
use slot::{DOOMED, ValueSlot, ValueType};
use table::{Locked, Put, RemovedValue};
pub(crate) use table::{ValueTable, goes_with};

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::context::{CLOSED, ContextHandle, ContextNode};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;

/// Owned values. A context takes them over and destroys them when it ends, or when it is told to; meanwhile they are reached by id.
///
/// When a context ends (see [`Context`](crate::Context)), what the contexts below it own goes first, newest context first, then
/// its own values, newest first; each is taken out under the context's lock and destroyed outside of any. A destructor may use the
/// library as it likes: it may free its siblings, drop handles and close contexts; it gets
/// [`Closed`](HostError::Closed) where it wants to allocate from the ending context or give it a value. When one panics, the rest
/// is destroyed all the same and the panic goes on. Several threads may end parts of a tree at the same time: each value is
/// destroyed once, by one of them. The order holds for what one thread ends: it does not wait for values of a context that another
/// thread is already ending, which may go after those of the context above.
///
/// A value has a block of its own, of exactly its size, and 40 bytes in the context's table; the table is memory of the context,
/// made with the first value. A value without size takes no block.
impl ContextHandle {
    /// Moves `value` into a block of this context, which owns it from now on.
    ///
    /// A value may hold handles, of this very context as well: handles keep no values alive, so nothing is in a circle. It may be
    /// destroyed on any thread.
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
        // The id is made of what both ways answer, here, so that it can stay in registers.
        let put = match table::put_here(node, block, value) {
            Ok(put) => put,
            Err(value) => self.own_with_growth(block, value)?,
        };
        Ok(Owned::new(node.id(), &put))
    }

    /// With a larger table, or a refusal.
    #[cold]
    #[inline(never)]
    fn own_with_growth<T: Send + 'static>(
        &self,
        block: NonNull<u8>,
        value: T,
    ) -> Result<Put, Rejected<T, HostError>> {
        let node = self.node();
        // SAFETY: the new block is as large and as aligned as a `T`.
        unsafe { block.cast::<T>().write(value) };
        // Where the allocator unwinds, the value is destroyed and its block given back.
        let homeless = Homeless {
            node,
            value: block,
            kind: ValueType::of::<T>(),
        };
        let put = table::put(node, block, homeless.kind);
        core::mem::forget(homeless);
        put.map_err(|error| {
            // SAFETY: written above.
            let value = unsafe {
                RemovedValue {
                    value: block,
                    kind: ValueType::of::<T>(),
                }
                .into_value(node)
            };
            Rejected { value, error }
        })
    }

    /// Takes a value back.
    ///
    /// # Errors
    /// [`Misuse::OtherContext`] when this context never had the value; [`Misuse::NotOwned`] when it does not have it any more
    /// ([`HostError::Closed`] when the context has ended); [`Misuse::Held`] while somebody holds it.
    #[inline]
    pub fn remove<T: Send + 'static>(&self, id: Owned<T>) -> Result<T, HostError> {
        let taken = remove_slot(self.node(), id)?;
        // SAFETY: an id's value is of its type: generations tell apart what else was in the slot.
        Ok(unsafe { taken.into_value(self.node()) })
    }

    /// Destroys a value now. Takes no memory.
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
        table::lock(self.node())
            .filter(|table| !table.is_ended_elsewhere())
            .map_or(0, |table| table.live_len.get())
    }
}

/// A value in its block that has no slot yet.
struct Homeless<'n> {
    node: &'n ContextNode,
    value: NonNull<u8>,
    kind: &'static ValueType,
}

impl Drop for Homeless<'_> {
    fn drop(&mut self) {
        RemovedValue {
            value: self.value,
            kind: self.kind,
        }
        .destroy(self.node);
    }
}

/// Takes a value that nobody holds out of its slot.
#[inline]
fn remove_slot<T>(node: &ContextNode, id: Owned<T>) -> Result<RemovedValue, HostError> {
    let table = locked_for(node, id)?;
    let (slot, kind) = find(node, &table, id)?;
    Ok(table.remove(slot, kind))
}

/// The table of the id's context, if `node` is it.
#[inline]
fn locked_for<T>(node: &ContextNode, id: Owned<T>) -> Result<Locked<'_>, HostError> {
    if id.context() != node.id() {
        return Err(HostError::Misuse(Misuse::OtherContext));
    }
    table::lock(node).ok_or(HostError::Misuse(Misuse::NotOwned))
}

/// The slot of a value that is there and that nobody holds.
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

/// The slot of a value that is there. The id is one of this node's.
#[inline]
fn look_up<'t, T>(
    node: &ContextNode,
    table: &'t Locked<'_>,
    id: Owned<T>,
) -> Result<(&'t ValueSlot, &'static ValueType), HostError> {
    if table.is_ended_elsewhere() {
        return Err(HostError::Closed { context: node.id() });
    }
    // SAFETY: ids are made by this module only, and this one says that the slot is in the node's table, whose slots stay.
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
