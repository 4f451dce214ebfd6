//! Shards: pages and slabs of one thread, whose regions any thread may free.

mod look;
mod shard_pages;
mod shards;

pub(crate) use shard_pages::{
    BackingRegion, OwnerState, RequestKind, SLAB_GROUP, ShardPages, free_region,
};
pub(crate) use shards::Shards;
