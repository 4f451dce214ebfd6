//! All tests of the program that may share a process. Beside this file stand those that set the environment, meter the heap or open a
//! driver themselves.

mod call_sites;
mod check;
mod chromium;
mod cli;
mod clients;
mod device_memory;
mod devices;
mod diff;
mod drive_layer;
mod ended;
mod fail;
mod first_use;
mod guard_matrix;
mod guarded;
mod hostile_input;
mod leaks;
mod metered;
mod named_files;
mod page;
mod past_callbacks;
mod profile;
mod reference;
mod reference_loaded;
mod replay;
mod report_format;
mod run;
mod shaders;
mod sharing;
mod stacks;
mod support;
mod symbols;
mod terminal;
mod text;
mod vkcube;
mod words;
