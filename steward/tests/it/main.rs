//! All tests of the program that may share a process. Beside this file stand those that set the environment, meter the
//! heap or open a driver themselves. They are for Linux, as `steward/tests/windows.rs` says.

#![cfg(unix)]

mod call_sites;
mod check;
mod chromium;
mod cli;
mod clients;
mod diff;
mod driver_report;
mod ended;
mod fail;
mod first_use;
mod gate;
mod guard_matrix;
mod guarded;
mod hostile_input;
mod installed;
mod leaks;
mod metered;
mod named_files;
mod neighbours;
mod observers_agree;
mod overlays;
mod page;
mod past_callbacks;
mod profile;
mod reference;
mod reference_loaded;
mod replay;
mod report_format;
mod requests;
mod run;
mod shaders;
mod shared_machine;
mod signals;
mod stacks;
mod support;
mod symbols;
mod terminal;
mod text;
mod top_screen;
mod validated;
mod vkcube;
mod words;
