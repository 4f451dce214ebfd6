//! Callbacks of the tests' own for each kind of object: a bridge over a context each, below one root. The commands of a
//! run are in brackets.

use std::collections::BTreeMap;

use alloc_core::{Budget, Context, ContextOptions, HostAllocator, Usage};
use ash::vk;
use vk_callbacks::bridge::BridgeCounters;
use vk_callbacks::command::BracketCoverage;
use vk_callbacks::raw::RawCallbacks;
use vk_callbacks::{Bridge, Command, Owners};

use super::driver_shim::Watcher;

/// The workload's kinds with callbacks.
const KINDS: [&str; 23] = [
    "VkInstance",
    "VkDevice",
    "VkDeviceMemory",
    "VkBuffer",
    "VkBufferView",
    "VkImage",
    "VkImageView",
    "VkSampler",
    "VkSamplerYcbcrConversion",
    "VkDescriptorSetLayout",
    "VkPipelineLayout",
    "VkDescriptorPool",
    "VkDescriptorUpdateTemplate",
    "VkShaderModule",
    "VkPipelineCache",
    "VkPipeline",
    "VkRenderPass",
    "VkFramebuffer",
    "VkCommandPool",
    "VkFence",
    "VkSemaphore",
    "VkEvent",
    "VkQueryPool",
];

/// See the module.
pub(super) struct Bridges {
    kinds: BTreeMap<&'static str, (Bridge, RawCallbacks, Usage)>,
    vulkan: Context,
    _root: Context,
}

impl Bridges {
    /// With a limit of the bytes that the driver may hold at once.
    ///
    /// # Safety
    /// `backing` lives for ever.
    pub(super) unsafe fn new<A: HostAllocator + Sync>(backing: &A, limit: Option<u64>) -> Self {
        // SAFETY: `backing` lives for ever.
        let open = unsafe { Self::within(backing, u64::MAX - 1) };
        let Some(limit) = limit else { return open };
        let own = open.vulkan.subtree_usage().total().live_bytes;
        drop(open);
        // SAFETY: `backing` lives for ever.
        unsafe { Self::within(backing, own + limit) }
    }

    /// # Safety
    /// As [`Bridges::new`].
    unsafe fn within<A: HostAllocator + Sync>(backing: &A, budget: u64) -> Self {
        // SAFETY: `backing` lives for ever.
        let root = unsafe { Context::root(backing, ContextOptions::new("test")) };
        let root = root.expect("memory");
        let options = ContextOptions::new("vulkan").budget(Budget::exact(budget));
        let vulkan = root.child_with(options).expect("memory");
        let of = |kind| {
            let context = vulkan.child(kind).expect("memory");
            let bridge = Bridge::new(context).map_err(|rejected| rejected.error);
            let bridge = bridge.expect("memory");
            let (raw, own) = (bridge.raw(), bridge.usage());
            (kind, (bridge, raw, own))
        };
        Self { kinds: KINDS.map(of).into(), vulkan, _root: root }
    }

    /// The driver's usage of a kind.
    pub(super) fn usage(&self, kind: &str) -> Usage {
        let (bridge, _, own) = &self.kinds[kind];
        bridge.usage().without(own)
    }

    /// What the bridges have noted.
    pub(super) fn notes(&self) -> impl Iterator<Item = BridgeCounters> {
        self.kinds.values().map(|(bridge, ..)| bridge.counters())
    }

    /// Closes the bridges; returns how many blocks were left.
    pub(super) fn close(self) -> u64 {
        let kinds = self.kinds.into_values();
        let left = kinds.filter_map(|(bridge, ..)| Some(bridge.close().err()?.value.live()));
        left.map(|live| live.total().blocks).sum()
    }
}

impl Watcher for Bridges {
    fn callbacks(
        &self,
        kind: &'static str,
        _: Option<&vk::AllocationCallbacks<'_>>,
    ) -> *const vk::AllocationCallbacks<'_> {
        let known = self.kinds.get(kind);
        let (_, raw, _) = known.unwrap_or_else(|| panic!("{kind} is not in the list"));
        raw.as_ash()
    }

    fn command(&self, name: &'static str, call: &mut dyn FnMut()) {
        let bracket = Command::new(name, Owners::default(), BracketCoverage::Complete);
        bracket.run(|_| call());
    }
}
