#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::DriverMemory;

/// The device memory of one device. Bytes are requested bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VulkanMemory {
    /// The device, as the contexts name it.
    pub device: String,
    /// By heap.
    pub heaps: Vec<VulkanMemoryRow>,
    /// By memory type.
    pub types: Vec<VulkanMemoryRow>,
    /// By use, such as `imported`, `bound` or `mapped`; a block may have several. The index of each row is 0.
    #[serde(default)]
    pub uses: BTreeMap<String, VulkanMemoryRow>,
    /// What the driver allocates for itself; `None` where it does not report it.
    #[serde(default)]
    pub driver: Option<DriverMemory>,
    /// Blocks that are counted nowhere, because there was no memory for their records.
    pub lost_blocks: u64,
}

impl VulkanMemory {
    /// Blocks that are live on these devices, and their bytes.
    #[must_use]
    pub fn live(devices: &[Self]) -> (u64, u64) {
        let sum = |rows: &[VulkanMemoryRow]| {
            rows.iter().fold((0_u64, 0_u64), |(blocks, bytes), row| {
                (blocks.saturating_add(row.live_blocks), bytes.saturating_add(row.live_bytes))
            })
        };
        // A type whose heap is not known has no row there.
        let of_devices = devices.iter().map(|device| sum(&device.heaps).max(sum(&device.types)));
        of_devices.fold((0_u64, 0_u64), |all, one| (all.0.saturating_add(one.0), all.1.saturating_add(one.1)))
    }
}

/// A heap or memory type that was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VulkanMemoryRow {
    /// Its number, as the device has it.
    pub index: u32,
    /// Bytes that are live.
    pub live_bytes: u64,
    /// Blocks that are live.
    pub live_blocks: u64,
    /// The most bytes live at once.
    pub peak_bytes: u64,
    /// Bytes ever allocated.
    pub total_bytes: u64,
    /// Blocks ever allocated.
    pub total_blocks: u64,
    /// Requests that were refused.
    pub refusals: u64,
    /// The size of the heap; 0 where the driver does not say it, and for anything else.
    #[serde(default)]
    pub size: u64,
    /// The heap's budget (`VK_EXT_memory_budget`) when the device was created; 0 where the program did not enable it.
    #[serde(default)]
    pub budget: u64,
}
