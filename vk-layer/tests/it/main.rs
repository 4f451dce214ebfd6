//! Tests of the layer: over a loader and a driver that are made up, and on lavapipe.

mod accounts;
mod brackets;
#[cfg(unix)] // the program in C runs on a driver of Linux
mod c_client;
#[cfg(unix)] // vulkaninfo is a program of Linux here
mod client;
mod deferred;
mod driver;
mod every_command;
mod fake;
mod faults;
#[cfg(unix)]
mod fork;
#[cfg(unix)] // signals
mod handlers;
mod headers;
mod in_process;
mod judging;
#[cfg(windows)]
mod library;
mod memory_budget;
mod memory_report;
#[cfg(unix)] // the limit of a process's memory
mod no_memory;
mod owners;
mod panics;
mod report_numbers;
mod requests;
#[cfg(unix)] // users, rights, links and pipes
mod security;
#[cfg(unix)] // layers in C on a driver of Linux
mod stacked;
mod state;
mod system;
mod timeline;
mod untouched;
