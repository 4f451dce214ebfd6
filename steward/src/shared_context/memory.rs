//! Whose memory what is in: callbacks over a context, checked where somebody checks, and the books beside.

use alloc_core::{Context, Usage};
use ash::vk;
use vk_callbacks::{Bridge, CheckedOwner, Checker, OwnerId, RawCallbacks};

use super::SharingError;
use vk_accounts::report::{ByScope, Leftover};

/// What a driver is given, and what it takes by it.
pub(super) struct Callbacks {
    name: &'static str,
    bridge: Bridge,
    /// The bridge's own.
    own: Usage,
    /// The bridge's, a check's around them.
    raw: RawCallbacks,
}

impl Callbacks {
    pub(super) fn new(
        root: &Context,
        name: &'static str,
        checker: Option<&Checker<'_>>,
    ) -> Result<Self, SharingError> {
        let bridge = Bridge::new(root.child(name)?).map_err(|refused| refused.error)?;
        let own = bridge.usage();
        let raw = match checker {
            None => bridge.raw(),
            Some(checker) => {
                // SAFETY: the bridge is closed when the driver's instance is gone; with live blocks it stays valid for ever.
                *unsafe { checker.wrap(bridge.raw(), CheckedOwner::new(bridge.owner(), name)) }?
                    .raw()
            }
        };
        Ok(Self {
            name,
            bridge,
            own,
            raw,
        })
    }

    pub(super) fn owner(&self) -> OwnerId {
        self.bridge.owner()
    }

    /// What the driver has and had.
    pub(super) fn usage(&self) -> Usage {
        self.bridge.usage().without(&self.own)
    }

    /// As ash has them.
    pub(super) fn lend(&self) -> vk::AllocationCallbacks<'static> {
        *self.raw.as_ash()
    }

    /// Ends it when the driver's instance is gone; what is still live is left behind, named.
    pub(super) fn close(self) -> Option<Leftover> {
        let live = self.bridge.close().err()?.value.live();
        let total = live.total();
        let by_scope = ByScope::of(|scope| live.scope(scope).bytes);
        Some(Leftover {
            context: self.name.to_owned(),
            blocks: total.blocks,
            bytes: total.bytes,
            by_scope,
        })
    }
}

/// A context's memory.
pub(super) struct Memory {
    pub(super) books: Context,
    pub(super) callbacks: Callbacks,
}

impl Memory {
    pub(super) fn new(
        root: &Context,
        [books, callbacks]: [&'static str; 2],
        checker: Option<&Checker<'_>>,
    ) -> Result<Self, SharingError> {
        Ok(Self {
            books: root.child(books)?,
            callbacks: Callbacks::new(root, callbacks, checker)?,
        })
    }

    /// Bytes of books, blocks and bytes of the driver.
    pub(super) fn live(&self) -> [u64; 3] {
        let driver = self.callbacks.usage().total();
        [
            self.books.usage().total().live_bytes,
            driver.live_blocks,
            driver.live_bytes,
        ]
    }
}
