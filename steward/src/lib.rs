//! The program's parts: finding a Vulkan driver, running a workload on it, and telling where the host memory went.

pub mod accounts;
pub mod bundled;
pub mod cli;
pub mod devices;
pub mod diff;
pub mod drivers;
pub mod expectations;
pub mod guarding;
pub mod honour;
pub mod program;
pub mod replayed;
pub mod report;
pub mod sharing;
pub mod units;
pub mod workload;

/// The README's examples, tested.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
