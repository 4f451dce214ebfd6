//! Who asks: what contexts tell a backing that wants to know.

use crate::error::ContextId;
use crate::threads::{origin, swap_origin};

/// Whose request a backing is serving.
///
/// Contexts tell it around their calls to an allocator that [wants to know](crate::HostAllocator::wants_origin), frees included. The
/// context is the one whose call reached the allocator: where contexts draw on each other, the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The context that asks; `None` where a C bridge stands over no context.
    pub context: Option<ContextId>,
    /// The context's name; empty where there is none.
    pub name: &'static str,
    /// The context's label.
    pub label: Option<&'a str>,
    /// Bytes at the beginning of the block that belong to a C bridge: its caller gets the address behind them. 0 where no bridge asks.
    pub front: usize,
}

/// Runs `f` with whose request the calling thread is in; `None` outside of any, and without feature `std`.
///
/// To be asked by an allocator while it is being called. Takes no memory and no lock; may be called in a signal handler.
pub fn with_origin<R>(f: impl FnOnce(Option<&Origin<'_>>) -> R) -> R {
    // SAFETY: what is not null was put there by `told`, further up this thread's stack, and is taken away before that one ends.
    f(unsafe { origin().as_ref() })
}

/// Runs `call`, in which a C bridge asks its allocator, or the context that it stands over, for a block of which the first `front`
/// bytes are its own.
///
/// Only worth the while where the allocator wants to know; without feature `std` nothing is told.
pub fn with_front<R>(front: usize, call: impl FnOnce() -> R) -> R {
    told(&Origin { context: None, name: "", label: None, front }, call)
}

/// Runs `call`, in which a context asks its backing. What is in front was said by a bridge that is just asking the context.
pub(crate) fn tell<R>(context: ContextId, name: &'static str, label: Option<&str>, call: impl FnOnce() -> R) -> R {
    let front = with_origin(|outer| outer.filter(|outer| outer.context.is_none()).map_or(0, |outer| outer.front));
    told(&Origin { context: Some(context), name, label, front }, call)
}

fn told<R>(origin: &Origin<'_>, call: impl FnOnce() -> R) -> R {
    let _outer = Outer(swap_origin(core::ptr::from_ref(origin).cast()));
    call()
}

/// Restores the outer origin, also where the allocator unwinds.
struct Outer(*const Origin<'static>);

impl Drop for Outer {
    fn drop(&mut self) {
        swap_origin(self.0);
    }
}
