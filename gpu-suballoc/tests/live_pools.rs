//! Regions on a real device: what only a driver can answer. Everything else of an allocator is seen on the mock device.

#![cfg_attr(
    not(feature = "ash"),
    allow(unused, reason = "there is nothing to test")
)]

#[cfg(feature = "ash")]
#[path = "live_pools/cases.rs"]
mod cases;
#[cfg(feature = "ash")]
#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
mod live;

fn main() {
    #[cfg(feature = "ash")]
    cases::run();
}
