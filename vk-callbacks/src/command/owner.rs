//! Whose callbacks a command may reach, and how much of the program is bracketed.

#![forbid(unsafe_code)]

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Whose callbacks a command may reach, most specific first. What a bridge is called: [`Bridge::owner`](crate::Bridge::owner).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// The object's own, its pool's or, where the command is about a cache, the cache's.
    pub object: Option<OwnerId>,
    /// That of a cache which a command about something else is given (`pipelineCache` of `vkCreateComputePipelines`).
    pub cache: Option<OwnerId>,
    /// The deferred operation's, while what was deferred runs or is joined (V26).
    pub deferred: Option<OwnerId>,
    /// The device's.
    pub device: Option<OwnerId>,
    /// The instance's.
    pub instance: Option<OwnerId>,
}

/// Names a bridge, or any callbacks that are watched, for as long as the process lives (until 2^32 were made).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub(crate) NonZeroU32);

impl OwnerId {
    /// A name that nobody has: for callbacks that no bridge is behind.
    #[must_use]
    pub fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = match NEXT.fetch_add(1, Relaxed) {
            0 => NEXT.fetch_add(1, Relaxed), // wrapped after 2^32
            number => number,
        };
        Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
    }

    /// For logs, which number owners as they like.
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

/// Whether a thread without a bracket proves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BracketCoverage {
    /// Every command of every thread runs in a bracket.
    Complete,
    /// All but those that record into a command buffer (`vkCmd*`), which may run without: what comes to a command pool's callbacks
    /// outside of brackets is theirs and no finding, all else makes a suspect.
    ExceptRecording,
    /// Some commands may run without.
    Partial,
}
