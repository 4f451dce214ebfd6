//! Shards: what one thread has to itself, and how others give back to it.

mod look;
mod shard_pages;
mod shards;

pub(crate) use shard_pages::{
    BackingRegion, OwnerState, RequestKind, SLAB_GROUP, ShardPages, free_region,
};
pub(crate) use shards::Shards;
