//! Tests of the layer: over a loader and a driver that are made up, and on lavapipe.

mod accounts;
mod brackets;
mod c_client;
mod client;
mod deferred;
mod driver;
mod fake;
mod faults;
mod fork;
mod handlers;
mod headers;
mod in_process;
mod judging;
mod memory_report;
mod owners;
mod panics;
mod report_numbers;
mod requests;
mod security;
mod stacked;
mod state;
mod timeline;
mod untouched;
