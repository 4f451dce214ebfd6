//! What a driver is known to do wrong: files that say so, and what differs from them.
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
//! A check fails on what is not in the file, and as well on what is in it and no longer happens: a driver that was mended should be
//! noticed too.

#![forbid(unsafe_code)]

mod bundled;
mod checked;
mod compare;
mod file;
mod fit;

pub use bundled::{BundledExpectations, EXPECTATIONS, named, of_driver};
pub use checked::Checked;
pub use compare::{Difference, Verdict, compare};
pub use file::{Expectations, Expected, FileFault};
pub use fit::fit;
