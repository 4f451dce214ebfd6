//! The requester: which context asks, for backings that track it.

use crate::error::ContextId;
use crate::threads::{requester, swap_requester};

/// Whose request a backing is serving.
///
/// Contexts tell it around their calls to an allocator that [tracks requesters](crate::AllocatorTraits::tracks_requester), frees included. The
/// context is the one whose call reached the allocator: where contexts draw on each other, the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester<'a> {
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
pub fn with_requester<R>(f: impl FnOnce(Option<&Requester<'_>>) -> R) -> R {
    // SAFETY: what is not null was put there by `told`, further up this thread's stack, and is taken away before that one ends.
    f(unsafe { requester().as_ref() })
}

/// Runs `call`, in which a C bridge asks its allocator, or the context that it stands over, for a block of which the first `front`
/// bytes are its own.
///
/// Only worth the while where the allocator wants to know; without feature `std` nothing is told.
pub fn with_front<R>(front: usize, call: impl FnOnce() -> R) -> R {
    with_current(
        &Requester {
            context: None,
            name: "",
            label: None,
            front,
        },
        call,
    )
}

/// Runs `call`, in which a context asks its backing. What is in front was said by a bridge that is just asking the context.
pub(crate) fn with_identity<R>(
    context: ContextId,
    name: &'static str,
    label: Option<&str>,
    call: impl FnOnce() -> R,
) -> R {
    let front = with_requester(|outer| {
        outer
            .filter(|outer| outer.context.is_none())
            .map_or(0, |outer| outer.front)
    });
    with_current(
        &Requester {
            context: Some(context),
            name,
            label,
            front,
        },
        call,
    )
}

fn with_current<R>(origin: &Requester<'_>, call: impl FnOnce() -> R) -> R {
    let _outer = RestoreRequester(swap_requester(core::ptr::from_ref(origin).cast()));
    call()
}

/// Restores the outer origin, also where the allocator unwinds.
struct RestoreRequester(*const Requester<'static>);

impl Drop for RestoreRequester {
    fn drop(&mut self) {
        swap_requester(self.0);
    }
}
