//! Two contexts with one shader cache, and the effect of the release of each.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::{FindingRow, KnownFindings, Unjudged};

/// Two contexts on one device of the application, a thread each, with one shader cache; then one was released.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedContexts {
    /// Different kernels that each context requested.
    pub kernels: u64,
    /// The contexts when both had all they wanted, in the order in which they were released.
    pub contexts: Vec<SharedContext>,
    /// What went with the first.
    pub went: Went,
    /// Kernels of the second that were still found then.
    pub still_found: u64,
    /// Kernels of the first that the second then compiled anew.
    pub compiled_anew: u64,
    /// What went with the second.
    pub went_last: Went,
    /// Bytes of host memory that both, the cache and the driver's callbacks had left at the end.
    pub left_bytes: u64,
    /// Commands of the whole scenario.
    #[serde(default)]
    pub commands: u64,
    /// Blocks that the driver allocated meanwhile through callbacks, the contexts' and the device's.
    #[serde(default)]
    pub callback_blocks: u64,
    /// True where that was judged by Vulkan's rules.
    #[serde(default)]
    pub judged: bool,
    /// What was wrong about it, or worth telling.
    #[serde(default)]
    pub findings: Vec<FindingRow>,
    /// Which of them are known of the driver; `None` without expectations for it.
    #[serde(default)]
    pub known_findings: Option<KnownFindings>,
    /// What of it was not judged; none where all was.
    #[serde(default)]
    pub unjudged: Option<Unjudged>,
}

/// A context in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedContext {
    /// Its name.
    pub name: String,
    /// Kernels that it compiled.
    pub compiled: u64,
    /// Kernels that it found, compiled by the other one.
    pub found: u64,
    /// Buffers in its memory.
    pub regions: u64,
}

/// What went with a context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Went {
    /// Compiled kernels.
    pub kernels: u64,
    /// Kernels that were still referenced.
    pub held: u64,
    /// Memory objects.
    pub blocks: u64,
    /// Their bytes of device memory.
    pub block_bytes: u64,
    /// Bytes of host memory of its bookkeeping and kernels.
    pub book_bytes: u64,
    /// Blocks that the driver had allocated through its callbacks.
    pub driver_blocks: u64,
    /// Their bytes.
    pub driver_bytes: u64,
    /// Bytes by which the other context's callbacks shrank: 0 if each context frees only its own.
    pub others_bytes: u64,
}
