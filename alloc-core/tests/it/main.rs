//! All tests of the crate that may share a process. Beside this file stand those that install a global allocator or
//! count the threads of the process.

mod arena;
mod arena_drops;
mod clear;
mod collections;
mod context;
#[cfg(not(miri))]
mod examples;
mod foreign;
#[cfg(all(target_os = "linux", not(miri)))]
mod forks;
mod limits;
#[cfg(not(miri))]
mod long_programs;
mod operations;
mod owned;
mod owned_large;
mod owned_moves;
mod owned_order;
mod owned_programs;
mod owned_races;
mod owned_threads;
#[cfg_attr(miri, expect(dead_code, reason = "miri runs short programs alone"))]
mod programs;
#[cfg(not(miri))]
mod quiet_points;
mod reentry;
mod refusals;
mod requester;
mod scene;
mod snapshot;
mod sums;
mod sweep;
mod tagged;
mod two_panics;
mod witness;
mod words;
