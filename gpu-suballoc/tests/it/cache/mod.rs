//! The shader cache: rows H58 to H75 of the contract.

use crate::*;
use bench::*;

/// Contexts, counts of shaders, a cache, and an owner of a device of its own.
macro_rules! cache_scene {
    ($contexts:ident, $counts:ident, $cache:ident, $owner:ident) => {
        let ($contexts, $counts) = (
            super::bench::Contexts::new(),
            super::bench::Counts::default(),
        );
        let $cache = $contexts.cache();
        let device = gpu_suballoc::cache::CacheDevice::new_unique();
        let $owner = $cache.owner(device, $contexts.a.handle()).expect("memory");
    };
}

mod bench;
mod entries;
mod flights;
mod limits;
mod owners;
mod store;
mod threads;
mod unwinding;
