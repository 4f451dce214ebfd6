//! Contexts on an application's device, rows H1 to H31, over a driver in this process that notes what it is asked.
#![cfg(feature = "ash")]

mod acquire;
mod dispatch;
mod fake;
mod kernels;
mod meanwhile;
mod release;
mod scene;
mod sharing;
mod sweeps;
