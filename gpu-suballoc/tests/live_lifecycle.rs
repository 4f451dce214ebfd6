//! Contexts on real drivers: a thousand cycles and refusals on the first device that the loader shows, two drivers in one process,
//! each under the validation layer, and a defragmentation there. A process of its own.
#![cfg_attr(
    not(feature = "ash"),
    allow(unused, reason = "there is nothing to test")
)]

#[cfg(feature = "ash")]
#[path = "live_lifecycle/counting.rs"]
mod counting;
#[cfg(feature = "ash")]
#[path = "live_lifecycle/cycles.rs"]
mod cycles;
#[cfg(feature = "ash")]
#[path = "live_lifecycle/defragmented.rs"]
mod defragmented;
#[cfg(feature = "ash")]
#[path = "live_lifecycle/layer.rs"]
mod layer;
#[cfg(feature = "ash")]
#[allow(dead_code, unused_imports, reason = "each test binary uses its part")]
mod live;
#[cfg(feature = "ash")]
#[path = "live_lifecycle/refusals.rs"]
mod refusals;
#[cfg(feature = "ash")]
#[path = "live_lifecycle/sweep.rs"]
mod sweep;
#[cfg(feature = "ash")]
#[path = "live_lifecycle/two.rs"]
mod two;
#[cfg(feature = "ash")]
#[path = "live_lifecycle/validated.rs"]
mod validated;

fn main() {
    #[cfg(feature = "ash")]
    {
        if sweep::is_child() {
            return sweep::child();
        }
        live::run(cycles::TESTS, |test, live| test(live));
        live::run(refusals::TESTS, |test, live| test(live));
        if let Some(manifest) = testkit::swiftshader() {
            // SAFETY: no other thread runs: the drivers' went with their devices.
            unsafe { std::env::set_var("VK_ADD_DRIVER_FILES", manifest) };
        }
        two::run();
        sweep::run();
        validated::run();
        defragmented::run();
    }
}
