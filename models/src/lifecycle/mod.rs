//! Contexts by number: the register behind the table, and the turns of dispatches, as they are.

#[path = "../../../gpu-suballoc/src/lifecycle/register.rs"]
mod register;
#[path = "../../../gpu-suballoc/src/lifecycle/turns.rs"]
mod turns;

mod dispatches;
mod releases;

/// Where the files look for it.
mod context {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct OwnedContextId(pub(super) u64);
}

/// What of it the files name.
mod error {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum ContextError {
        Released,
        InUse,
        HandlersInUse,
    }
}
