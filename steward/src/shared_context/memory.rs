//! A context's memory: callbacks, checked on request, and the bookkeeping of gpu-suballoc.

use std::sync::Arc;

use alloc_core::{Context, Usage};
use ash::vk;
use vk_callbacks::check::CheckedOwner;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, Checker, OwnerId};

use super::SharingError;
use vk_accounts::report::Leftover;
use vk_accounts::report::origins::{SiteCallbacks, StackCapture};

/// The callbacks of one owner, and what the driver takes through them.
pub(super) struct Callbacks {
    name: &'static str,
    bridge: Bridge,
    /// The bridge's callbacks.
    own: Usage,
    /// The bridge's callbacks, inside callbacks that record stacks.
    sites: Box<SiteCallbacks>,
    stacks: Arc<StackCapture>,
    /// The same inside a checker's.
    raw: RawCallbacks,
}

impl Callbacks {
    pub(super) fn new(
        root: &Context,
        name: &'static str,
        (checker, stacks): (Option<&Checker<'_>>, &Arc<StackCapture>),
    ) -> Result<Self, SharingError> {
        let bridge = Bridge::new(root.child(name)?).map_err(|refused| refused.error)?;
        let own = bridge.usage();
        let sites = stacks.around(bridge.raw(), name);
        let raw = match checker {
            None => sites.raw(),
            Some(checker) => {
                // SAFETY: the bridge is closed when the driver's instance is gone; with live blocks it stays valid for ever.
                *unsafe { checker.wrap(sites.raw(), CheckedOwner::new(bridge.owner(), name)) }?
                    .raw()
            }
        };
        Ok(Self {
            name,
            bridge,
            own,
            sites,
            stacks: Arc::clone(stacks),
            raw,
        })
    }

    pub(super) fn owner(&self) -> OwnerId {
        self.bridge.owner()
    }

    /// What the driver holds and held.
    pub(super) fn usage(&self) -> Usage {
        self.bridge.usage().without(&self.own)
    }

    /// As a struct of ash.
    pub(super) fn lend(&self) -> vk::AllocationCallbacks<'static> {
        *self.raw.as_ash()
    }

    /// Ends after the driver's instance is gone. Returns what is still live, with its name.
    pub(super) fn close(self) -> Option<Leftover> {
        let live = self.bridge.close().err()?.value.live();
        // As the bridge with live blocks, they stay valid for ever.
        std::mem::forget(self.sites);
        Some(Leftover::of_bridge(self.name, &live, Some(&self.stacks)))
    }
}

/// The memory of a context.
pub(super) struct Memory {
    pub(super) books: Context,
    pub(super) callbacks: Callbacks,
}

impl Memory {
    pub(super) fn new(
        root: &Context,
        [books, callbacks]: [&'static str; 2],
        watching: (Option<&Checker<'_>>, &Arc<StackCapture>),
    ) -> Result<Self, SharingError> {
        Ok(Self {
            books: root.child(books)?,
            callbacks: Callbacks::new(root, callbacks, watching)?,
        })
    }

    /// Bytes of bookkeeping, then blocks and bytes of the driver.
    pub(super) fn live(&self) -> [u64; 3] {
        let driver = self.callbacks.usage().total();
        [
            self.books.usage().total().live_bytes,
            driver.live_blocks,
            driver.live_bytes,
        ]
    }
}
