use crate::error::ContextId;
use crate::threads::{requester, swap_requester};
use crate::unwind::Defer;

/// The context that requests a call of a backing.
///
/// Contexts set it around their calls to an allocator that [tracks
/// requesters](crate::AllocatorTraits::tracks_requester). Where contexts are backings of contexts, it is the last of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requester<'a> {
    /// The requesting context; `None` for a C bridge without a context.
    pub context: Option<ContextId>,
    /// The context's name; empty where there is none.
    pub name: &'static str,
    /// The context's label.
    pub label: Option<&'a str>,
    /// Bytes at the block's beginning that belong to a C bridge, whose caller gets the address behind them; else 0.
    pub front: usize,
}

/// Runs `f` with the requester of the call that this thread is in; `None` outside of any, and without feature `std`.
/// May be called in a signal handler.
pub fn with_requester<R>(f: impl FnOnce(Option<&Requester<'_>>) -> R) -> R {
    // SAFETY: null, or set by `with_current` further up this stack, which resets it before its requester ends.
    f(unsafe { requester().as_ref() })
}

/// Runs `call`, in which a C bridge requests a block whose first `front` bytes are the bridge's. Of use only if the
/// allocator tracks requesters.
pub fn with_front<R>(front: usize, call: impl FnOnce() -> R) -> R {
    with_current(&Requester { context: None, name: "", label: None, front }, call)
}

/// The front of a bridge that called this context, or one over it, whose request this is.
pub(crate) fn with_identity<R>(
    context: ContextId,
    name: &'static str,
    label: Option<&str>,
    call: impl FnOnce() -> R,
) -> R {
    let front = with_requester(|outer| outer.map_or(0, |outer| outer.front));
    with_current(&Requester { context: Some(context), name, label, front }, call)
}

fn with_current<R>(origin: &Requester<'_>, call: impl FnOnce() -> R) -> R {
    let outer = swap_requester(core::ptr::from_ref(origin).cast());
    // Also where the allocator unwinds.
    let _restore = Defer(|| {
        swap_requester(outer);
    });
    call()
}
