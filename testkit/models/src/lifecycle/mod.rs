//! Contexts by number: the register behind the table, and the turns of dispatches, as they are.

#[path = "../../../../gpu-suballoc/src/context/dispatch_lock.rs"]
mod dispatch_lock;
#[path = "../../../../gpu-suballoc/src/context/register.rs"]
mod register;

mod dispatches;
mod releases;

/// Where the files look for it.
mod device_context {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct DeviceContextId(pub(super) u64);
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
