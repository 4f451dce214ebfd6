//! The shader cache: rows H58 to H75 of the contract.

use crate::*;
use bench::*;

/// Contexts, counts of shaders, a cache, and an owner of a device of its own.
macro_rules! cache_scene {
    ($contexts:ident, $counts:ident, $cache:ident $(, $owner:ident)?) => {
        let ($contexts, $counts) = (Contexts::new(), Counts::default());
        let $cache = $contexts.cache();
        $(let $owner = own(&$cache, CacheDevice::new_unique(), &$contexts.a);)?
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
