//! [`AshDevice`] over a real driver: the first device that the loader shows. A process of its own.
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
    live::run(tests::TESTS, |test, live| test(live));
}
