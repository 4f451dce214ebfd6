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
use table::{Locked, RemovedValue};
pub(crate) use table::{ValueTable, bytes_freed_with};

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::context::{CLOSED, ContextHandle, ContextNode};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;

/// Owned values. A context owns them until it ends or the caller destroys or removes them; an id reaches them.
///
/// When a context ends (see [`Context`](crate::Context)), the values of the contexts below it are destroyed first, newest context first,
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
        let put = grow::put(node, block, unlisted.kind);
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
