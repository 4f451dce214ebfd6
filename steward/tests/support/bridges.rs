//! Callbacks of the tests' own for each kind of object: a bridge over a context each, below one root. The commands of a run are in brackets.

use alloc_core::{Budget, Context, ContextOptions, HostAllocator, Usage};
use ash::vk;
use vk_accounts::{CreatedObject, Hooks, ObjectKind};
use vk_callbacks::bridge::BridgeCounters;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, Command, Owners};

/// See the module.
pub(super) struct Bridges {
    kinds: Vec<Option<(Bridge, RawCallbacks, Usage)>>,
    vulkan: Context,
    _root: Context,
}

impl Bridges {
    /// With a limit of the bytes that the driver may hold at once.
    ///
    /// # Safety
    /// `backing` lives for ever.
    pub(super) unsafe fn new<A: HostAllocator + Sync>(backing: &A, limit: Option<u64>) -> Self {
        // SAFETY: forwarded.
        let open = unsafe { Self::within(backing, u64::MAX - 1) };
        let Some(limit) = limit else { return open };
        let own = open.vulkan.subtree_usage().total().live_bytes;
        drop(open);
        // SAFETY: forwarded.
        unsafe { Self::within(backing, own + limit) }
    }

    /// # Safety
    /// As [`Bridges::new`].
    unsafe fn within<A: HostAllocator + Sync>(backing: &A, budget: u64) -> Self {
        // SAFETY: the caller's promise.
        let root = unsafe { Context::root(backing, ContextOptions::new("test")) };
        let root = root.expect("memory");
        let options = ContextOptions::new("vulkan").budget(Budget::exact(budget));
        let vulkan = root.child_with(options).expect("memory");
        let of = |kind: ObjectKind| {
            let context = vulkan.child(kind.name()).expect("memory");
            let bridge = Bridge::new(context).map_err(|rejected| rejected.error);
            let bridge = bridge.expect("memory");
            let (raw, own) = (bridge.raw(), bridge.usage());
            (bridge, raw, own)
        };
        let kinds = ObjectKind::ALL.map(|kind| kind.takes_callbacks().then(|| of(kind)));
        Self {
            kinds: kinds.into(),
            vulkan,
            _root: root,
        }
    }

    /// The driver's usage of a kind.
    pub(super) fn usage(&self, kind: ObjectKind) -> Usage {
        let of = |(bridge, _, own): &(Bridge, RawCallbacks, Usage)| bridge.usage().without(own);
        self.kinds[kind.index()]
            .as_ref()
            .map(of)
            .unwrap_or_default()
    }

    /// What the bridge of a kind has noted.
    pub(super) fn notes(&self, kind: ObjectKind) -> BridgeCounters {
        let of = |(bridge, ..): &(Bridge, RawCallbacks, Usage)| bridge.counters();
        self.kinds[kind.index()]
            .as_ref()
            .map(of)
            .unwrap_or_default()
    }

    /// Closes the bridges; returns how many blocks were left.
    pub(super) fn close(self) -> u64 {
        let kinds = self.kinds.into_iter().flatten();
        let left = kinds.filter_map(|(bridge, ..)| Some(bridge.close().err()?.value.live()));
        left.map(|live| live.total().blocks).sum()
    }
}

// SAFETY: the structs lie in the vector, which is not changed, and lead to bridges that live as long, or for ever with live blocks.
unsafe impl Hooks for Bridges {
    fn callbacks(&self, kind: ObjectKind) -> Option<&vk::AllocationCallbacks<'_>> {
        self.kinds[kind.index()]
            .as_ref()
            .map(|(_, raw, _)| raw.as_ash())
    }

    fn command(&self, command: &'static str, _: ObjectKind, call: &mut dyn FnMut() -> vk::Result) {
        let bracket = Command::new(command, Owners::default(), BracketCoverage::Complete);
        let _ = bracket.run(|_| call());
    }

    fn created(&self, _: &CreatedObject<'_>) {}

    fn ends(&self, _: &CreatedObject<'_>) {}

    fn phase(&self, _: &'static str) {}
}
