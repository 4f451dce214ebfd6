//! The owners of a command's callbacks, and the coverage of brackets.

#![forbid(unsafe_code)]

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The owners of the callbacks that a command may call, most specific first. A bridge's id is
/// [`Bridge::owner`](crate::Bridge::owner).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The object's own, its pool's or, for a command about a cache, the cache's.
    pub object: Option<OwnerId>,
    /// The cache's, for a command about another object (`pipelineCache` of `vkCreateComputePipelines`).
    pub cache: Option<OwnerId>,
    /// The deferred operation's, while the deferred work runs or is joined (V26).
    pub deferred: Option<OwnerId>,
    /// The device's.
    pub device: Option<OwnerId>,
    /// The instance's.
    pub instance: Option<OwnerId>,
}

/// The id of a bridge, or of any watched callbacks, unique in the process (until 2^32 were created).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub(crate) NonZeroU32);

impl OwnerId {
    /// A new id, for callbacks without a bridge.
    #[must_use]
    pub fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = match NEXT.fetch_add(1, Relaxed) {
            0 => NEXT.fetch_add(1, Relaxed), // wrapped after 2^32
            number => number,
        };
        Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }

    /// For logs, which choose the numbers of owners.
    pub(crate) const fn from_number(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number itself, never 0.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// How much of a program is bracketed: whether a thread without a bracket proves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BracketCoverage {
    /// Every command of every thread runs in a bracket.
    Complete,
    /// All but those that record into a command buffer (`vkCmd*`). A call of a command pool's callbacks outside of brackets is no
    /// finding, any other a suspect.
    ExceptRecording,
    /// Some commands may run without a bracket.
    Partial,
}
