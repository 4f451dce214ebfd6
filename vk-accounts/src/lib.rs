//! Accounts of a Vulkan program's host memory, and their report.
//!
//! What a program and a layer share stands here: one context for each kind of Vulkan object ([`accounting`]), a guard and planned
//! failures below them ([`guard_run`]), and the report as data, text and JSON ([`report`]). Pages, symbols and drivers are the program's (`vk-steward`).
//!
//! ```text
//!  program --Hooks--> accounting --(callbacks)--> driver
//!                         |   \--> guard_run::Layers --> the system's allocator
//!                     Accounted --> report::Report --> text, JSON
//! ```
//!
//! - [`accounting::Accounts`] implements [`Hooks`]: it gives the callbacks of each [`ObjectKind`], and puts a bracket around each command.
//! - [`accounting::Accounts::finish`] returns what the contexts held, phase by phase, and what was not freed.
//! - [`report::Report`] holds all of it. [`Display`](std::fmt::Display) writes it for a terminal, [`report::json`] for programs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod accounting;
mod ash;
mod command_mark;
#[cfg_attr(not(unix), path = "files/other.rs")]
pub mod files;
pub mod guard_run;
pub mod meter;
mod object_kind;
pub mod report;
pub mod state_file;
pub mod units;

pub use crate::ash::{CreatedObject, Hooks, NoHooks};
pub use object_kind::ObjectKind;

/// The samples of README.md, tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
