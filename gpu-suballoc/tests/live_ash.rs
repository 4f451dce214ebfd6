//! Regions on a real device: the first one that the loader shows. What only a driver can answer; everything else is seen on the mock device.
//! A process of its own.
#![cfg_attr(
    not(feature = "ash"),
    allow(unused, reason = "there is nothing to test")
)]

#[cfg(feature = "ash")]
#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
mod live;
#[cfg(feature = "ash")]
#[path = "live_ash/tests.rs"]
mod tests;

fn main() {
    #[cfg(feature = "ash")]
    tests::run();
}
