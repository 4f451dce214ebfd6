//! The report of a Vulkan program's host memory, and what its accounts lie in.
//!
//! A guard and planned failures below the layer's accounts ([`guard_run`]), the state file, the meter's client, and the
//! report as data, text and JSON ([`report`]) stand here, since the program `steward` and the layer share them.
//!
//! ```text
//!  driver --(callbacks)--> vk-layer's accounts --> guard_run::Layers --> the system's allocator
//!                              \--> report::Report --> text, JSON
//! ```
//!
//! [`report::Report`] holds what a run has shown. Its structs are not `#[non_exhaustive]`: the layer, the program and
//! other tools build reports, and the compiler shows them each new field. Its [`Display`](std::fmt::Display) writes it
//! for a terminal, [`report::json()`] for programs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod command_mark;
#[cfg_attr(windows, path = "files/windows.rs")]
pub mod files;
pub mod guard_run;
pub mod meter;
pub mod pattern;
pub mod report;
pub mod state_file;
pub mod units;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
