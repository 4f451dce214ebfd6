//! All tests of the crate that may share a process. Beside this file stand those that install a global allocator.

mod application_side;
mod bridge;
mod callback_stream;
mod checker;
mod command_brackets;
mod command_table;
mod common;
mod driver_objects;
mod driver_side;
#[cfg(not(miri))]
mod examples;
mod fake_driver;
mod fallible;
#[cfg(all(target_os = "linux", not(miri)))]
mod forks;
mod hostile_traces;
mod judge;
mod operations;
mod recorder;
mod recorder_stream;
mod reentry;
mod sweep;
mod trace_programs;
mod trace_reader;
mod trace_text;
