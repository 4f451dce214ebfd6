//! Shards: what one thread has to itself, and how others give back to it.

mod face;
mod lane;
mod shards;

pub use face::{Shard, ShardUsage};
pub(crate) use shards::Shards;
