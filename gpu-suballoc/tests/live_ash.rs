//! Regions on a real device: the first one that the loader shows. What only a driver can answer; everything else is seen on the mock device.
//! A process of its own.

#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
mod live;
#[path = "live_ash/tests.rs"]
mod tests;

fn main() {
    tests::run();
}
