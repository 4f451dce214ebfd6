//! The program's parts: finding a Vulkan driver, running a workload on it, and telling where the host memory went.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod callback_coverage;
pub mod cli;
pub mod diff;
pub mod drivers;
pub mod expectations;
mod input;
mod os;
pub mod profile;
pub mod program;
mod progress;
pub mod replay;
pub mod report;
pub mod symbols;
mod table;
pub mod workload;
mod workload_child;

/// The samples of the repository's README.md, tested.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
