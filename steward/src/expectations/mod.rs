//! Known findings of drivers: files that list them, and comparison with a run.
//!
//! ```toml
//! driver = "llvmpipe Mesa 22.3.*"
//!
//! [[finding]]
//! rule = "V29"
//! kind = "CacheAsObject"
//! owner = "VkPipelineCache"
//! command = "vkCreatePipelineCache"
//! scope = "object"
//! per_round = 2
//! cause = "lvp_pipeline_cache.c, lvp_CreatePipelineCache: asks with scope OBJECT"
//! ```
//!
//! A check fails on a finding that the file does not list, and on a listed one that did not occur, as after a fix of
//! the driver.

#![forbid(unsafe_code)]

mod bundled;
mod by_place;
mod checked;
mod compare;
mod file;
mod fit;
mod known;

pub use bundled::{BundledExpectations, EXPECTATIONS, named, of_driver};
pub use checked::{CheckSummary, Checked};
pub use compare::{Difference, Verdict, compare};
pub use file::{Expectations, Expected, FileFault};
pub use fit::fit;
pub use known::{KnownOfDrivers, name_known};
