//! All tests of the crate that may share a process. Beside this file stand those that install a global allocator, and
//! the matrix: some of its mistakes write over what the C library keeps behind a block, and what that is depends on how
//! many tests the binary has.

mod back_ends;
mod example;
mod failing;
mod fibers;
mod guard;
mod guard_ops;
mod landed;
mod operations;
mod options;
mod racing_frees;
mod reenters;
mod sweep;
#[cfg(all(target_os = "linux", not(miri)))]
mod terminal;
mod traits;
mod unloaded;
mod windows;
