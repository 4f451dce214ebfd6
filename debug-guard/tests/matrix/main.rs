//! Rows T01 to T46 of the contract: what a guard must report, and what it must not.
//!
//! Each row is a misuse of one block. It runs in a process of its own, under a guard of every mode, place and back end
//! that the row speaks of and that this kernel offers; what the process said in its line of JSON, and how it ended, is
//! judged here.

#![cfg(any(
    all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"),
    all(windows, target_arch = "x86_64")
))]

#[allow(dead_code, reason = "the matrix of Vulkan's rows uses the rest")]
mod common;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

mod freed;
mod layouts;
mod leaks;
mod mistakes;
mod overflow;
mod owners;
mod refusing;
mod sampled;
mod strays;
mod suite24;
mod underflow;
